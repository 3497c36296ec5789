#include "kernels/engine/checks.h"

#include <ATen/ExpandUtils.h>

#include <sstream>

#include "runtime/error.h"

namespace softnpu::kernels {

namespace {

std::string argument(const Operator& op, size_t i) {
  std::istringstream names(op.arguments);
  std::string name;
  while (std::getline(names, name, ',') && i--) {
  }
  return name;
}

[[noreturn]] void mismatch(const Operator& op, size_t i, at::IntArrayRef got, at::IntArrayRef want) {
  std::ostringstream text;
  text << op.name << ": argument '" << argument(op, i) << "' has shape " << got << ", expected " << want;
  throw Failure(ACLNN_ERR_PARAM_INVALID, text.str());
}

bool is_output(const Operator& op, size_t i) { return op.outputs >> i & 1; }

template <class Visit>
void for_tensors(Call& call, bool outputs, Visit&& visit) {
  for (size_t i = 0; i < call.values.size(); i++)
    if (is_output(call.op, i) == outputs)
      if (auto* t = std::get_if<Tensor>(&call.values[i]); t && t->defined()) visit(i, *t);
}

void dtypes(Call& call) {
  for_tensors(call, false, [&](size_t i, const Tensor& t) {
    if (call.op.dtypes >> static_cast<int>(t.scalar_type()) & 1) return;
    std::ostringstream text;
    text << call.op.name << ": argument '" << argument(call.op, i) << "' has data type " << t.scalar_type()
         << ", expected one of";
    for (int d = 0; d < static_cast<int>(at::ScalarType::NumOptions); d++)
      if (call.op.dtypes >> d & 1) text << " " << static_cast<at::ScalarType>(d);
    throw Failure(ACLNN_ERR_PARAM_INVALID, text.str());
  });
}

// A list may have gaps only where they mean "all of this dimension".
void gaps(Call& call) {
  for (size_t i = 0; i < call.values.size(); i++) {
    const auto* list = std::get_if<std::vector<Tensor>>(&call.values[i]);
    if (!list || argument(call.op, i) == "indices") continue;
    for (const Tensor& t : *list)
      if (!t.defined())
        fail(ACLNN_ERR_PARAM_NULLPTR, "%s: argument '%s' has an element that is NULL", call.op.name,
             argument(call.op, i).c_str());
  }
}

void same(Call& call) {
  const Tensor* first = nullptr;
  auto compare = [&](size_t i, const Tensor& t) {
    if (!first)
      first = &t;
    else if (t.sizes() != first->sizes())
      mismatch(call.op, i, t.sizes(), first->sizes());
  };
  for_tensors(call, false, compare);
  for_tensors(call, true, compare);
}

void broadcast(Call& call) {
  std::vector<int64_t> shape;
  for_tensors(call, false, [&](size_t i, const Tensor& t) {
    try {
      shape = at::infer_size(shape, t.sizes());
    } catch (const c10::Error&) {
      mismatch(call.op, i, t.sizes(), shape);
    }
  });
  for_tensors(call, true, [&](size_t i, const Tensor& t) {
    if (t.sizes() != at::IntArrayRef(shape)) mismatch(call.op, i, t.sizes(), shape);
  });
}

void matmul(Call& call) {
  const Tensor *a = nullptr, *b = nullptr;
  for_tensors(call, false, [&](size_t i, const Tensor& t) {
    if (!a) {
      a = &t;
      return;
    }
    if (b) return;
    b = &t;
    if (a->dim() && b->dim() && a->size(-1) != b->size(b->dim() > 1 ? -2 : 0)) {
      std::ostringstream text;
      text << call.op.name << ": argument '" << argument(call.op, i) << "' of shape " << b->sizes()
           << " cannot be multiplied with " << a->sizes();
      throw Failure(ACLNN_ERR_PARAM_INVALID, text.str());
    }
  });
}

}  // namespace

void check(Call& call) {
  if (call.op.dtypes != ~0ull) dtypes(call);
  gaps(call);
  switch (call.op.shape) {
    case Operator::Shape::same:
      return same(call);
    case Operator::Shape::broadcast:
      return broadcast(call);
    case Operator::Shape::matmul:
      return matmul(call);
    case Operator::Shape::free:
      return;
  }
}

}  // namespace softnpu::kernels
