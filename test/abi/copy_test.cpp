// Copies and fills in all directions.
#include <cstring>
#include <numeric>
#include <vector>

#include "library.h"

using test::Gate;
using test::OnDevice;

class Copy : public OnDevice {
 protected:
  static constexpr size_t kBytes = 3 << 20;
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    source_.resize(kBytes);
    target_.resize(kBytes);
    std::iota(source_.begin(), source_.end(), 1);
    first_ = static_cast<char*>(make_memory(kBytes));
    second_ = static_cast<char*>(make_memory(kBytes));
    stream_ = make_stream();
  }
  void TearDown() override {
    if (!stream_) return;
    ACL(aclrtDestroyStream)(stream_);
    ACL(aclrtFree)(first_);
    ACL(aclrtFree)(second_);
  }
  std::vector<unsigned char> source_, target_;
  char *first_ = nullptr, *second_ = nullptr;
  aclrtStream stream_ = nullptr;
};

TEST_F(Copy, goes_round_host_device_device_host) {
  ASSERT_OK(ACL(aclrtMemcpy)(first_, kBytes, source_.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE));
  ASSERT_OK(ACL(aclrtMemcpy)(second_, kBytes, first_, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE));
  ASSERT_OK(ACL(aclrtMemcpy)(target_.data(), kBytes, second_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(source_, target_);
}

TEST_F(Copy, default_kind_finds_the_direction) {
  ASSERT_OK(ACL(aclrtMemcpy)(first_, kBytes, source_.data(), kBytes, ACL_MEMCPY_DEFAULT));
  ASSERT_OK(ACL(aclrtMemcpyAsync)(second_, kBytes, first_, kBytes, ACL_MEMCPY_DEFAULT, stream_));
  ASSERT_OK(ACL(aclrtMemcpyAsync)(target_.data(), kBytes, second_, kBytes, ACL_MEMCPY_DEFAULT, stream_));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(source_, target_);
  std::vector<unsigned char> other(kBytes);
  ASSERT_OK(ACL(aclrtMemcpy)(other.data(), kBytes, source_.data(), kBytes, ACL_MEMCPY_HOST_TO_HOST));
  EXPECT_EQ(other, source_);
}

TEST_F(Copy, kind_that_disagrees_with_an_address_names_the_argument) {
  EXPECT_EQ(ACL(aclrtMemcpy)(target_.data(), 16, source_.data(), 16, ACL_MEMCPY_HOST_TO_DEVICE),
            ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_NE(test::message().find("dst"), std::string::npos);
  EXPECT_EQ(ACL(aclrtMemcpy)(first_, 16, second_, 16, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_NE(test::message().find("src"), std::string::npos);
  EXPECT_EQ(ACL(aclrtMemcpyAsync)(target_.data(), 16, source_.data(), 16, ACL_MEMCPY_DEVICE_TO_HOST, stream_),
            ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_NE(test::message().find("src"), std::string::npos);
  EXPECT_EQ(ACL(aclrtMemcpy)(first_, 16, second_, 16, static_cast<aclrtMemcpyKind>(99)), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(Copy, range_beyond_an_allocation_or_limit_is_an_error) {
  EXPECT_EQ(ACL(aclrtMemcpy)(first_, 15, source_.data(), 16, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_NE(test::message().find("destMax"), std::string::npos);
  EXPECT_EQ(ACL(aclrtMemcpy)(first_ + kBytes - 8, 16, source_.data(), 16, ACL_MEMCPY_HOST_TO_DEVICE),
            ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtMemcpy)(target_.data(), kBytes, first_ + kBytes - 8, 16, ACL_MEMCPY_DEVICE_TO_HOST),
            ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtMemset)(first_, 8, 0, 16), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtMemset)(first_ + kBytes - 8, 16, 0, 16), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtMemcpy)(nullptr, 16, source_.data(), 16, ACL_MEMCPY_DEFAULT), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(ACL(aclrtMemcpy)(first_, 16, nullptr, 16, ACL_MEMCPY_DEFAULT), ACL_ERROR_INVALID_PARAM);
}

TEST_F(Copy, of_freed_memory_is_an_error) {
  char* freed = static_cast<char*>(make_memory(4096));
  ASSERT_OK(ACL(aclrtMemset)(freed, 4096, 0, 4096));
  ASSERT_OK(ACL(aclrtFree)(freed));
  EXPECT_EQ(ACL(aclrtMemset)(freed, 4096, 0, 4096), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtMemcpy)(target_.data(), 16, freed, 16, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(Copy, overlapping_ranges_behave_like_memmove) {
  ASSERT_OK(ACL(aclrtMemcpy)(first_, kBytes, source_.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE));
  ASSERT_OK(ACL(aclrtMemcpy)(first_ + 100, kBytes - 100, first_, kBytes - 100, ACL_MEMCPY_DEVICE_TO_DEVICE));
  ASSERT_OK(ACL(aclrtMemcpy)(target_.data(), kBytes, first_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(memcmp(target_.data() + 100, source_.data(), kBytes - 100), 0);
}

TEST_F(Copy, async_waits_for_earlier_work_of_its_stream) {
  void* pinned = nullptr;
  ASSERT_OK(ACL(aclrtMallocHost)(&pinned, kBytes));
  memcpy(pinned, source_.data(), kBytes);
  ASSERT_OK(ACL(aclrtMemset)(first_, kBytes, 0, kBytes));
  Gate gate(stream_);
  ASSERT_OK(ACL(aclrtMemcpyAsync)(first_, kBytes, pinned, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream_));
  aclrtEvent copied = nullptr;  // looking at the memory meanwhile is not allowed
  ASSERT_OK(ACL(aclrtCreateEventExWithFlag)(&copied, ACL_EVENT_SYNC));
  ASSERT_OK(ACL(aclrtRecordEvent)(copied, stream_));
  auto status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
  ASSERT_OK(ACL(aclrtQueryEventStatus)(copied, &status));
  EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
  gate.open();
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  ASSERT_OK(ACL(aclrtMemcpy)(target_.data(), kBytes, first_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(source_, target_);
  ASSERT_OK(ACL(aclrtDestroyEvent)(copied));
  ASSERT_OK(ACL(aclrtFreeHost)(pinned));
}

TEST_F(Copy, async_source_in_pageable_memory_may_change_after_the_call) {
  Gate gate(stream_);
  std::vector<unsigned char> small(1000, 7);
  ASSERT_OK(ACL(aclrtMemcpyAsync)(first_, 1000, small.data(), 1000, ACL_MEMCPY_HOST_TO_DEVICE, stream_));
  small.assign(1000, 8);
  gate.open();
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  ASSERT_OK(ACL(aclrtMemcpy)(small.data(), 1000, first_, 1000, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(small, std::vector<unsigned char>(1000, 7));
}

TEST_F(Copy, between_devices) {
  if (test::device_count() < 2) GTEST_SKIP() << "needs two devices";
  ASSERT_OK(ACL(aclrtMemcpy)(first_, kBytes, source_.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE));
  ASSERT_OK(ACL(aclrtSetDevice)(1));
  void* peer = make_memory(kBytes);
  ASSERT_OK(ACL(aclrtMemcpy)(peer, kBytes, first_, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE));
  ASSERT_OK(ACL(aclrtMemcpy)(target_.data(), kBytes, peer, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(source_, target_);
  ASSERT_OK(ACL(aclrtFree)(peer));
  ASSERT_OK(ACL(aclrtSetDevice)(0));
}

TEST_F(Copy, fills) {
  ASSERT_OK(ACL(aclrtMemset)(first_, kBytes, 0xab, kBytes));
  ASSERT_OK(ACL(aclrtMemsetAsync)(first_ + 1, kBytes - 1, 0xcd, 10, stream_));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  ASSERT_OK(ACL(aclrtMemcpy)(target_.data(), kBytes, first_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(target_[0], 0xab);
  EXPECT_EQ(target_[1], 0xcd);
  EXPECT_EQ(target_[10], 0xcd);
  EXPECT_EQ(target_[11], 0xab);
}

TEST_F(Copy, batch_does_all_or_says_which_failed) {
  void* dsts[] = {first_, second_};
  void* srcs[] = {source_.data(), source_.data() + 1};
  size_t sizes[] = {1000, 2000}, max[] = {1000, 2000};
  size_t failed = 99;
  ASSERT_OK(ACL(aclrtMemcpyBatch)(dsts, max, srcs, sizes, 2, nullptr, nullptr, 0, &failed));
  EXPECT_EQ(failed, SIZE_MAX);
  ASSERT_OK(ACL(aclrtMemcpyBatchAsync)(dsts, max, srcs, sizes, 2, nullptr, nullptr, 0, &failed, stream_));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  ASSERT_OK(ACL(aclrtMemcpy)(target_.data(), 2000, second_, 2000, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(memcmp(target_.data(), source_.data() + 1, 2000), 0);
  max[1] = 10;
  EXPECT_EQ(ACL(aclrtMemcpyBatch)(dsts, max, srcs, sizes, 2, nullptr, nullptr, 0, &failed), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(failed, 1u);
}
