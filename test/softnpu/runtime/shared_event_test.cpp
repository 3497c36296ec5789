#include "runtime/shared_event.h"

#include <atomic>
#include <cstring>

#include "child.h"
#include "device.h"

using test::OnCard;

namespace {

aclrtIpcEventHandle handle_of(const std::string& text) {
  aclrtIpcEventHandle handle = {};
  memcpy(handle.reserved, text.data(), std::min(text.size(), sizeof handle.reserved));
  return handle;
}

std::string status_of(aclrtEvent event) {
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  const int code = aclrtQueryEventStatus(event, &status);
  if (code != 0) return "code " + std::to_string(code);
  return status == ACL_EVENT_RECORDED_STATUS_COMPLETE ? "complete" : "not ready";
}

void tell_passed(void*) { test::tell("passed"); }

struct Held {
  std::shared_ptr<std::promise<void>> gate = std::make_shared<std::promise<void>>();
  void open() { gate->set_value(); }
};

Held hold_up(softnpu::Stream& stream) {
  Held held;
  softnpu::submit(&stream, new test::LambdaTask([gate = held.gate] { gate->get_future().wait(); }, true));
  return held;
}

}  // namespace

class SharedEvent : public OnCard {
 protected:
  void SetUp() override {
    OnCard::SetUp();
    ASSERT_OK(aclrtCreateEventExWithFlag(&event_, ACL_EVENT_IPC));
    ASSERT_OK(aclrtIpcGetEventHandle(event_, &handle_));
  }
  void TearDown() override {
    if (!event_) return;
    EXPECT_OK(aclrtDestroyEvent(event_));
  }
  aclrtEvent event_ = nullptr;
  aclrtIpcEventHandle handle_ = {};
};

// Opens the handle it reads, then does what it is told, one word a line. The first line it says is the code of opening.
CHILD(use_event) {
  if (aclrtSetDevice(0) != 0) return 1;
  aclrtEvent event = nullptr;
  const int code = aclrtIpcOpenEventHandle(handle_of(test::ask()), &event);
  test::tell("code " + std::to_string(code));
  if (code != 0) return 0;
  softnpu::Stream& stream = *softnpu::Stream::create(softnpu::current_context(), 0, 0);
  Held held;
  for (std::string word = test::ask(); !word.empty(); word = test::ask()) {
    int result = 0;
    if (word == "query") {
      test::tell(status_of(event));
      continue;
    }
    if (word == "wait")
      result = aclrtStreamWaitEvent(&stream, event) + aclrtLaunchHostFunc(&stream, tell_passed, nullptr);
    if (word == "finish") result = aclrtSynchronizeStream(&stream);
    if (word == "synchronize") result = aclrtSynchronizeEvent(event);
    if (word == "hold") held = hold_up(stream);
    if (word == "release") held.open();
    if (word == "record") result = aclrtRecordEvent(event, &stream);
    if (word == "die") _exit(7);
    test::tell("did " + std::to_string(result));
  }
  return 0;
}

TEST_F(SharedEvent, a_stream_of_another_process_waits_for_the_record) {
  test::Child child("use_event");
  child.say(handle_.reserved);
  ASSERT_EQ(child.hear(), "code 0");
  child.say("query");
  EXPECT_EQ(child.hear(), "not ready");  // as an event of one process that was never recorded
  softnpu::Stream& stream = make_stream();
  Held held = hold_up(stream);
  ASSERT_OK(aclrtRecordEvent(event_, &stream));
  child.say("query");
  EXPECT_EQ(child.hear(), "not ready");
  child.say("wait");
  EXPECT_EQ(child.hear(), "did 0");
  child.say("query");
  EXPECT_EQ(child.hear(), "not ready");  // and not "passed"
  held.open();
  EXPECT_EQ(child.hear(), "passed");
  child.say("query");
  EXPECT_EQ(child.hear(), "complete");
  child.say("synchronize");
  EXPECT_EQ(child.hear(), "did 0");
  end(stream);
}

