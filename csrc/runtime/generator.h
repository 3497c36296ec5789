// Random generators of the npu device: (seed, offset) of Philox4x32-10, advanced on the host, consumed by kernels.
// They are host state: creating, seeding and saving one opens no card.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <optional>
#include <utility>

#include "runtime/capture.h"

namespace npu {

struct Philox : c10::intrusive_ptr_target {
  uint64_t seed = c10::default_rng_seed_val;
  uint64_t offset = 0;
};

class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(c10::DeviceIndex device, uint64_t seed = c10::default_rng_seed_val);
  void set_current_seed(uint64_t seed) override;  // also sets the offset to 0
  void set_offset(uint64_t offset) override;      // a multiple of 4: one Philox block is four values
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;  // seeds from the operating system, returns the seed
  // The state is that of torch.cuda's generators: a CPU byte tensor of seed and offset, 8 bytes each. Setting also
  // takes the seed alone, and sets the offset to 0.
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  // A generator over the same (seed, offset): what one consumes, the other does too.
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  // Reserves `numbers` random 32-bit values, rounded up to whole Philox blocks, and returns (seed, offset before). The
  // offset counts values. Caller holds mutex_.
  std::pair<uint64_t, uint64_t> philox(uint64_t numbers);
  const c10::intrusive_ptr<Philox>& shared_state() const { return philox_; }

 private:
  GeneratorImpl* clone_impl() const override;
  c10::intrusive_ptr<Philox> philox_;
};

const at::Generator& default_generator(c10::DeviceIndex device = -1);  // seeded from the operating system
at::Generator create_generator(c10::DeviceIndex device = -1);          // with torch's default seed

// What a random operator needs: locks `generator` (or the card's default one) and reserves `numbers` values. Throws
// while the current stream is being captured, where the state is not known before a replay.
std::pair<uint64_t, uint64_t> philox_state(const std::optional<at::Generator>& generator, uint64_t numbers);

// The same for operators that can read the state from the card; nothing unless the current stream is being captured.
struct CapturedState {
  at::Tensor seed, offset;
  uint64_t behind;  // to be added to the offset
};
std::optional<CapturedState> captured_philox_state(const std::optional<at::Generator>& generator, uint64_t numbers);
// Before a replay: puts the generator's state where the graph's kernels read it, and reserves their values.
void advance(const CapturedPhilox& captured);

}  // namespace npu
