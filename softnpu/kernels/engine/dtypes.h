// ACL data types and scalars in torch's terms.
#pragma once

#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "runtime/objects.h"

namespace softnpu::kernels {

std::optional<c10::ScalarType> scalar_type(aclDataType dtype);
c10::Scalar to_scalar(const aclScalar& scalar);

}  // namespace softnpu::kernels