TEST_F(SharedEvent, the_importer_records_and_the_exporter_waits) {
  test::Child child("use_event");
  child.say(handle_.reserved);
  ASSERT_EQ(child.hear(), "code 0");
  for (const char* word : {"hold", "record"}) {
    child.say(word);
    EXPECT_EQ(child.hear(), "did 0");
  }
  EXPECT_EQ(status_of(event_), "not ready");
  softnpu::Stream& stream = make_stream();
  std::atomic<bool> passed{false};
  ASSERT_OK(aclrtStreamWaitEvent(&stream, event_));
  run(stream, [&] { passed = true; });
  aclrtEventWaitStatus waits = ACL_EVENT_WAIT_STATUS_RESERVED;
  ASSERT_OK(aclrtQueryEventWaitStatus(event_, &waits));
  EXPECT_EQ(waits, ACL_EVENT_WAIT_STATUS_NOT_READY);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(&stream, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_FALSE(passed);
  child.say("release");
  EXPECT_EQ(child.hear(), "did 0");
  ASSERT_OK(aclrtSynchronizeEvent(event_));
  ASSERT_OK(aclrtSynchronizeStream(&stream));
  EXPECT_TRUE(passed);
  EXPECT_EQ(status_of(event_), "complete");
  // A later record of the exporter is the one that counts.
  Held held = hold_up(stream);
  ASSERT_OK(aclrtRecordEvent(event_, &stream));
  child.say("query");
  EXPECT_EQ(child.hear(), "not ready");
  held.open();
  ASSERT_OK(aclrtSynchronizeEvent(event_));
  child.say("query");
  EXPECT_EQ(child.hear(), "complete");
  end(stream);
}

TEST_F(SharedEvent, a_process_that_ends_before_its_record_is_complete_is_an_error_of_who_waits) {
  test::Child child("use_event");
  child.say(handle_.reserved);
  ASSERT_EQ(child.hear(), "code 0");
  for (const char* word : {"hold", "record"}) {
    child.say(word);
    EXPECT_EQ(child.hear(), "did 0");
  }
  softnpu::Stream& stream = make_stream();
  ASSERT_OK(aclrtStreamWaitEvent(&stream, event_));
  child.kill(SIGKILL);
  child.wait();
  EXPECT_EQ(aclrtSynchronizeStream(&stream), ACL_ERROR_RT_IPC_ERROR);
  EXPECT_EQ(aclrtSynchronizeEvent(event_), ACL_ERROR_RT_IPC_ERROR);
  EXPECT_NE(test::message().find("ended before"), std::string::npos);
  EXPECT_EQ(status_of(event_), "code " + std::to_string(ACL_ERROR_RT_IPC_ERROR));
  ASSERT_OK(aclrtRecordEvent(event_, &stream));  // as good as new
  ASSERT_OK(aclrtSynchronizeEvent(event_));
  end(stream);
}

CHILD(export_event) {
  if (aclrtSetDevice(0) != 0) return 1;
  aclrtEvent event = nullptr;
  aclrtIpcEventHandle handle = {};
  if (aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC) != 0) return 2;
  softnpu::Stream& stream = *softnpu::Stream::create(softnpu::current_context(), 0, 0);
  if (aclrtRecordEvent(event, &stream) != 0 || aclrtSynchronizeEvent(event) != 0) return 3;
  if (aclrtIpcGetEventHandle(event, &handle) != 0) return 4;
  test::tell(handle.reserved);
  test::ask();
  return 0;
}

TEST_F(SharedEvent, of_a_dead_exporter_stays_what_it_was_and_cannot_be_opened) {
  test::Child child("export_event");
  const aclrtIpcEventHandle handle = handle_of(child.hear());
  aclrtEvent event = nullptr;
  ASSERT_OK(aclrtIpcOpenEventHandle(handle, &event));
  child.kill(SIGKILL);
  child.wait();
  EXPECT_EQ(status_of(event), "complete");
  ASSERT_OK(aclrtSynchronizeEvent(event));
  aclrtEvent late = nullptr;
  EXPECT_EQ(aclrtIpcOpenEventHandle(handle, &late), ACL_ERROR_RT_IPC_ERROR);
  EXPECT_NE(test::message().find("has ended"), std::string::npos);
  EXPECT_OK(aclrtDestroyEvent(event));
}

