// A task that fails: sticky until the next synchronise, then forgotten.
#include <atomic>

#include "device.h"

using namespace softnpu;
using test::OnCard;

class TaskFailure : public OnCard {
 protected:
  static void fail_on(Stream& stream, int code = ACL_ERROR_RT_AICORE_EXCEPTION,
                      const char* text = "division by a shoe") {
    run(stream, [=] { fail(code, "%s", text); });
  }
};

TEST_F(TaskFailure, is_returned_by_the_next_synchronise_with_what_where_and_why) {
  Stream& stream = make_stream();
  EXPECT_NO_THROW(fail_on(stream));
  EXPECT_EQ(aclrtSynchronizeStream(&stream), ACL_ERROR_RT_AICORE_EXCEPTION);
  const std::string text = test::message();
  EXPECT_NE(text.find("lambda[2, 3]"), std::string::npos) << text;
  EXPECT_NE(text.find("division by a shoe"), std::string::npos) << text;
  EXPECT_NE(text.find("stream"), std::string::npos) << text;
  EXPECT_OK(aclrtSynchronizeStream(&stream));
  end(stream);
}

TEST_F(TaskFailure, next_operation_works) {
  Stream& stream = make_stream();
  std::atomic<int> ran{0};
  fail_on(stream);
  run(stream, [&] { ++ran; });
  EXPECT_EQ(aclrtSynchronizeStream(&stream), ACL_ERROR_RT_AICORE_EXCEPTION);
  run(stream, [&] { ++ran; });
  EXPECT_OK(aclrtSynchronizeStream(&stream));
  EXPECT_EQ(ran, 2);
  end(stream);
}

TEST_F(TaskFailure, stop_mode_drops_what_follows_until_it_is_collected) {
  Stream& stream = make_stream();
  ASSERT_OK(aclrtSetStreamFailureMode(&stream, ACL_STOP_ON_FAILURE));
  std::atomic<int> ran{0};
  fail_on(stream);
  run(stream, [&] { ++ran; });
  EXPECT_EQ(aclrtSynchronizeStream(&stream), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(ran, 0);
  run(stream, [&] { ++ran; });
  EXPECT_OK(aclrtSynchronizeStream(&stream));
  EXPECT_EQ(ran, 1);
  end(stream);
}

TEST_F(TaskFailure, first_of_several_is_reported) {
  Stream& stream = make_stream();
  fail_on(stream, ACL_ERROR_RT_AICORE_TIMEOUT, "first");
  fail_on(stream, ACL_ERROR_RT_AICORE_EXCEPTION, "second");
  EXPECT_EQ(aclrtSynchronizeStream(&stream), ACL_ERROR_RT_AICORE_TIMEOUT);
  EXPECT_NE(test::message().find("first"), std::string::npos);
  EXPECT_OK(aclrtSynchronizeStream(&stream));
  end(stream);
}

TEST_F(TaskFailure, device_synchronise_collects_from_all_streams) {
  Stream& first = make_stream();
  Stream& second = make_stream();
  fail_on(first);
  fail_on(second);
  EXPECT_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_OK(aclrtSynchronizeDevice());
  EXPECT_OK(aclrtSynchronizeStream(&second));
  end(first);
  end(second);
}

TEST_F(TaskFailure, event_synchronise_reports_it_too) {
  Stream& stream = make_stream();
  Event& event = Event::create(ACL_EVENT_SYNC);
  fail_on(stream);
  event.record(stream);
  EXPECT_EQ(aclrtSynchronizeEvent(&event), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_OK(aclrtSynchronizeStream(&stream));
  Event::destroy(&event);
  end(stream);
}

TEST_F(TaskFailure, other_streams_do_not_see_it) {
  Stream& first = make_stream();
  Stream& second = make_stream();
  fail_on(first);
  run(second, [] {});
  EXPECT_OK(aclrtSynchronizeStream(&second));
  EXPECT_NE(aclrtSynchronizeStream(&first), 0);
  end(first);
  end(second);
}

TEST_F(TaskFailure, any_exception_becomes_a_code) {
  Stream& stream = make_stream();
  run(stream, [] { throw std::runtime_error("from a library"); });
  EXPECT_EQ(aclrtSynchronizeStream(&stream), ACL_ERROR_RT_INTERNAL_ERROR);
  EXPECT_NE(test::message().find("from a library"), std::string::npos);
  run(stream, [] { throw 42; });
  EXPECT_EQ(aclrtSynchronizeStream(&stream), ACL_ERROR_RT_INTERNAL_ERROR);
  end(stream);
}

TEST_F(TaskFailure, is_not_lost_by_a_free) {
  Stream& stream = make_stream();
  void* memory = nullptr;
  ASSERT_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
  fail_on(stream);
  ASSERT_OK(aclrtFree(memory));
  EXPECT_EQ(aclrtSynchronizeStream(&stream), ACL_ERROR_RT_AICORE_EXCEPTION);
  end(stream);
}

// What a stream waited for is not there when the task failed: whoever uses it must hear of that.
TEST_F(TaskFailure, reaches_the_stream_that_waits_for_it) {
  Stream &first = make_stream(), &second = make_stream();
  aclrtEvent event = nullptr;
  ASSERT_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  fail_on(first);
  ASSERT_OK(aclrtRecordEvent(event, &first));
  ASSERT_OK(aclrtStreamWaitEvent(&second, event));
  EXPECT_EQ(aclrtSynchronizeStream(&second), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_NE(test::message().find("division by a shoe"), std::string::npos);
  EXPECT_EQ(aclrtSynchronizeStream(&first), ACL_ERROR_RT_AICORE_EXCEPTION);
  ASSERT_OK(aclrtStreamWaitEvent(&second, event));  // collected by now
  EXPECT_OK(aclrtSynchronizeStream(&second));
  ASSERT_OK(aclrtDestroyEvent(event));
  end(first);
  end(second);
}
