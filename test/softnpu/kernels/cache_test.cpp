// The executor cache: hits take new addresses, misses and changed tensor lists build a fresh call.
#include "operators.h"

using test::floats;

namespace {

// The way a client uses the cache: list addresses, ask, build on a miss. Returns whether it was a hit.
bool add(std::string key, const test::DeviceTensor<float>& a, const test::DeviceTensor<float>& b,
         const test::DeviceTensor<float>& out, aclrtStream stream, aclScalar* alpha) {
  ACL(InitPTACacheThreadLocal)();
  for (auto* t : {&a, &b, &out}) ACL(AddTensorAddrToCachedList)(t->memory());
  auto* bytes = reinterpret_cast<uint8_t*>(key.data());
  uint64_t workspace = 0;
  aclOpExecutor* executor = ACL(PTAFindExecCache)(bytes, key.size(), &workspace);
  const bool hit = executor != nullptr;
  if (!hit) {
    ACL(SetPTACacheHashKey)(bytes, key.size());
    EXPECT_OK(ACL(aclnnAddGetWorkspaceSize)(a.handle, b.handle, alpha, out.handle, &workspace, &executor));
  }
  ACL(UnInitPTACacheThreadLocal)();
  EXPECT_OK(ACL(aclnnAdd)(nullptr, 0, executor, stream));
  return hit;
}

}  // namespace

class Cache : public test::WithStream {};

TEST_F(Cache, hit_uses_the_new_addresses) {
  auto a = floats({1, 2}), b = floats({3, 4}), c = floats({100, 200}), first = floats({0, 0}), second = floats({0, 0});
  for (int i = 0; i < 2; i++) {  // kept from the second call on
    EXPECT_FALSE(add("hit_uses_the_new_addresses", a, b, first, stream_, one_));
    ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  }
  EXPECT_TRUE(add("hit_uses_the_new_addresses", c, b, second, stream_, one_));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(first.read(), (std::vector<float>{4, 6}));
  EXPECT_EQ(second.read(), (std::vector<float>{103, 204}));
}

TEST_F(Cache, call_in_flight_is_not_handed_out_again) {
  auto a = floats({1}), b = floats({2}), c = floats({50}), first = floats({0}), second = floats({0});
  test::Gate gate(stream_);
  EXPECT_FALSE(add("in_flight", a, b, first, stream_, one_));
  EXPECT_FALSE(add("in_flight", c, b, second, stream_, one_));
  gate.open();
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(first.read()[0], 3);
  EXPECT_EQ(second.read()[0], 52);
  EXPECT_TRUE(add("in_flight", a, a, first, stream_, one_));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(first.read()[0], 2);
}

TEST_F(Cache, keys_that_come_once_are_forgotten) {
  auto a = floats({1}), b = floats({2}), out = floats({0});
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < 3000; i++) EXPECT_FALSE(add("once " + std::to_string(i), a, b, out, stream_, one_));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
}

TEST_F(Cache, another_number_of_tensors_is_a_miss) {
  auto a = floats({1}), out = floats({0});
  for (int i = 0; i < 2; i++) EXPECT_FALSE(add("number_of_tensors", a, a, out, stream_, one_));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  ACL(InitPTACacheThreadLocal)();
  ACL(AddTensorAddrToCachedList)(a.memory());
  std::string key = "number_of_tensors";
  uint64_t workspace = 0;
  EXPECT_EQ(ACL(PTAFindExecCache)(reinterpret_cast<uint8_t*>(key.data()), key.size(), &workspace), nullptr);
  ACL(UnInitPTACacheThreadLocal)();
}

TEST_F(Cache, thread_may_end_while_its_calls_run) {
  auto a = floats({1}), b = floats({2}), out = floats({0});
  test::Gate gate(stream_);
  std::thread([&] {
    ASSERT_OK(ACL(aclrtSetDevice)(0));
    for (int i = 0; i < 2; i++) add("thread_may_end", a, b, out, stream_, one_);
  }).join();
  gate.open();
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(out.read()[0], 3);
}
