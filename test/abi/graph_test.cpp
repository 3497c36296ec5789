// Graphs: what a captured stream is given runs at each launch, and only then.
#include <vector>

#include "library.h"

using test::OnDevice;

class Graph : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    stream_ = make_stream();
    side_ = make_stream();
    g_order.clear();
  }
  void TearDown() override {
    if (graph_) ACL(aclmdlRIDestroy)(graph_);
    for (aclrtStream stream : {stream_, side_})
      if (stream) ACL(aclrtDestroyStreamForce)(stream);
  }
  void begin(aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) {
    ASSERT_OK(ACL(aclmdlRICaptureBegin)(stream_, mode));
  }
  int end() { return ACL(aclmdlRICaptureEnd)(stream_, &graph_); }
  void launch() {
    ASSERT_OK(ACL(aclmdlRIExecuteAsync)(graph_, stream_));
    ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  }
  aclmdlRICaptureStatus status() {
    auto status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    aclmdlRI graph = nullptr;
    EXPECT_OK(ACL(aclmdlRICaptureGetInfo)(stream_, &status, &graph));
    return status;
  }
  aclrtEvent make_event(uint32_t flags = ACL_EVENT_SYNC) {
    aclrtEvent event = nullptr;
    EXPECT_OK(ACL(aclrtCreateEventExWithFlag)(&event, flags));
    return event;
  }
  template <int kNumber>
  static void append(void*) {
    g_order.push_back(kNumber);
  }
  template <int kNumber>
  void give(aclrtStream stream) {
    ASSERT_OK(ACL(aclrtLaunchHostFunc)(stream, append<kNumber>, nullptr));
  }

  static inline std::vector<int> g_order;
  aclrtStream stream_ = nullptr, side_ = nullptr;
  aclmdlRI graph_ = nullptr;
};

