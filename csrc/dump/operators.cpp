#include "dump/operators.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>

#include "acl/json.h"
#include "dump/session.h"

namespace npu::dump {

namespace {

std::atomic<int64_t> g_step{0};
thread_local std::vector<Operator> t_operators;

struct Place : at::ObserverContext {
  explicit Place(size_t depth) : depth(depth) {}
  const size_t depth;  // of the thread's operators before this one
};

std::string json(double value) {
  if (std::isnan(value)) return "{\"number\": \"nan\"}";
  if (std::isinf(value)) return value > 0 ? "{\"number\": \"inf\"}" : "{\"number\": \"-inf\"}";
  char text[32];
  snprintf(text, sizeof(text), "%.17g", value);
  return strpbrk(text, ".e") ? text : std::string(text) + ".0";
}

std::string json(const c10::Scalar& s) {
  if (s.isBoolean()) return s.toBool() ? "true" : "false";
  if (s.isIntegral(false)) return std::to_string(s.toLong());
  if (s.isFloatingPoint()) return json(s.toDouble());
  const auto z = s.toComplexDouble();
  return "{\"complex\": [" + json(z.real()) + ", " + json(z.imag()) + "]}";
}

// What Python gave as a number. Read without the dispatcher, whose observer this is.
std::string number(const at::Tensor& t) {
  const void* value = t.storage().data();
  if (value && t.scalar_type() == at::kDouble) return json(*static_cast<const double*>(value));
  if (value && t.scalar_type() == at::kLong) return std::to_string(*static_cast<const int64_t*>(value));
  if (value && t.scalar_type() == at::kBool) return *static_cast<const bool*>(value) ? "true" : "false";
  return R"({"unsupported": "a complex number"})";
}

std::string json(const at::Tensor& t, bool is_out, Operator& op) {
  if (!t.defined()) return "null";
  if (t.unsafeGetTensorImpl()->is_wrapped_number() && t.device().is_cpu()) return number(t);
  if (!t.has_storage()) return R"({"unsupported": "a tensor without storage"})";
  op.tensors.push_back({t.storage().data(), t.storage_offset(), t.sizes().vec(), is_out});
  return c10::str("{\"tensor\": ", op.tensors.size() - 1, "}");
}

std::string json(const c10::IValue& value, bool is_out, Operator& op) {
  if (value.isNone()) return "null";
  if (value.isTensor()) return json(value.toTensor(), is_out, op);
  if (value.isBool()) return value.toBool() ? "true" : "false";
  if (value.isString()) return quoted(value.toStringRef());
  if (value.isScalar()) return json(value.toScalar());
  if (value.isDevice()) return "{\"device\": " + quoted(value.toDevice().str()) + "}";
  if (!value.isList()) return "{\"unsupported\": " + quoted(value.tagKind()) + "}";
  std::string items;
  for (const c10::IValue& each : value.toListRef()) items += (items.empty() ? "" : ", ") + json(each, is_out, op);
  return "[" + items + "]";
}

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  const size_t depth = t_operators.size();
  Operator op;
  op.name = function.name();
  if (const auto schema = function.operator_schema()) {
    op.in_dispatcher = true;
    op.overload = schema->overload_name();
    const auto inputs = function.inputs();
    for (size_t i = 0; i < inputs.size() && i < schema->arguments().size(); i++)
      op.arguments += (i ? ", " : "") + json(inputs[i], schema->arguments()[i].is_out(), op);
  }
  t_operators.push_back(std::move(op));
  return std::make_unique<Place>(depth);
}

std::unique_ptr<at::ObserverContext> enter_named(const at::RecordFunction& function) {
  const size_t depth = t_operators.size();
  Operator op;
  op.name = function.name();
  op.in_dispatcher = function.operator_name().has_value();
  t_operators.push_back(std::move(op));
  return std::make_unique<Place>(depth);
}

void leave(const at::RecordFunction& function, at::ObserverContext* context) {
  if (!context) return;
  t_operators.resize(std::min(t_operators.size(), static_cast<Place*>(context)->depth));
  if (std::string_view(function.name()).starts_with("Optimizer.step#")) g_step++;
}

}  // namespace

const std::vector<Operator>& operators() { return t_operators; }

const Operator* innermost() {
  for (auto op = t_operators.rbegin(); op != t_operators.rend(); ++op)
    if (op->in_dispatcher) return &*op;
  return nullptr;
}

std::string scope() {
  const auto* inner = innermost();
  std::string names;
  for (const auto& op : t_operators) {
    if (&op == inner) break;
    names += (names.empty() ? "" : " > ") + op.name;
  }
  return names;
}

int64_t step() { return g_step.load(std::memory_order_relaxed); }

void observe_operators(watchers::Watcher watcher, bool on) {
  static std::mutex mutex;
  static std::optional<at::CallbackHandle> handle;
  static uint8_t observers = 0;
  std::lock_guard lock(mutex);
  observers = on ? observers | watcher : observers & ~watcher;
  if (handle) at::removeCallback(*handle);
  handle.reset();
  if (on && watcher == watchers::dump) g_step = 0;
  if (observers & watchers::dump)
    handle = at::addGlobalCallback(at::RecordFunctionCallback(&enter, &leave).needsInputs(true));
  else if (observers)
    handle = at::addGlobalCallback(at::RecordFunctionCallback(&enter_named, &leave));
}

}  // namespace npu::dump
