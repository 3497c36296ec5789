// SOFTNPU_HOSTILE=7 (the environment of this program): what a card leaves open comes out differently, and results do
// not.
#include <cmath>
#include <set>

#include "operators.h"

class Hostile : public test::WithStream {
 protected:
  void SetUp() override {
    WithStream::SetUp();
    if (!getenv("SOFTNPU_HOSTILE")) GTEST_SKIP() << "SOFTNPU_HOSTILE is not set";
  }
};

TEST_F(Hostile, the_cache_is_closed_to_operators_that_change) {
  std::set<std::string> refused_first, refused_later;
  for (const auto& [from, refused] : {std::pair{0, &refused_first}, {640, &refused_later}})
    for (int i = from; i < from + 64; i++) {
      const std::string name = "aclnnOperator" + std::to_string(i - from);
      if (!ACL(CanUsePTACache)(name.c_str())) refused->insert(name);
    }
  EXPECT_GT(refused_first.size(), 4u);
  EXPECT_LT(refused_first.size(), 32u);
  EXPECT_NE(refused_first, refused_later);
}

TEST_F(Hostile, workspaces_change_their_size_for_equal_arguments) {
  auto a = test::floats({1, 2}), out = test::floats({0, 0});
  std::set<uint64_t> sizes;
  for (int i = 0; i < 100; i++) {
    uint64_t workspace = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_OK(ACL(aclnnAddGetWorkspaceSize)(a.handle, a.handle, one_, out.handle, &workspace, &executor));
    void* memory = workspace ? make_memory(workspace) : nullptr;
    ASSERT_OK(ACL(aclnnAdd)(memory, workspace, executor, stream_));
    ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
    EXPECT_EQ(out.read(), (std::vector<float>{2, 4}));
    if (memory) {
      ASSERT_OK(ACL(aclrtFree)(memory));
    }
    sizes.insert(workspace);
  }
  EXPECT_TRUE(sizes.count(0));
  EXPECT_GT(sizes.size(), 5u);
}

TEST_F(Hostile, memory_without_contents_is_not_a_number) {
  void* memory = make_memory(64);
  float values[16];
  ASSERT_OK(ACL(aclrtMemcpy)(values, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  for (float value : values) EXPECT_TRUE(std::isnan(value));
  ASSERT_OK(ACL(aclrtFree)(memory));
}
