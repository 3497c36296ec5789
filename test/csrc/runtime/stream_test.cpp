#include "runtime/stream.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "device_or_skip.h"
#include "stream_work.h"

using namespace npu;

class Streams : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_DEVICES(2);
    set_device(0);
  }
  void TearDown() override {
    if (device_count() < 2) return;
    set_current_stream(default_stream(0));
    set_current_stream(default_stream(1));
    set_device(0);
    synchronize(0);
    synchronize(1);
  }
};

TEST_F(Streams, the_default_one_has_id_0_and_is_current_at_first) {
  EXPECT_EQ(default_stream().id(), 0);
  EXPECT_EQ(default_stream(1).device_index(), 1);
  EXPECT_EQ(current_stream(), default_stream(0));
  EXPECT_NE(default_stream(0).handle(), default_stream(1).handle());
}

TEST_F(Streams, a_pool_has_32_and_starts_over) {
  const auto first = stream_from_pool();
  std::set<c10::StreamId> ids{first.id()};
  std::set<aclrtStream> handles{first.handle()};
  for (int i = 1; i < 32; i++) {
    const auto stream = stream_from_pool();
    ids.insert(stream.id());
    handles.insert(stream.handle());
  }
  EXPECT_EQ(ids.size(), 32u);
  EXPECT_EQ(handles.size(), 32u);
  EXPECT_EQ(ids.count(0), 0u);
  EXPECT_EQ(stream_from_pool(), first);
}

TEST_F(Streams, priorities_have_pools_of_their_own) {
  const auto high = stream_from_pool(-1), normal = stream_from_pool(0);
  EXPECT_EQ(high.priority(), -1);
  EXPECT_EQ(normal.priority(), 0);
  EXPECT_NE(high.handle(), normal.handle());
  EXPECT_EQ(stream_from_pool(-5).priority(), -1);
  EXPECT_THROW(stream_from_pool(1), c10::Error);
  EXPECT_EQ(Stream::priority_range(), std::pair(0, -1));
}

TEST_F(Streams, every_id_survives_the_way_through_torch) {
  for (const auto& stream : {default_stream(1), stream_from_pool(0, 1), stream_from_pool(-1, 1)}) {
    const auto packed = stream.unwrap().pack3();
    const Stream back(c10::Stream::unpack3(packed.stream_id, packed.device_index, packed.device_type));
    EXPECT_EQ(back.handle(), stream.handle());
  }
}

TEST_F(Streams, an_external_one_is_its_handle) {
  aclrtStream handle = nullptr;
  NPU_CHECK(acl::api().aclrtCreateStreamWithConfig(&handle, 0, 0));
  const auto stream = external_stream(handle, 0);
  EXPECT_EQ(stream.handle(), handle);
  set_current_stream(stream);
  EXPECT_EQ(current_stream_handle(), handle);
  EXPECT_EQ(current_stream(), stream);
  Mark mark;
  mark.put(stream);
  stream.synchronize();
  EXPECT_TRUE(mark.reached());
  set_current_stream(default_stream());
  NPU_CHECK(acl::api().aclrtDestroyStream(handle));
  EXPECT_THROW(external_stream(nullptr, 0), c10::Error);
}

TEST_F(Streams, what_is_not_a_stream_of_ours_is_refused) {
  const c10::Device npu0(c10::DeviceType::PrivateUse1, 0);
  EXPECT_THROW(Stream(c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::DeviceType::CPU, 0))), c10::Error);
  EXPECT_THROW(Stream(c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::DeviceType::PrivateUse1, -1))), c10::Error);
  EXPECT_THROW(Stream(c10::Stream(c10::Stream::UNSAFE, npu0, 0x1001)).handle(), c10::Error);
}

TEST_F(Streams, setting_the_current_one_leaves_the_current_card) {
  const auto other = stream_from_pool(0, 1);
  set_current_stream(other);
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(current_stream(0), default_stream(0));
  EXPECT_EQ(current_stream(1), other);
  EXPECT_EQ(current_stream_handle(), default_stream(0).handle());
  set_device(1);
  EXPECT_EQ(current_stream_handle(), other.handle());
}

TEST_F(Streams, the_current_one_is_per_thread) {
  set_current_stream(stream_from_pool());
  std::thread([] {
    EXPECT_EQ(current_stream(), default_stream());
    EXPECT_EQ(current_stream_handle(), default_stream().handle());
  }).join();
}

TEST_F(Streams, query_and_synchronize_see_the_work) {
  const auto stream = stream_from_pool();
  EXPECT_TRUE(stream.query());
  Gate gate;
  gate.hold(stream);
  EXPECT_FALSE(stream.query());
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    gate.open();
  });
  stream.synchronize();
  EXPECT_TRUE(stream.query());
  opener.join();
}

TEST_F(Streams, a_busy_one_does_not_hold_up_another) {
  const auto busy = stream_from_pool(), free = stream_from_pool();
  Gate gate;
  gate.hold(busy);
  Mark mark;
  mark.put(free);
  free.synchronize();
  EXPECT_TRUE(mark.reached());
  EXPECT_FALSE(busy.query());
}

TEST_F(Streams, one_of_another_card_can_be_waited_for) {
  const auto stream = stream_from_pool(0, 1);
  Mark mark;
  mark.put(stream);
  stream.synchronize();
  EXPECT_TRUE(mark.reached());
  EXPECT_EQ(current_device(), 0);
}

TEST_F(Streams, asking_one_that_was_never_used_creates_nothing) {
  EXPECT_EXIT(
      {
        const auto stream = stream_from_pool(0, 1);
        const bool good = stream.query() && (stream.synchronize(), !has_primary_context(1));
        _exit(good ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}
