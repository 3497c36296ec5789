#include "aclnn/dtype.h"

#include <c10/util/Exception.h>

#include <array>

namespace npu::ops {

namespace {

constexpr aclDataType find_acl_type(at::ScalarType dtype) {
  using S = at::ScalarType;
  switch (dtype) {
    case S::Float:
      return ACL_FLOAT;
    case S::Half:
      return ACL_FLOAT16;
    case S::BFloat16:
      return ACL_BF16;
    case S::Double:
      return ACL_DOUBLE;
    case S::Char:
      return ACL_INT8;
    case S::Short:
      return ACL_INT16;
    case S::Int:
      return ACL_INT32;
    case S::Long:
      return ACL_INT64;
    case S::Byte:
      return ACL_UINT8;
    case S::UInt16:
      return ACL_UINT16;
    case S::UInt32:
      return ACL_UINT32;
    case S::UInt64:
      return ACL_UINT64;
    case S::Bool:
      return ACL_BOOL;
    case S::ComplexHalf:
      return ACL_COMPLEX32;
    case S::ComplexFloat:
      return ACL_COMPLEX64;
    case S::ComplexDouble:
      return ACL_COMPLEX128;
    case S::Float8_e5m2:
      return ACL_FLOAT8_E5M2;
    case S::Float8_e4m3fn:
      return ACL_FLOAT8_E4M3FN;
    case S::Float8_e8m0fnu:
      return ACL_FLOAT8_E8M0;
    case S::Float4_e2m1fn_x2:
      return ACL_FLOAT4_E2M1;
    default:
      return ACL_DT_UNDEFINED;
  }
}

constexpr auto kNumbers = [] {
  std::array<aclDataType, static_cast<size_t>(at::ScalarType::NumOptions)> numbers{};
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] = find_acl_type(static_cast<at::ScalarType>(i));
  return numbers;
}();

aclDataType number_of(at::ScalarType dtype) {
  const auto i = static_cast<size_t>(dtype);
  return i < kNumbers.size() ? kNumbers[i] : ACL_DT_UNDEFINED;
}

}  // namespace

bool has_acl_type(at::ScalarType dtype) { return number_of(dtype) != ACL_DT_UNDEFINED; }

aclDataType acl_type(at::ScalarType dtype) {
  const auto type = number_of(dtype);
  // Not a TypeError: Python would go on to the reflected operator, and take == for the question whether they are one
  // object.
  TORCH_CHECK_NOT_IMPLEMENTED(type != ACL_DT_UNDEFINED, "npu operators do not take tensors of type ", dtype,
                              "; convert to a supported type first");
  return type;
}

}  // namespace npu::ops
