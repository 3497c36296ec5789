// A test on card 0, with streams and tasks made of lambdas.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>

#include "entry/entry.h"
#include "runtime/config.h"
#include "runtime/context.h"
#include "runtime/stream.h"
#include "runtime/task.h"

namespace test {

#define ASSERT_OK(code) ASSERT_EQ(code, 0) << test::message()
#define EXPECT_OK(code) EXPECT_EQ(code, 0) << test::message()

inline std::string message() {
  const char* text = aclGetRecentErrMsg();
  return text ? text : "";
}

class LambdaTask final : public softnpu::Task {
 public:
  LambdaTask(std::function<void()> body, bool blocks, int* released = nullptr)
      : body_(std::move(body)), blocks_(blocks), released_(released) {}
  ~LambdaTask() override {
    if (released_) ++*released_;
  }
  void run() override { body_(); }
  std::string describe() const override { return "lambda[2, 3]"; }
  Waits waits() const noexcept override { return blocks_ ? Waits::for_user : Waits::never; }

 private:
  std::function<void()> body_;
  bool blocks_;
  int* released_;
};

class OnCard : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(aclrtSetDevice(0)); }

  softnpu::Stream& make_stream() { return *softnpu::Stream::create(softnpu::current_context(), 0, 0); }
  static void end(softnpu::Stream& stream) { stream.destroy(softnpu::Stream::Ending::drained); }

  static void run(softnpu::Stream& stream, std::function<void()> body) {
    softnpu::submit(&stream, new LambdaTask(std::move(body), false));
  }
  static void run_blocking(softnpu::Stream& stream, std::function<void()> body) {
    softnpu::submit(&stream, new LambdaTask(std::move(body), true));
  }
  // Holds up the stream until the promise is kept.
  static std::shared_ptr<std::promise<void>> hold(softnpu::Stream& stream) {
    auto promise = std::make_shared<std::promise<void>>();
    run_blocking(stream, [promise] { promise->get_future().wait_for(std::chrono::seconds(10)); });
    return promise;
  }
};

}  // namespace test
