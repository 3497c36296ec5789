#include "runtime/device_query.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>

using namespace npu;

namespace {

struct Answer {
  int value = 0;
};

bool ask(bool (*fill)(void*, int), Answer& answer, int seconds = 20) {
  return ask_child(fill, &answer, sizeof(answer), 7, seconds);
}

}  // namespace

TEST(CountVisible, counts_up_to_the_first_thing_that_is_no_card) {
  EXPECT_EQ(count_visible(std::nullopt, 8), 8);
  EXPECT_EQ(count_visible("0,1,2,3", 8), 4);
  EXPECT_EQ(count_visible("3,1", 8), 2);
  EXPECT_EQ(count_visible("", 8), 0);
  EXPECT_EQ(count_visible("none", 8), 0);
  EXPECT_EQ(count_visible("0,1,x", 8), 2);
  EXPECT_EQ(count_visible("0,1x,2", 8), 2);
  EXPECT_EQ(count_visible("0,99,1", 8), 1);
  EXPECT_EQ(count_visible("1,1", 8), 1);
  EXPECT_EQ(count_visible("-1", 8), 0);
  EXPECT_EQ(count_visible("0", 0), 0);
}

TEST(AskChild, brings_the_answer_back) {
  Answer answer;
  const auto fill = [](void* out, int argument) {
    static_cast<Answer*>(out)->value = argument * 6;
    return true;
  };
  EXPECT_TRUE(ask(fill, answer));
  EXPECT_EQ(answer.value, 42);
}

TEST(AskChild, a_child_that_fails_leaves_the_answer_alone) {
  Answer answer{5};
  EXPECT_FALSE(ask([](void* out, int) { return static_cast<Answer*>(out)->value = 1, false; }, answer));
  EXPECT_EQ(answer.value, 5);
}

TEST(AskChild, a_child_that_crashes_is_survived) {
  Answer answer{5};
  EXPECT_FALSE(ask([](void*, int) { return raise(SIGKILL) == 0; }, answer));
  EXPECT_EQ(answer.value, 5);
}

TEST(AskChild, a_child_that_hangs_is_given_up) {
  Answer answer{5};
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(ask([](void*, int) { return sleep(100) == 0; }, answer, 1));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}
