#include "comm/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace {

template <class T>
std::vector<T> reduce(uint32_t type, uint32_t op, const std::vector<std::vector<T>>& inputs) {
  std::vector<const char*> from;
  for (const auto& input : inputs) from.push_back(reinterpret_cast<const char*>(input.data()));
  std::vector<T> result(inputs[0].size());
  char* to[] = {reinterpret_cast<char*>(result.data())};
  softnpu::comm::reduce(type, op, from.data(), from.size(), to, 1, result.size());
  return result;
}

float from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float value = exponent == 0    ? std::ldexp(float(mantissa), -24)
                : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                 : std::ldexp(float(mantissa + 1024), exponent - 25);
  return bits & 0x8000 ? -value : value;
}

}  // namespace

// x + (-0) is x: every half goes through the conversions and comes back.
TEST(Reduce, every_half_survives) {
  std::vector<uint16_t> all(65536), zeros(65536, 0x8000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  const auto result = reduce<uint16_t>(HCCL_DATA_TYPE_FP16, HCCL_REDUCE_SUM, {all, zeros});
  for (size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(from_half(all[i])))
      ASSERT_TRUE(std::isnan(from_half(result[i]))) << i;
    else
      ASSERT_EQ(result[i], all[i]) << i;
  }
}

TEST(Reduce, half_sums_round_to_nearest_even) {
  // 2048 + 1 lies between 2048 and 2050, 2050 + 1 between 2050 and 2052: both go to the even mantissa.
  const uint16_t one = 0x3c00, two_thousand = 0x6800, next = 0x6801, after = 0x6802, largest = 0x7bff,
                 infinity = 0x7c00;
  const auto sums =
      reduce<uint16_t>(HCCL_DATA_TYPE_FP16, HCCL_REDUCE_SUM, {{two_thousand, next, largest}, {one, one, largest}});
  EXPECT_EQ(sums, (std::vector<uint16_t>{two_thousand, after, infinity}));
  // Accumulated in float: 2048 + 1 + 1 is 2050 though 2048 + 1 alone is not a half.
  EXPECT_EQ(reduce<uint16_t>(HCCL_DATA_TYPE_FP16, HCCL_REDUCE_SUM, {{two_thousand}, {one}, {one}})[0], next);
}

TEST(Reduce, bfloat16_rounds_and_keeps_nan) {
  const uint16_t one = 0x3f80, tiny = 0x3b80 /* 2^-8 */, nan = 0x7fc0, infinity = 0x7f80;
  const auto sums = reduce<uint16_t>(HCCL_DATA_TYPE_BFP16, HCCL_REDUCE_SUM, {{one, nan, infinity}, {tiny, one, one}});
  EXPECT_EQ(sums[0], one);  // a tie: to even
  EXPECT_EQ(sums[1] & 0x7fff, nan);
  EXPECT_EQ(sums[2], infinity);
}

TEST(Reduce, nan_wins_in_either_place) {
  for (uint32_t op : {HCCL_REDUCE_MAX, HCCL_REDUCE_MIN}) {
    const auto result = reduce<float>(HCCL_DATA_TYPE_FP32, op, {{NAN, 1.f}, {1.f, NAN}});
    EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]));
  }
}

TEST(Reduce, integers_wrap_around) {
  EXPECT_EQ(reduce<int8_t>(HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, {{127}, {1}})[0], -128);
  EXPECT_EQ(reduce<uint16_t>(HCCL_DATA_TYPE_UINT16, HCCL_REDUCE_PROD, {{65535}, {65535}})[0], 1);
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(reduce<int64_t>(HCCL_DATA_TYPE_INT64, HCCL_REDUCE_SUM, {{most}, {1}})[0],
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(reduce<uint64_t>(HCCL_DATA_TYPE_UINT64, HCCL_REDUCE_MAX, {{~0ull}, {1}})[0], ~0ull);
}
