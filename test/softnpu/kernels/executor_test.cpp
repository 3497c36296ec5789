// Handles of both phases: an executor is good for one use, and what is no live handle is refused, never read.
#include "operators.h"

using test::floats;

class Executor : public test::WithStream {
 protected:
  int plan(const test::DeviceTensor<float>& a, const test::DeviceTensor<float>& b,
           const test::DeviceTensor<float>& out) {
    return ACL(aclnnAddGetWorkspaceSize)(a.handle, b.handle, one_, out.handle, &workspace_, &executor_);
  }
  uint64_t workspace_ = 0;
  aclOpExecutor* executor_ = nullptr;
};

TEST_F(Executor, is_good_for_one_launch_while_it_is_queued_and_later) {
  auto a = floats({1}), b = floats({2}), out = floats({0});
  test::Gate gate(stream_);
  ASSERT_OK(plan(a, b, out));
  ASSERT_OK(ACL(aclnnAdd)(nullptr, 0, executor_, stream_));
  EXPECT_EQ(ACL(aclnnAdd)(nullptr, 0, executor_, stream_), ACLNN_ERR_PARAM_INVALID);
  EXPECT_NE(test::message().find("launched or destroyed before"), std::string::npos);
  gate.open();
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(ACL(aclnnAdd)(nullptr, 0, executor_, stream_), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(out.read()[0], 3);
}

TEST_F(Executor, cannot_be_destroyed_while_it_is_queued) {
  auto a = floats({1}), b = floats({2}), out = floats({0});
  test::Gate gate(stream_);
  ASSERT_OK(plan(a, b, out));
  ASSERT_OK(ACL(aclnnAdd)(nullptr, 0, executor_, stream_));
  EXPECT_NE(ACL(aclDestroyAclOpExecutor)(executor_), 0);
  gate.open();
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(out.read()[0], 3);
}

TEST_F(Executor, stale_one_never_runs_a_later_call) {
  auto a = floats({1}), b = floats({2}), out = floats({0}), untouched = floats({7});
  ASSERT_OK(plan(a, b, out));
  aclOpExecutor* stale = executor_;
  ASSERT_OK(ACL(aclDestroyAclOpExecutor)(stale));
  for (int i = 0; i < 200; i++) {
    ASSERT_OK(plan(a, b, untouched));
    ASSERT_NE(executor_, stale);
    ASSERT_NE(ACL(aclnnAdd)(nullptr, 0, stale, stream_), 0);
    ASSERT_NE(ACL(aclDestroyAclOpExecutor)(stale), 0);
    ASSERT_OK(ACL(aclDestroyAclOpExecutor)(executor_));
  }
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(untouched.read()[0], 7);
}

TEST_F(Executor, is_kept_when_the_launch_is_refused) {
  auto a = floats({1}), b = floats({2}), out = floats({0});
  ASSERT_OK(plan(a, b, out));
  EXPECT_EQ(ACL(aclnnReduceSum)(nullptr, 0, executor_, stream_), ACLNN_ERR_PARAM_INVALID);
  ASSERT_OK(ACL(aclnnAdd)(nullptr, 0, executor_, stream_));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(out.read()[0], 3);
}

TEST_F(Executor, two_threads_launch_it_once) {
  auto a = floats({1}), b = floats({2}), out = floats({0});
  for (int round = 0; round < 300; round++) {
    ASSERT_OK(plan(a, b, out));
    std::atomic<int> launched{0};
    const auto race = [&] {
      EXPECT_OK(ACL(aclrtSetDevice)(0));
      if (ACL(aclnnAdd)(nullptr, 0, executor_, stream_) == 0) ++launched;
    };
    std::thread other(race);
    race();
    other.join();
    ASSERT_EQ(launched, 1);
  }
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
}

TEST_F(Executor, what_is_no_handle_is_refused_in_both_phases) {
  auto a = floats({1}), out = floats({0});
  void* const wrong[] = {reinterpret_cast<void*>(8),
                         reinterpret_cast<void*>(~uintptr_t{0}),
                         reinterpret_cast<void*>(0x7f0000000000),
                         a.memory(),
                         stream_,
                         one_,
                         reinterpret_cast<char*>(a.handle) + 8};
  for (void* handle : wrong) {
    EXPECT_EQ(ACL(aclnnAddGetWorkspaceSize)(static_cast<aclTensor*>(handle), a.handle, one_, out.handle, &workspace_,
                                            &executor_),
              ACLNN_ERR_PARAM_INVALID);
    if (handle != one_) {
      EXPECT_EQ(ACL(aclnnAddGetWorkspaceSize)(a.handle, a.handle, static_cast<aclScalar*>(handle), out.handle,
                                              &workspace_, &executor_),
                ACLNN_ERR_PARAM_INVALID);
    }
    EXPECT_EQ(ACL(aclnnAdd)(nullptr, 0, static_cast<aclOpExecutor*>(handle), stream_), ACLNN_ERR_PARAM_INVALID);
    EXPECT_NE(ACL(aclDestroyAclOpExecutor)(static_cast<aclOpExecutor*>(handle)), 0);
  }
}

TEST_F(Executor, list_with_a_destroyed_element_is_refused_and_can_be_destroyed) {
  auto a = floats({1, 2}), out = floats({0, 0});
  const int64_t size = 2;
  aclTensor* element = ACL(aclCreateTensor)(&size, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &size, 1, a.memory());
  aclTensorList* list = ACL(aclCreateTensorList)(&element, 1);
  ASSERT_OK(ACL(aclDestroyTensor)(element));
  EXPECT_EQ(ACL(aclnnCatGetWorkspaceSize)(list, 0, out.handle, &workspace_, &executor_), ACLNN_ERR_PARAM_INVALID);
  EXPECT_NE(test::message().find("element that was destroyed"), std::string::npos) << test::message();
  EXPECT_OK(ACL(aclDestroyTensorList)(list));
}

TEST_F(Executor, view_beyond_its_storage_is_refused) {
  auto block = floats(std::vector<float>(1024, 1.f)), out = floats({0, 0});
  struct Case {
    int64_t size, stride, offset, storage;
  };
  for (const Case& c : {Case{2048, -1, 0, 1024}, Case{2, -1, 0, 1024}, Case{2, (int64_t{1} << 62) - 1, 0, 0},
                        Case{3, (int64_t{1} << 62), 0, 0}, Case{2, 1, INT64_MAX, 0}, Case{2, 1, 1023, 1024},
                        Case{2, 1 << 20, 0, 0}, Case{2, 1, (int64_t{1} << 61) - 2, 0}}) {
    aclTensor* view =
        ACL(aclCreateTensor)(&c.size, 1, ACL_FLOAT, &c.stride, c.offset, ACL_FORMAT_ND, &c.storage, 1, block.memory());
    ASSERT_NE(view, nullptr);
    EXPECT_NE(ACL(aclnnAbsGetWorkspaceSize)(view, view, &workspace_, &executor_), 0)
        << c.size << " " << c.stride << " " << c.offset;
    ACL(aclDestroyTensor)(view);
  }
}

TEST_F(Executor, waiting_call_does_not_run_on_memory_that_was_freed) {
  auto a = floats({1}), b = floats({2});
  aclOpExecutor* executor = nullptr;
  {
    auto out = floats({0});
    ASSERT_OK(plan(a, b, out));
    executor = executor_;
  }
  EXPECT_NE(ACL(aclnnAdd)(nullptr, 0, executor, stream_), 0);
  EXPECT_NE(test::message().find("live device memory"), std::string::npos) << test::message();
  EXPECT_OK(ACL(aclDestroyAclOpExecutor)(executor));
}

TEST_F(Executor, cached_call_does_not_run_on_memory_that_is_not_there) {
  auto a = floats({1}), b = floats({2}), out = floats({0});
  std::string key = "memory_that_is_not_there";
  auto* bytes = reinterpret_cast<uint8_t*>(key.data());
  const auto list = [&](void* first) {
    ACL(InitPTACacheThreadLocal)();
    for (void* address : {first, b.memory(), out.memory()}) ACL(AddTensorAddrToCachedList)(address);
  };
  for (int i = 0; i < 2; i++) {
    list(a.memory());
    ACL(SetPTACacheHashKey)(bytes, key.size());
    ASSERT_OK(plan(a, b, out));
    ASSERT_OK(ACL(aclnnAdd)(nullptr, 0, executor_, stream_));
    ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  }
  for (void* wrong : {reinterpret_cast<void*>(8), static_cast<void*>(&key), reinterpret_cast<void*>(~uintptr_t{0})}) {
    list(wrong);
    aclOpExecutor* hit = ACL(PTAFindExecCache)(bytes, key.size(), &workspace_);
    ASSERT_NE(hit, nullptr);
    EXPECT_NE(ACL(aclnnAdd)(nullptr, 0, hit, stream_), 0);
    EXPECT_OK(ACL(aclDestroyAclOpExecutor)(hit));
  }
  list(a.memory());
  aclOpExecutor* hit = ACL(PTAFindExecCache)(bytes, key.size(), &workspace_);
  ASSERT_NE(hit, nullptr);
  ACL(UnInitPTACacheThreadLocal)();
  ASSERT_OK(ACL(aclnnAdd)(nullptr, 0, hit, stream_));
  EXPECT_NE(ACL(aclnnAdd)(nullptr, 0, hit, stream_), 0);
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
}
