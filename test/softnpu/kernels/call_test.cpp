// Both phases of an operator call: results, checks, workspaces, stale executors, failing tasks.
#include "operators.h"

using test::floats;

class Call : public test::OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    one_ = test::number(1);
  }
  void TearDown() override { ACL(aclDestroyScalar)(one_); }
  aclScalar* one_ = nullptr;
  uint64_t workspace_ = 99;
  aclOpExecutor* executor_ = nullptr;
};

TEST_F(Call, adds_on_the_default_stream) {
  auto a = floats({1, 2, 3}), b = floats({10, 20, 30}), out = floats({0, 0, 0});
  ASSERT_OK(ACL(aclnnAddGetWorkspaceSize)(a.handle, b.handle, one_, out.handle, &workspace_, &executor_));
  EXPECT_EQ(workspace_, 0u);
  ASSERT_OK(ACL(aclnnAdd)(nullptr, 0, executor_, nullptr));
  ASSERT_OK(ACL(aclrtSynchronizeDevice)());
  EXPECT_EQ(out.read(), (std::vector<float>{11, 22, 33}));
}

TEST_F(Call, arguments_may_be_destroyed_before_the_task_runs) {
  aclrtStream stream = make_stream();
  auto out = floats({0, 0});
  auto a = floats({1, 2}), b = floats({3, 4});
  {
    test::Gate gate(stream);
    aclTensor* copy = a.handle;
    ASSERT_OK(ACL(aclnnAddGetWorkspaceSize)(copy, b.handle, one_, out.handle, &workspace_, &executor_));
    ASSERT_OK(ACL(aclnnAdd)(nullptr, 0, executor_, stream));
    ACL(aclDestroyTensor)(a.handle);
    a.handle = nullptr;
    gate.open();
    ASSERT_OK(ACL(aclrtSynchronizeStream)(stream));
  }
  EXPECT_EQ(out.read(), (std::vector<float>{4, 6}));
  ASSERT_OK(ACL(aclrtDestroyStream)(stream));
}

