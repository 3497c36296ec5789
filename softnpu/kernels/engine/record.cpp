#include "kernels/engine/record.h"

#include <algorithm>
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

bool is_contiguous(const aclTensor& t) {
  int64_t stride = 1;
  for (size_t i = t.sizes.size(); i-- > 0; stride *= std::max<int64_t>(t.sizes[i], 1))
    if (t.sizes[i] != 1 && t.strides[i] != stride) return false;
  return true;
}

template <class T>
std::string numbers(const std::vector<T>& values) {
  return list(values, [](T value) { return std::to_string(value); });
}

// Numbers that choose between few ways are part of a call's form.
std::string choice(int64_t value) { return value >= -8 && value <= 32 ? std::to_string(value) : "n"; }

class Writer {
 public:
  std::string form;  // of the arguments so far: what is left of them without sizes and numbers

  std::string text(const Argument& a) {
    using Kind = Argument::Kind;
    switch (a.kind) {
      case Kind::tensor:
        return object<aclTensor>(a, [&](const aclTensor& t) { return tensor(t); });
      case Kind::tensor_list:
        return object<aclTensorList>(
            a, [&](const aclTensorList& all) { return held(all, [&](const aclTensor& t) { return tensor(t); }); });
      case Kind::scalar:
        return object<aclScalar>(a, [&](const aclScalar& s) { return scalar(s); });
      case Kind::scalar_list:
        return object<aclScalarList>(
            a, [&](const aclScalarList& all) { return held(all, [&](const aclScalar& s) { return scalar(s); }); });
      case Kind::ints:
        return object<aclIntArray>(a, [&](const aclIntArray& array) {
          form += 'i' + std::to_string(array.values.size()) + ';';
          return numbers(array.values);
        });
      case Kind::bools:
        return object<aclBoolArray>(a, [&](const aclBoolArray& array) {
          const std::string text = numbers(array.values);
          form += text;
          return text;
        });
      case Kind::integer:
      case Kind::dtype:
        form += choice(a.integer) + ';';
        return std::to_string(a.integer);
      case Kind::real:
        return number(a.real);
      case Kind::text: {
        const std::string text = a.pointer ? quoted(static_cast<const char*>(a.pointer)) : "null";
        form += text;
        return text;
      }
    }
    return "null";
  }

 private:
  template <class T, class Text>
  std::string object(const Argument& a, Text&& text) {
    const Held<T> held(static_cast<const T*>(a.pointer));
    if (!held) form += "0;";
    return held ? text(*held) : "null";
  }

  template <class List, class Text>
  std::string held(const List& all, Text&& text) {
    form += 'l' + std::to_string(all.values.size()) + ':';
    return list(all.values, [&](const auto& each) {
      const Held element(each);
      return element ? text(*element) : "null";
    });
  }

  std::string tensor(const aclTensor& t) {
    form += 't' + std::to_string(t.dtype) + ',' + std::to_string(t.sizes.size()) + ',' + std::to_string(t.format) +
            (is_contiguous(t) ? ";" : "s;");
    const size_t memory = seen_.emplace(t.data, seen_.size()).first->second;
    const auto stored = t.storage_sizes.empty() ? std::vector<int64_t>{t.storage_elements} : t.storage_sizes;
    return "{\"t\":" + numbers(t.sizes) + ",\"s\":" + numbers(t.strides) + ",\"o\":" + std::to_string(t.offset) +
           ",\"d\":" + std::to_string(t.dtype) + ",\"m\":" + std::to_string(t.format) + ",\"n\":" + numbers(stored) +
           ",\"p\":" + std::to_string(memory) + "}";
  }

  std::string scalar(const aclScalar& s) {
    form += 's' + std::to_string(s.dtype) + ';';
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
    writer.form = ' ';
    const std::string text = writer.text(argument);
    note_json(std::string(name, end).c_str(), text, writer.form);
    name = *end ? end + 1 : end;
  }
}

}  // namespace softnpu::kernels
