#include "runtime/generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstring>
#include <mutex>

#include "runtime/device.h"

namespace npu {

namespace {

constexpr size_t kSeedBytes = 8, kStateBytes = 16;
constexpr uint64_t kBlock = 4;  // values of one Philox4x32 counter

c10::DeviceIndex checked(c10::DeviceIndex device) {
  if (device < 0) device = current_device();
  check_device_index(device);
  return device;
}

}  // namespace

GeneratorImpl::GeneratorImpl(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(device_type(), device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      philox_(c10::make_intrusive<Philox>()) {}

void GeneratorImpl::set_current_seed(uint64_t seed) {
  philox_->seed = seed;
  philox_->offset = 0;
}

void GeneratorImpl::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % kBlock == 0, "offset must be a multiple of 4");
  philox_->offset = offset;
}

uint64_t GeneratorImpl::get_offset() const { return philox_->offset; }
uint64_t GeneratorImpl::current_seed() const { return philox_->seed; }

uint64_t GeneratorImpl::seed() {
  const auto random = c10::detail::getNonDeterministicRandom(true);
  set_current_seed(random);
  return random;
}

void GeneratorImpl::set_state(const c10::TensorImpl& new_state) {
  at::detail::check_rng_state(new_state);
  const auto bytes = static_cast<size_t>(new_state.numel());
  TORCH_CHECK(bytes == kStateBytes || bytes == kSeedBytes, "RNG state is wrong size: an npu generator's state has ",
              kStateBytes, " bytes (seed and offset) or ", kSeedBytes, " (seed only), but got ", bytes);
  const auto* data = static_cast<const char*>(new_state.data());
  uint64_t seed = 0, offset = 0;
  std::memcpy(&seed, data, kSeedBytes);
  if (bytes == kStateBytes) std::memcpy(&offset, data + kSeedBytes, sizeof(offset));
  set_offset(offset);  // first, because it checks
  philox_->seed = seed;
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  const auto state = at::detail::empty_cpu({kStateBytes}, c10::ScalarType::Byte);
  auto* data = static_cast<char*>(state.unsafeGetTensorImpl()->mutable_data());
  std::memcpy(data, &philox_->seed, kSeedBytes);
  std::memcpy(data + kSeedBytes, &philox_->offset, sizeof(philox_->offset));
  return state.getIntrusivePtr();
}

void GeneratorImpl::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) {
  const auto* other = dynamic_cast<const GeneratorImpl*>(new_state.get());
  TORCH_CHECK(other, "Expected an npu generator as the new state");
  philox_ = other->philox_;
}

c10::intrusive_ptr<c10::GeneratorImpl> GeneratorImpl::graphsafe_get_state() const {
  auto same = c10::make_intrusive<GeneratorImpl>(device().index());
  same->philox_ = philox_;
  return same;
}

std::pair<uint64_t, uint64_t> GeneratorImpl::philox(uint64_t numbers) {
  const auto before = philox_->offset;
  philox_->offset += (numbers + kBlock - 1) / kBlock * kBlock;
  return {philox_->seed, before};
}

GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto* copy = new GeneratorImpl(device().index());
  copy->philox_->seed = philox_->seed;
  copy->philox_->offset = philox_->offset;
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  device = checked(device);
  static std::array<std::once_flag, kMaxDevices> once;
  static auto* generators = new std::array<at::Generator, kMaxDevices>;  // may be used by other statics' destructors
  auto& generator = (*generators)[device];
  std::call_once(once[device], [&] {
    generator = at::make_generator<GeneratorImpl>(device);
    generator.seed();
  });
  return generator;
}

at::Generator create_generator(c10::DeviceIndex device) { return at::make_generator<GeneratorImpl>(checked(device)); }

namespace {

GeneratorImpl* impl_of(const std::optional<at::Generator>& generator) {
  return generator.has_value() && generator->defined() ? at::check_generator<GeneratorImpl>(generator)
                                                       : default_generator().get<GeneratorImpl>();
}

uint64_t whole_blocks(uint64_t numbers) { return (numbers + kBlock - 1) / kBlock * kBlock; }

}  // namespace

std::optional<CapturedState> captured_philox_state(const std::optional<at::Generator>& generator, uint64_t numbers) {
  Capture* capture = captures::of_current_stream();
  if (C10_LIKELY(!capture)) return std::nullopt;
  const auto& state = impl_of(generator)->shared_state();
  std::lock_guard lock(capture->mutex);
  CapturedPhilox* captured = nullptr;
  for (const auto& each : capture->generators)
    if (each->generator == state) captured = each.get();
  if (!captured) {
    const auto options = at::TensorOptions(c10::Device(c10::DeviceType::PrivateUse1, capture->device)).dtype(at::kLong);
    capture->generators.push_back(std::make_unique<CapturedPhilox>(
        CapturedPhilox{state, at::empty({1}, options), at::empty({1}, options)}));  // the graph's own memory
    captured = capture->generators.back().get();
  }
  const uint64_t behind = captured->used;
  captured->used += whole_blocks(numbers);
  return CapturedState{captured->seed, captured->offset, behind};
}

void advance(const CapturedPhilox& captured) {
  captured.seed.fill_(static_cast<int64_t>(captured.generator->seed));
  captured.offset.fill_(static_cast<int64_t>(captured.generator->offset));
  captured.generator->offset += captured.used;
}

std::pair<uint64_t, uint64_t> philox_state(const std::optional<at::Generator>& generator, uint64_t numbers) {
  TORCH_CHECK(
      !captures::of_current_stream(),
      "This operator takes the state of the generator from the host and cannot be captured in a graph; captured "
      "are uniform_, normal_, random_, bernoulli_, dropout, multinomial and what is made of them.");
  auto* impl = impl_of(generator);
  std::lock_guard lock(impl->mutex_);
  return impl->philox(numbers);
}

}  // namespace npu