TEST_F(Graph, runs_at_each_launch_in_order) {
  begin();
  EXPECT_EQ(status(), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  give<1>(stream_), give<2>(stream_);
  ASSERT_OK(end());
  EXPECT_EQ(status(), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  EXPECT_TRUE(g_order.empty());
  launch(), launch();
  EXPECT_EQ(g_order, (std::vector<int>{1, 2, 1, 2}));
}

TEST_F(Graph, streams_that_wait_for_it_are_captured_too) {
  aclrtEvent there = make_event(), back = make_event();
  begin();
  give<1>(stream_);
  ASSERT_OK(ACL(aclrtRecordEvent)(there, stream_));
  ASSERT_OK(ACL(aclrtStreamWaitEvent)(side_, there));
  give<2>(side_);
  ASSERT_OK(ACL(aclrtRecordEvent)(back, side_));
  ASSERT_OK(ACL(aclrtStreamWaitEvent)(stream_, back));
  give<3>(stream_);
  ASSERT_OK(end());
  launch();
  EXPECT_EQ(g_order, (std::vector<int>{1, 2, 3}));
  give<4>(side_);  // free again
  ASSERT_OK(ACL(aclrtSynchronizeStream)(side_));
  EXPECT_EQ(g_order.back(), 4);
  ACL(aclrtDestroyEvent)(there), ACL(aclrtDestroyEvent)(back);
}

TEST_F(Graph, work_of_another_stream_must_be_joined) {
  aclrtEvent there = make_event();
  begin();
  give<1>(stream_);
  ASSERT_OK(ACL(aclrtRecordEvent)(there, stream_));
  ASSERT_OK(ACL(aclrtStreamWaitEvent)(side_, there));
  give<2>(side_);
  EXPECT_EQ(end(), ACL_ERROR_RT_STREAM_UNJOINED);
  EXPECT_EQ(graph_, nullptr);
  give<3>(side_);
  ASSERT_OK(ACL(aclrtSynchronizeStream)(side_));
  EXPECT_EQ(g_order, (std::vector<int>{3}));
  ACL(aclrtDestroyEvent)(there);
}

TEST_F(Graph, waiting_for_a_captured_stream_ends_the_capture) {
  begin();
  give<1>(stream_);
  EXPECT_EQ(ACL(aclrtSynchronizeStream)(stream_), ACL_ERROR_RT_STREAM_CAPTURED);
  EXPECT_EQ(status(), ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
  EXPECT_EQ(end(), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  give<2>(stream_);
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(g_order, (std::vector<int>{2}));
}

TEST_F(Graph, waiting_for_the_device_is_refused_unless_the_thread_is_relaxed) {
  begin();
  auto mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
  ASSERT_OK(ACL(aclmdlRICaptureThreadExchangeMode)(&mode));
  EXPECT_EQ(mode, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  EXPECT_OK(ACL(aclrtSynchronizeDevice)());
  ASSERT_OK(ACL(aclmdlRICaptureThreadExchangeMode)(&mode));
  EXPECT_EQ(ACL(aclrtSynchronizeDevice)(), ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
  EXPECT_EQ(end(), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Graph, events_of_a_capture_belong_to_it) {
  aclrtEvent inside = make_event(), outside = make_event();
  give<0>(side_);
  ASSERT_OK(ACL(aclrtRecordEvent)(outside, side_));
  begin();
  ASSERT_OK(ACL(aclrtRecordEvent)(inside, stream_));
  auto recorded = ACL_EVENT_RECORDED_STATUS_COMPLETE;
  EXPECT_EQ(ACL(aclrtStreamWaitEvent)(stream_, outside), ACL_ERROR_RT_CAPTURE_DEPENDENCY);
  EXPECT_EQ(end(), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(ACL(aclrtQueryEventStatus)(inside, &recorded), ACL_ERROR_RT_EVENT_CAPTURED);
  EXPECT_EQ(ACL(aclrtStreamWaitEvent)(side_, inside), ACL_ERROR_RT_EVENT_CAPTURED);
  ASSERT_OK(ACL(aclrtRecordEvent)(inside, stream_));
  EXPECT_OK(ACL(aclrtSynchronizeEvent)(inside));
  ACL(aclrtDestroyEvent)(inside), ACL(aclrtDestroyEvent)(outside);
}

TEST_F(Graph, an_external_event_holds_each_launch_until_it_is_recorded) {
  aclrtEvent gate = make_event(ACL_EVENT_EXTERNAL);
  begin();
  ASSERT_OK(ACL(aclrtStreamWaitEvent)(stream_, gate));
  ASSERT_OK(ACL(aclrtResetEvent)(gate, stream_));
  give<1>(stream_);
  ASSERT_OK(end());
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(ACL(aclmdlRIExecuteAsync)(graph_, stream_));
    EXPECT_NE(ACL(aclrtSynchronizeStreamWithTimeout)(stream_, 50), 0);
    EXPECT_EQ(static_cast<int>(g_order.size()), i);
    ASSERT_OK(ACL(aclrtRecordEvent)(gate, side_));
    ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
    EXPECT_EQ(static_cast<int>(g_order.size()), i + 1);
  }
  ACL(aclrtDestroyEvent)(gate);
}

TEST_F(Graph, an_update_exchanges_the_tasks_of_a_group) {
  void* memory = nullptr;
  uint8_t seen = 0;
  ASSERT_OK(ACL(aclrtMalloc)(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  const auto value = [&] {
    EXPECT_OK(ACL(aclrtMemcpy)(&seen, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    return seen;
  };
  begin();
  ASSERT_OK(ACL(aclmdlRICaptureTaskGrpBegin)(stream_));
  ASSERT_OK(ACL(aclrtMemsetAsync)(memory, 64, 1, 64, stream_));
  aclrtTaskGrp group = nullptr;
  ASSERT_OK(ACL(aclmdlRICaptureTaskGrpEnd)(stream_, &group));
  ASSERT_OK(end());
  launch();
  EXPECT_EQ(value(), 1);
  ASSERT_OK(ACL(aclmdlRICaptureTaskUpdateBegin)(side_, group));
  ASSERT_OK(ACL(aclrtMemsetAsync)(memory, 64, 2, 64, side_));
  EXPECT_NE(ACL(aclrtMemsetAsync)(memory, 64, 3, 64, side_), 0);  // the group has one task
  ASSERT_OK(ACL(aclmdlRICaptureTaskUpdateEnd)(side_));
  EXPECT_EQ(value(), 1);
  launch();
  EXPECT_EQ(value(), 2);
  ASSERT_OK(ACL(aclmdlRICaptureTaskUpdateBegin)(side_, group));
  EXPECT_EQ(ACL(aclmdlRICaptureTaskUpdateEnd)(side_), ACL_ERROR_STREAM_TASK_GROUP_INTR);
  ASSERT_OK(ACL(aclmdlRIDestroy)(graph_));
  graph_ = nullptr;
  EXPECT_EQ(ACL(aclmdlRICaptureTaskUpdateBegin)(side_, group), ACL_ERROR_RT_INVALID_HANDLE);
  ACL(aclrtFree)(memory);
}

TEST_F(Graph, refuses_what_is_no_capture) {
  EXPECT_EQ(end(), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  EXPECT_EQ(ACL(aclmdlRICaptureBegin)(stream_, static_cast<aclmdlRICaptureMode>(9)), ACL_ERROR_RT_PARAM_INVALID);
  begin();
  EXPECT_EQ(ACL(aclmdlRICaptureBegin)(stream_, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), ACL_ERROR_RT_STREAM_CAPTURED);
  aclrtTaskGrp group = nullptr;
  EXPECT_EQ(ACL(aclmdlRICaptureTaskGrpEnd)(stream_, &group), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  ASSERT_OK(end());
  aclmdlRI graph = graph_;
  ASSERT_OK(ACL(aclmdlRIDestroy)(graph));
  graph_ = nullptr;
  EXPECT_EQ(ACL(aclmdlRIDestroy)(graph), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(ACL(aclmdlRIExecuteAsync)(graph, stream_), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(ACL(aclmdlRIExecuteAsync)(nullptr, stream_), ACL_ERROR_INVALID_PARAM);
}

TEST_F(Graph, a_copy_of_pageable_memory_is_refused) {
  void* memory = nullptr;
  char host[64] = {};
  ASSERT_OK(ACL(aclrtMalloc)(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  begin();
  EXPECT_EQ(ACL(aclrtMemcpyAsync)(memory, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream_),
            ACL_ERROR_RT_STREAM_CAPTURED);
  EXPECT_EQ(end(), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  ACL(aclrtFree)(memory);
}
