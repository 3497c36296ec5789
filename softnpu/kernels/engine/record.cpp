#include "kernels/engine/record.h"

#include <cmath>
#include <cstring>
#include <map>

#include "kernels/engine/dtypes.h"
#include "runtime/record.h"

namespace softnpu::kernels {

namespace {

std::string number(double value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  char text[40];
  snprintf(text, sizeof text, "%.17g", value);
  return text;
}

template <class List, class Text>
std::string list(const List& values, Text&& text) {
  std::string all = "[";
  for (const auto& value : values) all += (all.size() > 1 ? "," : "") + text(value);
  return all + "]";
}

template <class T>
std::string numbers(const std::vector<T>& values) {
  return list(values, [](T value) { return std::to_string(value); });
}

class Writer {
 public:
  std::string text(const Argument& a) {
    using Kind = Argument::Kind;
    switch (a.kind) {
      case Kind::tensor:
        return object<aclTensor>(a, [&](const aclTensor& t) { return tensor(t); });
      case Kind::tensor_list:
        return object<aclTensorList>(
            a, [&](const aclTensorList& all) { return held(all, [&](const aclTensor& t) { return tensor(t); }); });
      case Kind::scalar:
        return object<aclScalar>(a, scalar);
      case Kind::scalar_list:
        return object<aclScalarList>(a, [](const aclScalarList& all) { return held(all, scalar); });
      case Kind::ints:
        return object<aclIntArray>(a, [](const aclIntArray& array) { return numbers(array.values); });
      case Kind::bools:
        return object<aclBoolArray>(a, [](const aclBoolArray& array) { return numbers(array.values); });
      case Kind::integer:
      case Kind::dtype:
        return std::to_string(a.integer);
      case Kind::real:
        return number(a.real);
      case Kind::text:
        return a.pointer ? quoted(static_cast<const char*>(a.pointer)) : "null";
    }
    return "null";
  }

 private:
  template <class T, class Text>
  static std::string object(const Argument& a, Text&& text) {
    const Held<T> held(static_cast<const T*>(a.pointer));
    return held ? text(*held) : "null";
  }

  template <class List, class Text>
  static std::string held(const List& all, Text&& text) {
    return list(all.values, [&](const auto& each) {
      const Held element(each);
      return element ? text(*element) : "null";
    });
  }

  std::string tensor(const aclTensor& t) {
    const size_t memory = seen_.emplace(t.data, seen_.size()).first->second;
    const auto stored = t.storage_sizes.empty() ? std::vector<int64_t>{t.storage_elements} : t.storage_sizes;
    return "{\"t\":" + numbers(t.sizes) + ",\"s\":" + numbers(t.strides) + ",\"o\":" + std::to_string(t.offset) +
           ",\"d\":" + std::to_string(t.dtype) + ",\"m\":" + std::to_string(t.format) + ",\"n\":" + numbers(stored) +
           ",\"p\":" + std::to_string(memory) + "}";
  }

  static std::string scalar(const aclScalar& s) {
    const auto value = to_scalar(s);
    const std::string text = value.isComplex()         ? "[" + number(value.toComplexDouble().real()) + "," +
                                                             number(value.toComplexDouble().imag()) + "]"
                             : value.isFloatingPoint() ? number(value.toDouble())
                                                       : std::to_string(value.to<int64_t>());
    return "{\"S\":" + std::to_string(s.dtype) + ",\"v\":" + text + "}";
  }

  static std::string quoted(const char* text) {
    std::string all = "\"";
    for (; *text; text++) all += *text == '"' || *text == '\\' || *text < ' ' ? '?' : *text;
    return all + "\"";
  }

  std::map<const void*, size_t> seen_;
};

}  // namespace

void note_arguments(const Operator& op, std::initializer_list<Argument> arguments) {
  Writer writer;
  const char* name = op.arguments;
  for (const auto& argument : arguments) {
    const char* end = strchrnul(name, ',');
    note_json(std::string(name, end).c_str(), writer.text(argument));
    name = *end ? end + 1 : end;
  }
}

}  // namespace softnpu::kernels
