#include "ops/families/cube_math.h"

#include <atomic>

#include "ops/tensor.h"

namespace npu::ops {

namespace {

// The official plugin's defaults: convolutions may use HF32, matrix products may not.
std::atomic<int8_t> g_convolution{3};
std::atomic<int8_t> g_product{0};

}  // namespace

int8_t cube_math_type() { return g_product.load(std::memory_order_relaxed); }
int8_t convolution_math_type() { return g_convolution.load(std::memory_order_relaxed); }
void set_convolution_math_type(int8_t type) { g_convolution.store(type, std::memory_order_relaxed); }
void set_product_math_type(int8_t type) { g_product.store(type, std::memory_order_relaxed); }

}  // namespace npu::ops