TEST_F(Call, null_argument_is_named) {
  auto a = floats({1}), out = floats({0});
  EXPECT_EQ(ACL(aclnnAddGetWorkspaceSize)(a.handle, nullptr, one_, out.handle, &workspace_, &executor_),
            ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_NE(test::message().find("'other'"), std::string::npos);
  EXPECT_EQ(ACL(aclnnAddGetWorkspaceSize)(a.handle, a.handle, one_, out.handle, nullptr, &executor_),
            ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(ACL(aclnnAddGetWorkspaceSize)(a.handle, a.handle, one_, out.handle, &workspace_, nullptr),
            ACLNN_ERR_PARAM_NULLPTR);
}

TEST_F(Call, shape_that_does_not_fit_is_named) {
  auto a = floats({1, 2, 3}), b = floats({1, 2}), out = floats({0, 0, 0});
  EXPECT_EQ(ACL(aclnnAddGetWorkspaceSize)(a.handle, b.handle, one_, out.handle, &workspace_, &executor_),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_NE(test::message().find("'other'"), std::string::npos) << test::message();
}

TEST_F(Call, object_of_another_type_is_refused) {
  auto a = floats({1}), out = floats({0});
  auto* wrong = reinterpret_cast<aclTensor*>(one_);
  EXPECT_EQ(ACL(aclnnAddGetWorkspaceSize)(a.handle, wrong, one_, out.handle, &workspace_, &executor_),
            ACLNN_ERR_PARAM_INVALID);
}

TEST_F(Call, null_executor_is_refused) {
  EXPECT_EQ(ACL(aclnnAdd)(nullptr, 0, nullptr, nullptr), ACLNN_ERR_PARAM_NULLPTR);
}

TEST_F(Call, executor_of_another_operator_is_refused) {
  auto a = floats({1}), b = floats({2}), out = floats({0});
  ASSERT_OK(ACL(aclnnAddGetWorkspaceSize)(a.handle, b.handle, one_, out.handle, &workspace_, &executor_));
  EXPECT_EQ(ACL(aclnnReduceSum)(nullptr, 0, executor_, nullptr), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(ACL(aclDestroyAclOpExecutor)(executor_), 0);
}

TEST_F(Call, reduction_wants_its_workspace) {
  auto a = floats({1, 2, 3});
  test::DeviceTensor<float> out({}, ACL_FLOAT, {0});
  const int64_t dim = 0;
  aclIntArray* dims = ACL(aclCreateIntArray)(&dim, 1);
  ASSERT_OK(ACL(aclnnReduceSumGetWorkspaceSize)(a.handle, dims, false, ACL_FLOAT, out.handle, &workspace_, &executor_));
  ASSERT_GT(workspace_, 0u);
  EXPECT_EQ(ACL(aclnnReduceSum)(nullptr, workspace_, executor_, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  void* memory = make_memory(workspace_);
  EXPECT_EQ(ACL(aclnnReduceSum)(memory, workspace_ - 1, executor_, nullptr), ACLNN_ERR_PARAM_INVALID);
  ASSERT_OK(ACL(aclnnReduceSum)(memory, workspace_, executor_, nullptr));
  ASSERT_OK(ACL(aclrtSynchronizeDevice)());
  EXPECT_EQ(out.read(), (std::vector<float>{6}));
  ACL(aclDestroyIntArray)(dims);
  ACL(aclrtFree)(memory);
}

TEST_F(Call, data_decides_the_shape_of_nonzero) {
  auto a = floats({0, 5, 0, 7});
  test::DeviceTensor<int64_t> out({4, 1}, ACL_INT64, {-1, -1, -1, -1});
  ASSERT_OK(ACL(aclnnNonzeroGetWorkspaceSize)(a.handle, out.handle, &workspace_, &executor_));
  void* memory = workspace_ ? make_memory(workspace_) : nullptr;
  ASSERT_OK(ACL(aclnnNonzero)(memory, workspace_, executor_, nullptr));
  ASSERT_OK(ACL(aclrtSynchronizeDevice)());
  int64_t* shape = nullptr;
  uint64_t rank = 0;
  ASSERT_OK(ACL(aclGetViewShape)(out.handle, &shape, &rank));
  EXPECT_EQ(std::vector<int64_t>(shape, shape + rank), (std::vector<int64_t>{2, 1}));
  delete[] shape;
  EXPECT_EQ(out.read()[0], 1);
  EXPECT_EQ(out.read()[1], 3);
  if (memory) ACL(aclrtFree)(memory);
}

TEST_F(Call, a_mask_that_another_stream_changes_does_no_harm) {
  constexpr int64_t kSize = 1 << 16;
  test::DeviceTensor<uint8_t> mask({kSize}, ACL_BOOL, std::vector<uint8_t>(kSize));
  const std::vector<int64_t> nowhere(kSize);
  aclrtStream reads = make_stream(), writes = make_stream();
  for (int i = 0; i < 200; i++) {
    test::DeviceTensor<int64_t> out({kSize, 1}, ACL_INT64, nowhere);  // the task gives it another shape
    ASSERT_OK(ACL(aclnnNonzeroGetWorkspaceSize)(mask.handle, out.handle, &workspace_, &executor_));
    void* const memory = make_memory(workspace_ + 1);
    ASSERT_OK(ACL(aclnnNonzero)(memory, workspace_, executor_, reads));
    for (int value = 0; value < 8; value++)
      ASSERT_OK(ACL(aclrtMemsetAsync)(mask.memory(), kSize, value % 2, kSize, writes));
    ASSERT_OK(ACL(aclrtSynchronizeStream)(writes));
    ASSERT_OK(ACL(aclrtSynchronizeStream)(reads));
    ASSERT_OK(ACL(aclrtFree)(memory));
  }
  ASSERT_OK(ACL(aclrtDestroyStream)(reads));
  ASSERT_OK(ACL(aclrtDestroyStream)(writes));
}

TEST_F(Call, failing_task_is_reported_once_and_the_next_works) {
  auto a = floats({1, 2}), b = floats({3, 4}), out = floats({0, 0});
  ASSERT_OK(ACL(softnpuFailGetWorkspaceSize)(a.handle, "broken on purpose", &workspace_, &executor_));
  ASSERT_OK(ACL(softnpuFail)(nullptr, 0, executor_, nullptr));
  EXPECT_NE(ACL(aclrtSynchronizeStream)(nullptr), 0);
  const auto text = test::message();
  EXPECT_NE(text.find("broken on purpose"), std::string::npos) << text;
  EXPECT_NE(text.find("softnpuFail"), std::string::npos) << text;
  ASSERT_OK(ACL(aclnnAddGetWorkspaceSize)(a.handle, b.handle, one_, out.handle, &workspace_, &executor_));
  ASSERT_OK(ACL(aclnnAdd)(nullptr, 0, executor_, nullptr));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(nullptr));
  EXPECT_EQ(out.read(), (std::vector<float>{4, 6}));
}
