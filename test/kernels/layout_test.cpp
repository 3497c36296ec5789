// Kernels that ATen writes for dense outputs, with outputs that are not.
#include "operators.h"

class Layout : public test::Named {
 protected:
  // Another view of the memory of `t`.
  static aclTensor* view(const test::DeviceTensor<float>& t, std::vector<int64_t> sizes, std::vector<int64_t> strides,
                         int64_t reach) {
    return ACL(aclCreateTensor)(sizes.data(), sizes.size(), ACL_FLOAT, strides.data(), 0, ACL_FORMAT_ND, &reach, 1,
                                t.memory());
  }
};

TEST_F(Layout, lu_writes_no_further_than_its_outputs_reach) {
  auto a = test::filled({3, 3, 3, 3}, 1), p = test::filled({3, 3, 3, 3}), u = test::filled({3, 3, 3, 3});
  auto memory = test::filled({81}, 7);
  constexpr int64_t kReach = 31;
  aclTensor* const l = view(memory, {3, 3, 3, 3}, {2, 9, 3, 1}, kReach);
  ASSERT_OK(run("softnpuLu", a.handle, true, p.handle, l, u.handle));
  const auto values = memory.read();
  EXPECT_EQ(std::vector<float>(values.begin() + kReach, values.end()), std::vector<float>(81 - kReach, 7));
  ACL(aclDestroyTensor)(l);
}

TEST_F(Layout, gradients_of_softmax_have_the_strides_of_their_output) {
  test::DeviceTensor<float> grad({2, 2}, ACL_FLOAT, {1, 0, 0, 0}), y({2, 2}, ACL_FLOAT, {0.5, 0.5, 0.5, 0.5});
  auto memory = test::filled({4});
  aclTensor* const out = view(memory, {2, 2}, {1, 2}, 4);
  ASSERT_OK(run("aclnnSoftmaxBackward", grad.handle, y.handle, int64_t{1}, out));
  EXPECT_EQ(memory.read(), (std::vector<float>{0.25, 0, -0.25, 0}));
  test::DeviceTensor<float> logarithms({2, 2}, ACL_FLOAT, {0, 0, 0, 0});
  ASSERT_OK(run("aclnnLogSoftmaxBackward", grad.handle, logarithms.handle, int64_t{1}, out));
  EXPECT_EQ(memory.read(), (std::vector<float>{0, 0, -1, 0}));
  ACL(aclDestroyTensor)(out);
}
