// Numbers of data types in the ABI.
#pragma once

#include <c10/core/ScalarType.h>

#include "acl_types.h"

namespace npu::ops {

bool has_acl_type(at::ScalarType dtype);     // whether the ABI has a number for it
aclDataType acl_type(at::ScalarType dtype);  // throws where it has none

}  // namespace npu::ops
