// Faults on demand: what streams return, what is known of faulty memory, and what a repair changes.
#include "runtime/breakdown.h"

#include "device.h"

using namespace softnpu;
using test::OnCard;

class BreakdownOnDemand : public OnCard {
 protected:
  void TearDown() override {
    aclrtSynchronizeDevice();  // what the test has not collected
    repair_all(0);
    OnCard::TearDown();
  }
};

TEST_F(BreakdownOnDemand, is_returned_by_the_next_synchronise_of_every_stream_once) {
  Stream &one = make_stream(), &other = make_stream();
  ASSERT_EQ(softnpu_break_down(0, ACL_ERROR_RT_LINK_ERROR, nullptr, 0), 0);
  for (Stream* stream : {&one, &other}) {
    EXPECT_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_LINK_ERROR);
    EXPECT_OK(aclrtSynchronizeStream(stream));
  }
  aclrtErrorInfo info;
  ASSERT_OK(aclrtGetErrorVerbose(0, &info));
  EXPECT_EQ(info.errorType, ACL_RT_ERROR_LINK);
  EXPECT_EQ(info.tryRepair, 0);
  ASSERT_OK(aclrtRepairError(0, &info));
  ASSERT_OK(aclrtGetErrorVerbose(0, &info));
  EXPECT_EQ(info.errorType, ACL_RT_NO_ERROR);
  end(one);
  end(other);
}

TEST_F(BreakdownOnDemand, faulty_memory_is_known_until_it_is_repaired) {
  void* memory = nullptr;
  ASSERT_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
  ASSERT_EQ(softnpu_break_down(0, ACL_ERROR_RT_DEVICE_MEM_ERROR, memory, 64), 0);
  EXPECT_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_DEVICE_MEM_ERROR);
  aclrtMemUceInfo found[2];
  size_t count = 9;
  ASSERT_OK(aclrtGetMemUceInfo(0, found, 2, &count));
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(found[0].addr, memory);
  EXPECT_EQ(found[0].len, 64u);
  aclrtErrorInfo info;
  ASSERT_OK(aclrtGetErrorVerbose(0, &info));
  EXPECT_EQ(info.errorType, ACL_RT_ERROR_MEMORY);
  EXPECT_EQ(info.detail.uceInfo.arraySize, 1u);
  aclrtMemUceInfo wrong{memory, 65, {}};
  EXPECT_EQ(aclrtMemUceRepair(0, &wrong, 1), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_NE(test::message().find("65 bytes"), std::string::npos);
  ASSERT_OK(aclrtMemUceRepair(0, found, 1));
  ASSERT_OK(aclrtGetMemUceInfo(0, found, 2, &count));
  EXPECT_EQ(count, 0u);
  EXPECT_OK(aclrtFree(memory));
}

TEST_F(BreakdownOnDemand, bad_faults_are_refused) {
  int host = 0;
  EXPECT_EQ(softnpu_break_down(0, 0, nullptr, 0), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(softnpu_break_down(0, ACL_ERROR_RT_DEVICE_MEM_ERROR, &host, 4), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(softnpu_break_down(999, ACL_ERROR_RT_LINK_ERROR, nullptr, 0), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_OK(aclrtSynchronizeDevice());
}
