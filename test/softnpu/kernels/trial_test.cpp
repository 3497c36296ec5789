// Phase one refuses types that the kernel does not have. See Note [Trial run] in softnpu/kernels/engine/trial.h.
#include "operators.h"

extern "C" {
int aclnnBitwiseNotGetWorkspaceSize(const aclTensor*, const aclTensor*, uint64_t*, aclOpExecutor**);
int softnpuLuSolveGetWorkspaceSize(const aclTensor*, const aclTensor*, const aclTensor*, bool, bool, const aclTensor*,
                                   uint64_t*, aclOpExecutor**);
int aclnnBitwiseNot(void*, uint64_t, aclOpExecutor*, aclrtStream);
}

class Trial : public test::OnDevice {
 protected:
  uint64_t workspace_ = 0;
  aclOpExecutor* executor_ = nullptr;
};

TEST_F(Trial, type_without_kernel_is_refused_every_time) {
  auto x = test::floats({1, 2}), out = test::floats({0, 0});
  for (int i = 0; i < 2; i++) {
    EXPECT_EQ(ACL(aclnnBitwiseNotGetWorkspaceSize)(x.handle, out.handle, &workspace_, &executor_),
              ACLNN_ERR_PARAM_INVALID);
    const std::string text = test::message();
    EXPECT_NE(text.find("not implemented for 'Float'"), std::string::npos) << text;
    EXPECT_NE(text.find("aclnnBitwiseNot"), std::string::npos) << text;
  }
}

TEST_F(Trial, the_device_memory_is_not_touched) {
  test::DeviceTensor<int32_t> x({2}, ACL_INT32, {5, 6}), out({2}, ACL_INT32, {7, 8});
  ASSERT_OK(ACL(aclnnBitwiseNotGetWorkspaceSize)(x.handle, out.handle, &workspace_, &executor_));
  EXPECT_EQ(out.read(), (std::vector<int32_t>{7, 8}));
  ASSERT_OK(ACL(aclnnBitwiseNot)(nullptr, 0, executor_, nullptr));
  ASSERT_OK(ACL(aclrtSynchronizeDevice)());
  EXPECT_EQ(out.read(), (std::vector<int32_t>{~5, ~6}));
}

TEST_F(Trial, no_elements_are_accepted_for_every_type) {
  test::DeviceTensor<float> x({0}, ACL_FLOAT, {}), out({0}, ACL_FLOAT, {});
  ASSERT_OK(ACL(aclnnBitwiseNotGetWorkspaceSize)(x.handle, out.handle, &workspace_, &executor_));
  ASSERT_OK(ACL(aclDestroyAclOpExecutor)(executor_));
}

TEST_F(Trial, pivots_that_cannot_be_zero_are_no_excuse) {
  test::DeviceTensor<uint16_t> lu({2, 2}, ACL_FLOAT16, {0, 0, 0, 0}), b({2, 1}, ACL_FLOAT16, {0, 0}),
      out({2, 1}, ACL_FLOAT16, {0, 0});
  test::DeviceTensor<int32_t> pivots({2}, ACL_INT32, {1, 2});
  EXPECT_EQ(ACL(softnpuLuSolveGetWorkspaceSize)(lu.handle, pivots.handle, b.handle, true, false, out.handle,
                                                &workspace_, &executor_),
            ACLNN_ERR_PARAM_INVALID);
}
