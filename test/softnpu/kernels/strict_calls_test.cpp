// SOFTNPU_STRICT=calls (the environment of this program): calls that softnpu could serve and a card may not survive.
// Each is refused with a sentence that names the function, the argument and what to do. docs/softnpu.md lists them.
#include <deque>
#include <optional>
#include <utility>

#include "operators.h"

extern "C" {
int aclnnForeachAbsGetWorkspaceSize(const aclTensorList*, const aclTensorList*, uint64_t*, aclOpExecutor**);
int aclnnForeachAbs(void*, uint64_t, aclOpExecutor*, aclrtStream);
}

class StrictCalls : public test::WithStream {
 protected:
  void SetUp() override {
    WithStream::SetUp();
    if (!getenv("SOFTNPU_STRICT")) GTEST_SKIP() << "SOFTNPU_STRICT is not set";
    memory_.emplace(std::vector<int64_t>{64}, ACL_FLOAT, std::vector<float>(64, -1));
  }

  struct Shape {
    std::vector<int64_t> sizes, strides;
    int64_t offset = 0;
    aclFormat format = ACL_FORMAT_ND;
    int64_t stored = 0;
    size_t skip = 0;  // bytes from the memory's start to what is passed as the storage's
  };
  // What phase one says of |x| for tensors of one shape in `memory`.
  void abs_is_refused(const Shape& in, const Shape& out, std::initializer_list<const char*> parts) {
    auto* from = describe(in);
    auto* to = describe(out);
    EXPECT_EQ(ACL(aclnnAbsGetWorkspaceSize)(from, to, &workspace_, &executor_), ACLNN_ERR_PARAM_INVALID);
    expect_parts(parts);
    ACL(aclDestroyTensor)(from);
    ACL(aclDestroyTensor)(to);
  }
  aclTensor* describe(const Shape& s) {
    aclTensor* t = ACL(aclCreateTensor)(s.sizes.data(), s.sizes.size(), ACL_FLOAT, s.strides.data(), s.offset, s.format,
                                        &s.stored, 1, static_cast<char*>(memory_->memory()) + s.skip);
    EXPECT_NE(t, nullptr);
    return t;
  }
  void expect_parts(std::initializer_list<const char*> parts) {
    const std::string text = test::message();
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
    EXPECT_NE(text.find("SOFTNPU_STRICT"), std::string::npos) << text;
  }
  void launch_abs(test::DeviceTensor<float>& in, test::DeviceTensor<float>& out, aclrtStream stream) {
    ASSERT_OK(ACL(aclnnAbsGetWorkspaceSize)(in.handle, out.handle, &workspace_, &executor_));
    ASSERT_OK(ACL(aclnnAbs)(nullptr, 0, executor_, stream));
  }

  std::optional<test::DeviceTensor<float>> memory_;
  uint64_t workspace_ = 0;
  aclOpExecutor* executor_ = nullptr;
};

TEST_F(StrictCalls, scalars_live_until_phase_two) {
  auto a = test::floats({1}), out = test::floats({0});
  aclScalar* alpha = test::number(2);
  ASSERT_OK(ACL(aclnnAddGetWorkspaceSize)(a.handle, a.handle, alpha, out.handle, &workspace_, &executor_));
  ACL(aclDestroyScalar)(alpha);
  EXPECT_EQ(ACL(aclnnAdd)(nullptr, 0, executor_, stream_), ACLNN_ERR_PARAM_INVALID);
  expect_parts({"aclnnAdd", "'alpha'", "destroyed before phase two", "destroy it afterwards"});
  ASSERT_OK(ACL(aclDestroyAclOpExecutor)(executor_));
}

TEST_F(StrictCalls, arrays_of_integers_live_until_phase_two) {
  auto a = test::filled({2, 2}, 1), out = test::floats({0, 0});
  const int64_t dim = 0;
  aclIntArray* dims = ACL(aclCreateIntArray)(&dim, 1);
  ASSERT_OK(ACL(aclnnReduceSumGetWorkspaceSize)(a.handle, dims, false, ACL_FLOAT, out.handle, &workspace_, &executor_));
  ACL(aclDestroyIntArray)(dims);
  void* scratch = make_memory(workspace_ + 1);
  EXPECT_EQ(ACL(aclnnReduceSum)(scratch, workspace_, executor_, stream_), ACLNN_ERR_PARAM_INVALID);
  expect_parts({"aclnnReduceSum", "'dim'", "destroyed before phase two"});
  ASSERT_OK(ACL(aclDestroyAclOpExecutor)(executor_));
  ASSERT_OK(ACL(aclrtFree)(scratch));
}

