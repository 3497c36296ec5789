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

// What captures the current stream, if it is one of this card.
Capture* capture_of(c10::Device device) {
  Capture* capture = captures::of_current_stream();
  return capture && capture->device == device.index() ? capture : nullptr;
}

// What the capture has of a generator's state; nullptr: it has not met it. Its lock is held.
CapturedPhilox* find(const Capture& capture, const c10::intrusive_ptr<Philox>& state) {
  for (const auto& each : capture.generators)
    if (each->generator == state) return each.get();
  return nullptr;
}

CapturedPhilox& captured_by(Capture& capture, const c10::intrusive_ptr<Philox>& state) {
  if (auto* known = find(capture, state)) return *known;
  const auto options = at::TensorOptions(c10::Device(c10::DeviceType::PrivateUse1, capture.device)).dtype(at::kLong);
  capture.generators.push_back(std::make_unique<CapturedPhilox>(CapturedPhilox{
      state, at::empty({1}, options), at::empty({1}, options), state->offset}));  // the graph's own memory
  return *capture.generators.back();
}

}  // namespace

GeneratorImpl::GeneratorImpl(c10::DeviceIndex device, uint64_t seed)
    : c10::GeneratorImpl(c10::Device(device_type(), device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      philox_(c10::make_intrusive<Philox>()) {
  philox_->seed = seed;
}

// Note [Generators in a capture]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A captured stream draws when it is replayed: from where the generator is then, on by what the capture draws. So
// within the capture the generator's offset is the one that the first replay would find, and setting it, as
// checkpointed activations do to draw the same numbers again, moves the capture's own place. Another seed would not
// reach a replay.
void GeneratorImpl::set_current_seed(uint64_t seed) {
  if (capture_of(device())) {
    TORCH_CHECK(
        seed == philox_->seed,
        "NPUGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same as "
        "the original seed. Seed the generator before the capture or before a replay.");
    return;
  }
  philox_->seed = seed;
  philox_->offset = 0;
}

void GeneratorImpl::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % kBlock == 0, "offset must be a multiple of 4");
  Capture* capture = capture_of(device());
  if (!capture) {
    philox_->offset = offset;
    return;
  }
  std::lock_guard lock(capture->mutex);
  CapturedPhilox& captured = captured_by(*capture, philox_);
  TORCH_CHECK(offset >= captured.start, "While a stream is captured the offset of its generator can go back to ",
              captured.start, ", where the capture began to draw, but not to ", offset,
              ": a state from before the capture cannot be set in it.");
  captured.used = offset - captured.start;
}

uint64_t GeneratorImpl::get_offset() const {
  if (Capture* capture = capture_of(device())) {
    std::lock_guard lock(capture->mutex);
    if (const auto* captured = find(*capture, philox_)) return captured->start + captured->used;
  }
  return philox_->offset;
}

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
  TORCH_CHECK(offset % kBlock == 0, "offset must be a multiple of 4");
  set_current_seed(seed);
  set_offset(offset);
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  const auto state = at::detail::empty_cpu({kStateBytes}, c10::ScalarType::Byte);
  auto* data = static_cast<char*>(state.unsafeGetTensorImpl()->mutable_data());
  const uint64_t offset = get_offset();
  std::memcpy(data, &philox_->seed, kSeedBytes);
  std::memcpy(data + kSeedBytes, &offset, sizeof(offset));
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
    generator = at::make_generator<GeneratorImpl>(device, c10::detail::getNonDeterministicRandom(true));
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
  std::lock_guard lock(capture->mutex);
  CapturedPhilox& captured = captured_by(*capture, impl_of(generator)->shared_state());
  const uint64_t behind = captured.used;
  captured.used += whole_blocks(numbers);
  return CapturedState{captured.seed, captured.offset, behind};
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
      "are uniform_, normal_, random_, bernoulli_, exponential_, cauchy_, geometric_, dropout, rrelu, multinomial and "
      "what is made of them.");
  auto* impl = impl_of(generator);
  std::lock_guard lock(impl->mutex_);
  return impl->philox(numbers);
}

}  // namespace npu
