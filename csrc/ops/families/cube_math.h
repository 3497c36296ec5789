// How exact the matrix unit computes with float32, for matrix products and for convolutions (torch.npu.matmul and
// torch.npu.conv). The numbers are CANN's cubeMathType: 0 keeps float32, 1 lets the device choose a lower precision, 2
// is float16, 3 is HF32, 4 adds in float32 groups. Set and read from any thread; a call takes what holds when it is
// made.
#pragma once

#include <cstdint>

namespace npu::ops {

int8_t convolution_math_type();
void set_convolution_math_type(int8_t type);
void set_product_math_type(int8_t type);  // what cube_math_type() of tensor.h gives

}  // namespace npu::ops