TEST_F(StrictCalls, lists_and_their_elements_live_until_phase_two) {
  for (const bool whole : {true, false}) {
    auto out = test::floats({0});
    const Shape one{{1}, {1}, 0, ACL_FORMAT_ND, 64};
    aclTensor* element = describe(one);
    aclTensor* target = out.handle;
    aclTensorList* from = ACL(aclCreateTensorList)(&element, 1);
    aclTensorList* to = ACL(aclCreateTensorList)(&target, 1);
    ASSERT_OK(ACL(aclnnForeachAbsGetWorkspaceSize)(from, to, &workspace_, &executor_));
    if (whole)
      ACL(aclDestroyTensorList)(from);
    else
      ACL(aclDestroyTensor)(element);
    EXPECT_EQ(ACL(aclnnForeachAbs)(nullptr, 0, executor_, stream_), ACLNN_ERR_PARAM_INVALID);
    expect_parts({"aclnnForeachAbs", "destroyed before phase two"});
    ASSERT_OK(ACL(aclDestroyAclOpExecutor)(executor_));
    if (!whole) ACL(aclDestroyTensorList)(from);
    ACL(aclDestroyTensorList)(to);
    out.handle = nullptr;
  }
}

TEST_F(StrictCalls, four_dimensions_are_NCHW) {
  const Shape nd{{1, 2, 2, 2}, {8, 4, 2, 1}, 0, ACL_FORMAT_ND, 64};
  Shape nchw = nd;
  nchw.format = ACL_FORMAT_NCHW;
  abs_is_refused(nd, nchw, {"aclnnAbs", "'self'", "4 dimensions", "ACL_FORMAT_NCHW"});
  abs_is_refused(nchw, nd, {"aclnnAbs", "'out'", "ACL_FORMAT_NCHW"});
}

TEST_F(StrictCalls, two_dimensions_are_ND) {
  const Shape nd{{2, 2}, {2, 1}, 0, ACL_FORMAT_ND, 64};
  Shape nchw = nd;
  nchw.format = ACL_FORMAT_NCHW;
  abs_is_refused(nchw, nd, {"aclnnAbs", "'self'", "2 dimensions", "ACL_FORMAT_ND"});
}

TEST_F(StrictCalls, eight_dimensions_are_the_most) {
  const Shape nine{std::vector<int64_t>(9, 1), std::vector<int64_t>(9, 1), 0, ACL_FORMAT_ND, 64};
  abs_is_refused(nine, nine, {"aclnnAbs", "'self'", "9 dimensions", "at most 8"});
}