TEST_F(SharedEvent, refuses_handles_that_are_none) {
  aclrtEvent event = nullptr;
  EXPECT_EQ(aclrtIpcOpenEventHandle({}, &event), ACL_ERROR_RT_PARAM_INVALID);
  aclrtIpcEventHandle full;
  memset(full.reserved, 'x', sizeof full.reserved);
  EXPECT_EQ(aclrtIpcOpenEventHandle(full, &event), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtIpcOpenEventHandle(handle_of("softnpu-event-0000000000000000"), &event), ACL_ERROR_RT_IPC_ERROR);
  void* memory = nullptr;
  char key[ACL_IPC_HANDLE_SIZE];
  ASSERT_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
  ASSERT_OK(aclrtIpcMemGetExportKey(memory, 4096, key, sizeof key, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
  const std::string of_memory = "softnpu-event-" + std::string(key + strlen("softnpu-ipc-"));
  EXPECT_EQ(aclrtIpcOpenEventHandle(handle_of(of_memory), &event), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_NE(test::message().find("not of an event"), std::string::npos);
  ASSERT_OK(aclrtIpcMemClose(key));
  ASSERT_OK(aclrtFree(memory));
  EXPECT_EQ(aclrtIpcOpenEventHandle(handle_, nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtIpcGetEventHandle(event_, nullptr), ACL_ERROR_INVALID_PARAM);
  aclrtEvent plain = nullptr;
  ASSERT_OK(aclrtCreateEventExWithFlag(&plain, ACL_EVENT_SYNC));
  EXPECT_EQ(aclrtIpcGetEventHandle(plain, &full), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_OK(aclrtDestroyEvent(plain));
  ASSERT_OK(aclrtIpcOpenEventHandle(handle_, &event));
  EXPECT_EQ(aclrtIpcGetEventHandle(event, &full), ACL_ERROR_RT_PARAM_INVALID);  // its exporter's to give
  EXPECT_OK(aclrtDestroyEvent(event));
  EXPECT_OK(aclrtDestroyEvent(event_));
  event_ = nullptr;
  EXPECT_EQ(aclrtIpcOpenEventHandle(handle_, &event), ACL_ERROR_RT_IPC_ERROR);  // withdrawn
}

TEST_F(SharedEvent, many_records_and_openings_leave_nothing_behind) {
  softnpu::Stream& stream = make_stream();
  softnpu::Stream& other = make_stream();
  for (int turn = 0; turn < 1000; ++turn) {  // more than the page has places for
    ASSERT_OK(aclrtRecordEvent(event_, &stream));
    aclrtEvent twin = nullptr;
    ASSERT_OK(aclrtIpcOpenEventHandle(handle_, &twin));
    ASSERT_OK(aclrtStreamWaitEvent(&other, twin));
    ASSERT_OK(aclrtDestroyEvent(twin));
  }
  ASSERT_OK(aclrtSynchronizeStream(&other));
  EXPECT_EQ(status_of(event_), "complete");
  ASSERT_OK(aclrtResetEvent(event_, &stream));
  EXPECT_EQ(status_of(event_), "not ready");
  end(stream);
  end(other);
}

TEST_F(SharedEvent, is_no_part_of_a_capture) {
  softnpu::Stream& stream = make_stream();
  ASSERT_OK(aclmdlRICaptureBegin(&stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(aclrtRecordEvent(event_, &stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  aclmdlRI model = nullptr;
  aclmdlRICaptureEnd(&stream, &model);
  if (model) aclmdlRIDestroy(model);
  end(stream);
}
