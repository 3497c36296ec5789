// Random kernels: Philox's published values, and independence from threads, streams and shapes.
#include <cmath>

#include "kernels/families/philox.h"
#include "operators.h"

using softnpu::kernels::philox;

TEST(Philox, known_answers) {
  // The reference vectors of Philox4x32-10: counter and key all zeros, all ones.
  EXPECT_EQ(philox(0, 0, 0), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull), (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

class Random : public test::OnDevice {
 protected:
  std::vector<float> uniform(size_t count, int64_t seed, int64_t offset) {
    test::DeviceTensor<float> t({static_cast<int64_t>(count)}, ACL_FLOAT, std::vector<float>(count, -1));
    uint64_t workspace = 0;
    aclOpExecutor* executor = nullptr;
    EXPECT_OK(ACL(aclnnInplaceUniformGetWorkspaceSize)(t.handle, 0, 1, seed, offset, &workspace, &executor));
    EXPECT_OK(ACL(aclnnInplaceUniform)(nullptr, 0, executor, nullptr));
    EXPECT_OK(ACL(aclrtSynchronizeDevice)());
    return t.read();
  }
};

TEST_F(Random, same_seed_gives_the_same_numbers_and_another_does_not) {
  EXPECT_EQ(uniform(1000, 1, 0), uniform(1000, 1, 0));
  EXPECT_NE(uniform(1000, 1, 0), uniform(1000, 2, 0));
}

TEST_F(Random, number_depends_on_its_place_in_the_stream_alone) {
  const auto all = uniform(100000, 7, 0), tail = uniform(99000, 7, 4 * 1000);
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), all.begin() + 1000));
}

TEST_F(Random, uniform_is_uniform) {
  const auto values = uniform(200000, 3, 0);
  double sum = 0, squares = 0;
  for (float v : values) {
    ASSERT_GE(v, 0);
    ASSERT_LT(v, 1);
    sum += v, squares += double{v} * v;
  }
  EXPECT_NEAR(sum / values.size(), 0.5, 0.005);
  EXPECT_NEAR(squares / values.size(), 1.0 / 3, 0.005);
}