TEST_F(StrictCalls, a_storage_lies_in_its_memory) {
  const Shape good{{2}, {1}, 0, ACL_FORMAT_ND, 64};
  Shape large = good;
  large.stored = 1 << 20;
  auto* from = describe(large);
  auto* to = describe(good);
  EXPECT_NE(ACL(aclnnAbsGetWorkspaceSize)(from, to, &workspace_, &executor_), 0);
  const std::string text = test::message();
  for (const char* part : {"aclnnAbs", "storage of argument 'self'", "reach beyond the allocation"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  ACL(aclDestroyTensor)(from);
  ACL(aclDestroyTensor)(to);
}

TEST_F(StrictCalls, an_offset_lies_in_its_storage) {
  const Shape good{{1}, {1}, 0, ACL_FORMAT_ND, 64};
  Shape behind = good;
  behind.offset = 64;
  abs_is_refused(behind, good, {"aclnnAbs", "'self'", "element 64 of a storage of 64"});
  behind.sizes = {0};  // a part of anything
  aclTensor* empty = describe(behind);
  ASSERT_OK(ACL(aclnnAbsGetWorkspaceSize)(empty, empty, &workspace_, &executor_));
  ASSERT_OK(ACL(aclDestroyAclOpExecutor)(executor_));
  ACL(aclDestroyTensor)(empty);
}

TEST_F(StrictCalls, memory_is_aligned_to_its_type) {
  const Shape good{{2}, {1}, 0, ACL_FORMAT_ND, 32};
  Shape odd = good;
  odd.skip = 2;
  abs_is_refused(odd, good, {"aclnnAbs", "'self'", "not aligned", "offset"});
}

TEST_F(StrictCalls, no_element_of_an_output_is_written_twice) {
  const Shape good{{2, 2}, {2, 1}, 0, ACL_FORMAT_ND, 64};
  Shape expanded = good, crossing = good;
  expanded.strides = {0, 1};
  crossing.strides = {1, 1};
  abs_is_refused(good, expanded, {"aclnnAbs", "'out'", "share memory"});
  abs_is_refused(good, crossing, {"aclnnAbs", "'out'", "share memory"});
  auto* from = describe(expanded);  // reading is another matter
  auto* to = describe(good);
  ASSERT_OK(ACL(aclnnAbsGetWorkspaceSize)(from, to, &workspace_, &executor_));
  ASSERT_OK(ACL(aclDestroyAclOpExecutor)(executor_));
  ACL(aclDestroyTensor)(from);
  ACL(aclDestroyTensor)(to);
}

TEST_F(StrictCalls, lists_of_a_foreach_operator_are_short) {
  for (const size_t count : {25, 26}) {
    std::deque<test::DeviceTensor<float>> tensors;
    std::vector<const aclTensor*> in, out;
    for (size_t i = 0; i < 2 * count; i++) {
      tensors.emplace_back(std::vector<int64_t>{1}, ACL_FLOAT, std::vector<float>{-1});
      (i < count ? in : out).push_back(std::exchange(tensors.back().handle, nullptr));
    }
    aclTensorList* from = ACL(aclCreateTensorList)(in.data(), in.size());
    aclTensorList* to = ACL(aclCreateTensorList)(out.data(), out.size());
    const int code = ACL(aclnnForeachAbsGetWorkspaceSize)(from, to, &workspace_, &executor_);
    if (count == 25) {
      ASSERT_OK(code);
      ASSERT_OK(ACL(aclDestroyAclOpExecutor)(executor_));
    } else {
      EXPECT_EQ(code, ACLNN_ERR_PARAM_INVALID);
      expect_parts({"aclnnForeachAbs", "'out'", "more than 50 tensors", "split"});
    }
    ACL(aclDestroyTensorList)(from);
    ACL(aclDestroyTensorList)(to);
  }
}

TEST_F(StrictCalls, streams_that_share_memory_are_ordered) {
  auto a = test::floats({-1}), b = test::floats({0}), c = test::floats({0});
  aclrtStream other = make_stream();
  ASSERT_NO_FATAL_FAILURE(launch_abs(a, b, stream_));
  ASSERT_OK(ACL(aclnnAbsGetWorkspaceSize)(b.handle, c.handle, &workspace_, &executor_));
  EXPECT_NE(ACL(aclnnAbs)(nullptr, 0, executor_, other), 0);
  expect_parts({"aclnnAbs", "reads argument 'self'", "writes as 'out'", "wait for an event"});

  aclrtEvent event = make_event();
  ASSERT_OK(ACL(aclrtRecordEvent)(event, stream_));
  ASSERT_OK(ACL(aclrtStreamWaitEvent)(other, event));
  ASSERT_NO_FATAL_FAILURE(launch_abs(b, c, other));
  EXPECT_NE(ACL(aclrtMemcpy)(b.memory(), 4, a.memory(), 4, ACL_MEMCPY_DEVICE_TO_DEVICE), 0);
  expect_parts({"aclrtMemcpy", "argument 'dst'", "synchronise the stream"});
  EXPECT_NE(ACL(aclrtMemset)(c.memory(), 4, 0, 4), 0);
  expect_parts({"aclrtMemset", "argument 'devPtr'", "synchronise the stream"});
  ASSERT_OK(ACL(aclrtSynchronizeStream)(other));  // which stands behind the first
  ASSERT_OK(ACL(aclrtMemcpy)(b.memory(), 4, a.memory(), 4, ACL_MEMCPY_DEVICE_TO_DEVICE));
  EXPECT_EQ(c.read()[0], 1);
  ASSERT_OK(ACL(aclrtDestroyEvent)(event));
  ASSERT_OK(ACL(aclrtDestroyStream)(other));
}

TEST_F(StrictCalls, an_event_orders_what_was_submitted_before_its_record) {
  auto a = test::floats({-1}), b = test::floats({0});
  aclrtStream other = make_stream();
  aclrtEvent event = make_event();
  ASSERT_OK(ACL(aclrtRecordEvent)(event, stream_));
  ASSERT_NO_FATAL_FAILURE(launch_abs(a, b, stream_));
  ASSERT_OK(ACL(aclrtStreamWaitEvent)(other, event));  // too early
  EXPECT_NE(ACL(aclrtMemsetAsync)(b.memory(), 4, 0, 4, other), 0);
  expect_parts({"aclrtMemsetAsync", "'devPtr'", "aclnnAbs"});
  ASSERT_OK(ACL(aclrtMemcpyAsync)(b.memory(), 4, a.memory(), 4, ACL_MEMCPY_DEVICE_TO_DEVICE, stream_));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  ASSERT_OK(ACL(aclrtMemsetAsync)(b.memory(), 4, 0, 4, other));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(other));
  ASSERT_OK(ACL(aclrtDestroyEvent)(event));
  ASSERT_OK(ACL(aclrtDestroyStream)(other));
}

TEST_F(StrictCalls, readers_need_no_order) {
  auto a = test::floats({-1}), b = test::floats({0}), c = test::floats({0});
  aclrtStream other = make_stream();
  ASSERT_NO_FATAL_FAILURE(launch_abs(a, b, stream_));
  ASSERT_NO_FATAL_FAILURE(launch_abs(a, c, other));
  ASSERT_OK(ACL(aclrtSynchronizeDevice)());
  ASSERT_OK(ACL(aclrtDestroyStream)(other));
}
