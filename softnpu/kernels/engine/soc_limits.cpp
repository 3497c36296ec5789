#include "kernels/engine/soc_limits.h"

#include <cstring>
#include <string>

#include "runtime/config.h"
#include "runtime/error.h"
#include "runtime/soc.h"

namespace softnpu::kernels {

namespace {

struct TypeLimit {
  uint64_t refused;    // bit d: c10::ScalarType d
  const char* socs;    // names between spaces; empty: all
  const char* except;  // operators that take the types
  const char* source;
  const char* instead;  // what to compute in
};

struct ArgumentLimit {
  const char* op;
  const char* argument;
  uint64_t accepted;
  const char* source;
  const char* instead;
};

#include "soc_limits.inc"

bool holds(uint64_t types, ScalarType type) { return types >> static_cast<int>(type) & 1; }
bool lists(const char* names, const char* name) {
  return strstr(names, (" " + std::string(name) + " ").c_str()) != nullptr;
}

struct Refusal {
  const char* source;  // who says so; null if nobody does
  const char* instead;
};

Refusal refused(const char* op, const std::string& argument, ScalarType type, const char* soc) {
  for (const auto& limit : kTypeLimits)
    if (holds(limit.refused, type) && (!*limit.socs || lists(limit.socs, soc)) && !lists(limit.except, op))
      return {limit.source, limit.instead};
  for (const auto& limit : kArgumentLimits)
    if (limit.op == std::string(op) && limit.argument == argument && !holds(limit.accepted, type))
      return {limit.source, limit.instead};
  return {};
}

void check_type(const Call& call, const std::string& argument, ScalarType type) {
  const char* soc = config().soc->name;
  if (const auto [source, instead] = refused(call.op.name, argument, type, soc); source)
    fail(ACLNN_ERR_PARAM_INVALID,
         "argument '%s' is not implemented for %s on %s: compute in %s, or on the CPU (SOFTNPU_STRICT=1, see %s)",
         argument.c_str(), std::string(c10::getDtypeNames(type).first).c_str(), soc, instead, source);
}

}  // namespace

void check_limits(const Call& call) {
  const char* name = call.op.arguments;
  for (const Value& value : call.values) {
    const char* end = strchrnul(name, ',');
    const std::string argument(name, end);
    if (auto* t = std::get_if<Tensor>(&value); t && t->defined()) check_type(call, argument, t->scalar_type());
    if (auto* list = std::get_if<std::vector<Tensor>>(&value))
      for (const Tensor& t : *list)
        if (t.defined()) check_type(call, argument, t.scalar_type());
    if (auto* type = std::get_if<ScalarType>(&value); type && *type != ScalarType::Undefined)
      check_type(call, argument, *type);
    name = *end ? end + 1 : end;
  }
}

}  // namespace softnpu::kernels
