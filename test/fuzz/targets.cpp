#include "targets.h"

#include <algorithm>
#include <sstream>

#include "library.h"

namespace fuzz {

namespace {

struct Row {
  const char *name, *result, *parameters;
};
constexpr Row kFunctions[] = {
#define FUNCTION(name, result, parameters) {name, result, parameters},
#define OPERATOR(name, parameters)
#define LEGACY(name, parameters)
#include "table.inc"
#undef FUNCTION
#undef OPERATOR
#undef LEGACY
};
constexpr Row kOperators[] = {
#define FUNCTION(name, result, parameters)
#define OPERATOR(name, parameters) {name, "", parameters},
#define LEGACY(name, parameters)
#include "table.inc"
#undef FUNCTION
#undef OPERATOR
#undef LEGACY
};
constexpr Row kLegacy[] = {
#define FUNCTION(name, result, parameters)
#define OPERATOR(name, parameters)
#define LEGACY(name, parameters) {name, "", parameters},
#include "table.inc"
#undef FUNCTION
#undef OPERATOR
#undef LEGACY
};

// What this driver cannot call sensibly.
constexpr const char* kLeftOut[] = {
    "aclrtValueWait",           // waits for a value that nobody writes
    "aclrtSubscribeReport",     // callbacks wait for a thread that never asks for them
    "aclrtIpcMemSetImportPid",  // an array without a length that can be checked
    "softnpuSleep",             // sleeps as long as it is told
    "aclnnSleep",               // the same
};

bool is_named(const Row& row, const std::string& name) { return name == row.name; }

enum class Of { functions, operators, legacy };

std::vector<Row> select(const Selection& selection, Of kind) {
  const auto named = [&](const Row& row) { return is_named(row, selection.only); };
  const bool exact = std::any_of(std::begin(kFunctions), std::end(kFunctions), named) ||
                     std::any_of(std::begin(kOperators), std::end(kOperators), named) ||
                     std::any_of(std::begin(kLegacy), std::end(kLegacy), named);
  std::vector<Row> rows;
  const auto add = [&](const Row& row) {
    if (exact ? !named(row) : std::string(row.name).find(selection.only) == std::string::npos) return;
    for (const char* name : kLeftOut)
      if (is_named(row, name)) return;
    if (!selection.without.count(row.name)) rows.push_back(row);
  };
  if (kind == Of::functions) std::for_each(std::begin(kFunctions), std::end(kFunctions), add);
  if (kind == Of::operators) std::for_each(std::begin(kOperators), std::end(kOperators), add);
  if (kind == Of::legacy) std::for_each(std::begin(kLegacy), std::end(kLegacy), add);
  return rows;
}

std::vector<Parameter> parse(const char* text) {
  std::vector<Parameter> parameters;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) {
    const size_t space = part.rfind(' ');
    parameters.push_back({part.substr(0, space), part.substr(space + 1)});
  }
  return parameters;
}

}  // namespace

std::vector<std::string> names(const Selection& selection) {
  std::vector<std::string> names;
  for (const Of kind : {Of::functions, Of::operators, Of::legacy})
    for (const Row& row : select(selection, kind)) names.push_back(row.name);
  return names;
}

Targets find(const Selection& selection) {
  Targets targets;
  for (const Row& row : select(selection, Of::functions))
    if (void* function = symbol(row.name))
      targets.functions.push_back({row.name, row.result, parse(row.parameters), function, nullptr});
  for (const Row& row : select(selection, Of::operators))
    if (void* one = symbol((std::string(row.name) + "GetWorkspaceSize").c_str()))
      targets.operators.push_back({row.name, "", parse(row.parameters), one, symbol(row.name)});
  if (void* execute = symbol("aclopCompileAndExecute"))
    for (const Row& row : select(selection, Of::legacy))
      targets.legacy.push_back({row.name, "", parse(row.parameters), execute, nullptr});
  return targets;
}

}  // namespace fuzz
