#include "kernels/engine/dtypes.h"

#include <cstring>

#include "runtime/error.h"

namespace softnpu::kernels {

using c10::ScalarType;

std::optional<ScalarType> scalar_type(aclDataType dtype) {
  switch (dtype) {
    case ACL_FLOAT:
      return ScalarType::Float;
    case ACL_FLOAT16:
      return ScalarType::Half;
    case ACL_BF16:
      return ScalarType::BFloat16;
    case ACL_DOUBLE:
      return ScalarType::Double;
    case ACL_INT8:
      return ScalarType::Char;
    case ACL_INT16:
      return ScalarType::Short;
    case ACL_INT32:
      return ScalarType::Int;
    case ACL_INT64:
      return ScalarType::Long;
    case ACL_UINT8:
      return ScalarType::Byte;
    case ACL_UINT16:
      return ScalarType::UInt16;
    case ACL_UINT32:
      return ScalarType::UInt32;
    case ACL_UINT64:
      return ScalarType::UInt64;
    case ACL_BOOL:
      return ScalarType::Bool;
    case ACL_COMPLEX32:
      return ScalarType::ComplexHalf;
    case ACL_COMPLEX64:
      return ScalarType::ComplexFloat;
    case ACL_COMPLEX128:
      return ScalarType::ComplexDouble;
    case ACL_FLOAT8_E5M2:
      return ScalarType::Float8_e5m2;
    case ACL_FLOAT8_E4M3FN:
      return ScalarType::Float8_e4m3fn;
    case ACL_FLOAT8_E8M0:
      return ScalarType::Float8_e8m0fnu;
    case ACL_FLOAT4_E2M1:
      return ScalarType::Float4_e2m1fn_x2;
    // Torch has no such numbers; its types of bits keep them apart from bytes, and ATen computes with neither.
    case ACL_FLOAT4_E1M2:
      return ScalarType::Bits4x2;
    case ACL_HIFLOAT8:
      return ScalarType::Bits8;
    default:
      return std::nullopt;
  }
}

namespace {
template <class T>
T read(const aclScalar& s) {
  T value;
  memcpy(&value, s.value, sizeof(T));
  return value;
}
}  // namespace

c10::Scalar to_scalar(const aclScalar& s) {
  switch (s.dtype) {
    case ACL_FLOAT:
      return read<float>(s);
    case ACL_FLOAT16:
      return read<c10::Half>(s);
    case ACL_BF16:
      return read<c10::BFloat16>(s);
    case ACL_DOUBLE:
      return read<double>(s);
    case ACL_INT8:
      return read<int8_t>(s);
    case ACL_INT16:
      return read<int16_t>(s);
    case ACL_INT32:
      return read<int32_t>(s);
    case ACL_INT64:
      return read<int64_t>(s);
    case ACL_UINT8:
      return read<uint8_t>(s);
    case ACL_UINT16:
      return read<uint16_t>(s);
    case ACL_UINT32:
      return read<uint32_t>(s);
    case ACL_UINT64:
      return read<uint64_t>(s);
    case ACL_BOOL:
      return read<bool>(s);
    case ACL_COMPLEX64:
      return read<c10::complex<float>>(s);
    case ACL_COMPLEX128:
      return read<c10::complex<double>>(s);
    default:
      fail(ACLNN_ERR_PARAM_INVALID, "a scalar of data type %d is not supported", s.dtype);
  }
}

}  // namespace softnpu::kernels
