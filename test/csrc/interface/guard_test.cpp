// What torch does with the device by itself: c10's guards, streams and events, and the hooks.
#include <ATen/DeviceAccelerator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "device_or_skip.h"
#include "memory/caching_allocator.h"
#include "runtime/event.h"
#include "stream_work.h"

using namespace npu;

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
c10::Device card(c10::DeviceIndex index) { return {kType, index}; }

const at::PrivateUse1HooksInterface& hooks() { return at::detail::getPrivateUse1Hooks(); }

}  // namespace

class Guard : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_DEVICES(2);
    set_device(0);
  }
  void TearDown() override {
    if (device_count() >= 2) set_device(0);
  }
};

TEST_F(Guard, torch_finds_the_device) {
  EXPECT_TRUE(c10::impl::hasDeviceGuardImpl(kType));
  EXPECT_TRUE(at::isPrivateUse1HooksRegistered());
  EXPECT_EQ(at::getAccelerator(), kType);
  EXPECT_EQ(at::accelerator::deviceCount(), device_count());
}

TEST_F(Guard, a_device_guard_changes_the_card_and_back) {
  {
    c10::DeviceGuard guard(card(1));
    EXPECT_EQ(current_device(), 1);
    EXPECT_EQ(guard.original_device(), card(0));
  }
  EXPECT_EQ(current_device(), 0);
}

TEST_F(Guard, selecting_a_card_does_not_open_it) {
  EXPECT_EXIT(
      {
        std::thread([] { at::accelerator::setDeviceIndex(1); }).join();  // as the autograd engine does for each card
        _exit(has_primary_context(1) ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Guard, a_stream_guard_changes_card_and_stream) {
  const c10::Stream stream = stream_from_pool(0, 1);
  {
    c10::StreamGuard guard(stream);
    EXPECT_EQ(current_device(), 1);
    EXPECT_EQ(current_stream().unwrap(), stream);
  }
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(current_stream(1), default_stream(1));
}

TEST_F(Guard, torch_s_streams_are_ours) {
  const auto* impl = c10::impl::getDeviceGuardImpl(kType);
  const auto stream = impl->getNewStream(card(1), -1);
  EXPECT_EQ(Stream(stream).priority(), -1);
  EXPECT_EQ(impl->getDefaultStream(card(1)).id(), 0);
  EXPECT_EQ(Stream(impl->getStreamFromGlobalPool(card(0), true)).priority(), -1);
  EXPECT_EQ(stream.native_handle(), Stream(stream).handle());
  EXPECT_FALSE(stream.is_capturing());
  Gate gate;
  gate.hold(Stream(stream));
  EXPECT_FALSE(stream.query());
  gate.open();
  stream.synchronize();
  EXPECT_TRUE(stream.query());
  at::accelerator::synchronizeDevice(1);
}

TEST_F(Guard, torch_s_events_are_ours) {
  const c10::Stream stream = stream_from_pool(), other = stream_from_pool();
  c10::Event event(kType);
  EXPECT_TRUE(event.query());
  Gate gate;
  gate.hold(Stream(stream));
  event.record(stream);
  event.block(other);
  EXPECT_FALSE(event.query());
  EXPECT_FALSE(other.query());
  EXPECT_FALSE(static_cast<Event*>(event.eventId())->enable_timing());
  gate.open();
  event.synchronize();
  other.synchronize();
  c10::Event begin(kType, c10::EventFlag::BACKEND_DEFAULT), end(kType, c10::EventFlag::BACKEND_DEFAULT);
  begin.record(stream);
  end.record(stream);
  end.synchronize();
  EXPECT_GE(begin.elapsedTime(end), 0.);
}

TEST_F(Guard, the_capability_lists_the_types_of_the_abi) {
  const auto capability = at::accelerator::getDeviceCapability(0);
  const auto& has = capability.capability_data.supported_scalar_types;
  EXPECT_TRUE(has.has_Float && has.has_Half && has.has_Long && has.has_Bool && has.has_ComplexFloat);
  EXPECT_EQ(has.has_BFloat16, get_device_properties(0).bf16);
  EXPECT_FALSE(has.has_QInt8);
}

TEST_F(Guard, hooks_answer_for_the_device) {
  EXPECT_TRUE(hooks().isBuilt());
  EXPECT_TRUE(hooks().isAvailable());
  EXPECT_EQ(hooks().deviceCount(), device_count());
  hooks().setCurrentDevice(1);
  EXPECT_EQ(hooks().getCurrentDevice(), 1);
  EXPECT_TRUE(hooks().hasPrimaryContext(1));
  EXPECT_EQ(hooks().exchangeDevice(0), 1);
  EXPECT_EQ(hooks().maybeExchangeDevice(1), 0);
  EXPECT_EQ(hooks().getDefaultGenerator(1).device(), card(1));
  EXPECT_EQ(hooks().getNewGenerator(1).device(), card(1));
}

TEST_F(Guard, hooks_know_pinned_memory_and_the_card_of_a_pointer) {
  const auto pinned = hooks().getPinnedMemoryAllocator()->allocate(4096);
  char plain[16];
  EXPECT_TRUE(hooks().isPinnedPtr(pinned.get()));
  EXPECT_FALSE(hooks().isPinnedPtr(plain));
  DeviceGuard guard(1);
  const auto device = caching_allocator::get()->allocate(4096);
  EXPECT_EQ(hooks().getDeviceFromPtr(device.get()), card(1));
  EXPECT_THROW(hooks().getDeviceFromPtr(plain), c10::Error);
}

TEST_F(Guard, growing_a_storage_keeps_its_bytes) {
  auto storage = c10::Storage(c10::Storage::use_byte_size_t(), 8, caching_allocator::get()->allocate(8),
                              caching_allocator::get(), true);
  const char text[9] = "8 bytes!";
  char back[16] = "";
  NPU_CHECK(acl::api().aclrtMemcpy(storage.mutable_data(), 8, text, 8, ACL_MEMCPY_HOST_TO_DEVICE));
  hooks().resizePrivateUse1Bytes(storage, 1 << 20);
  EXPECT_EQ(storage.nbytes(), size_t{1} << 20);
  synchronize();
  NPU_CHECK(acl::api().aclrtMemcpy(back, 8, storage.data(), 8, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_STREQ(back, text);
  hooks().resizePrivateUse1Bytes(storage, 0);
  EXPECT_EQ(storage.nbytes(), 0u);
}
