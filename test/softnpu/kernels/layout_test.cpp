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

TEST_F(Layout, gradients_of_pooling_take_indices_of_any_strides) {
  auto image = test::filled({1, 2, 2}), volume = test::filled({1, 1, 2, 2}), out = test::filled({4});
  test::DeviceTensor<float> grad({4}, ACL_FLOAT, {1, 2, 3, 4});
  auto where = test::longs({4}, {0, 1, 2, 3});  // of four windows of one number each, columns first
  const auto indices = [&](std::vector<int64_t> sizes, std::vector<int64_t> strides) {
    const int64_t reach = 4;
    return ACL(aclCreateTensor)(sizes.data(), sizes.size(), ACL_INT64, strides.data(), 0, ACL_FORMAT_ND, &reach, 1,
                                where.memory());
  };
  aclTensor *const where2 = indices({1, 2, 2}, {4, 1, 2}), *const where3 = indices({1, 1, 2, 2}, {4, 4, 1, 2});
  aclTensor *const grad2 = view(grad, {1, 2, 2}, {4, 2, 1}, 4), *const grad3 =
                                                                    view(grad, {1, 1, 2, 2}, {4, 4, 2, 1}, 4);
  aclTensor *const out2 = view(out, {1, 2, 2}, {4, 2, 1}, 4), *const out3 = view(out, {1, 1, 2, 2}, {4, 4, 2, 1}, 4);
  const std::vector<float> expected{1, 3, 2, 4};
  const test::Ints one2{1, 1}, two2{2, 2}, one3{1, 1, 1}, two3{1, 2, 2};
  ASSERT_OK(run("aclnnAdaptiveMaxPool3dBackward", grad3, volume.handle, where3, out3));
  EXPECT_EQ(out.read(), expected);
  ASSERT_OK(run("softnpuFractionalMaxPool2dBackward", grad2, image.handle, +one2, +two2, where2, out2));
  EXPECT_EQ(out.read(), expected);
  ASSERT_OK(run("softnpuFractionalMaxPool3dBackward", grad3, volume.handle, +one3, +two3, where3, out3));
  EXPECT_EQ(out.read(), expected);
  for (aclTensor* t : {where2, where3, grad2, grad3, out2, out3}) ACL(aclDestroyTensor)(t);
}

TEST_F(Layout, elements_that_share_memory_are_not_written) {
  auto memory = test::filled({2}, 1), in = test::filled({3, 2}, 2);
  aclTensor* const shared = view(memory, {3, 2}, {0, 1}, 2);
  EXPECT_NE(failure("aclnnInplaceSinh", shared).find("single memory location"), std::string::npos);
  EXPECT_NE(failure("aclnnExp", in.handle, shared).find("single memory location"), std::string::npos);
  EXPECT_EQ(memory.read(), (std::vector<float>{1, 1}));
  ACL(aclDestroyTensor)(shared);
}
