#include "runtime/generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstring>

#include "device_or_skip.h"

using namespace npu;

class Generator : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_DEVICES(2); }
};

namespace {

at::Tensor bytes(std::initializer_list<uint64_t> words) {
  auto tensor = at::detail::empty_cpu({static_cast<int64_t>(words.size() * 8)}, at::kByte);
  std::memcpy(tensor.unsafeGetTensorImpl()->mutable_data(), words.begin(), words.size() * 8);
  return at::Tensor(tensor);
}

GeneratorImpl& impl(const at::Generator& generator) { return *generator.get<GeneratorImpl>(); }

}  // namespace

TEST_F(Generator, a_new_one_has_torch_s_default_seed) {
  const auto g = create_generator(1);
  EXPECT_EQ(g.current_seed(), c10::default_rng_seed_val);
  EXPECT_EQ(g.get_offset(), 0u);
  EXPECT_EQ(g.device(), c10::Device(c10::DeviceType::PrivateUse1, 1));
}

TEST_F(Generator, default_ones_exist_per_card_and_open_none) {
  EXPECT_EQ(default_generator(0), default_generator(0));
  EXPECT_NE(default_generator(0), default_generator(1));
  EXPECT_EQ(default_generator(), default_generator(current_device()));
  EXPECT_THROW(default_generator(100), c10::Error);
  const auto seed_one = [] {
    at::Generator(default_generator(1)).set_current_seed(7);
    return default_generator(1).current_seed() == 7 && !is_initialized();
  };
  EXPECT_EXIT(_exit(seed_one() ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST_F(Generator, reserving_advances_by_whole_blocks) {
  auto g = create_generator();
  g.set_current_seed(11);
  EXPECT_EQ(impl(g).philox(10), std::pair(uint64_t{11}, uint64_t{0}));
  EXPECT_EQ(impl(g).philox(4), std::pair(uint64_t{11}, uint64_t{12}));
  EXPECT_EQ(impl(g).philox(0), std::pair(uint64_t{11}, uint64_t{16}));
  EXPECT_EQ(g.get_offset(), 16u);
  g.set_current_seed(11);
  EXPECT_EQ(g.get_offset(), 0u);
}

TEST_F(Generator, the_state_is_seed_and_offset) {
  auto g = create_generator();
  g.set_current_seed(0x1122334455667788);
  g.set_offset(40);
  const auto state = g.get_state();
  ASSERT_EQ(state.numel(), 16);
  uint64_t words[2];
  std::memcpy(words, state.const_data_ptr(), 16);
  EXPECT_EQ(words[0], 0x1122334455667788u);
  EXPECT_EQ(words[1], 40u);
  auto other = create_generator();
  other.set_state(state);
  EXPECT_EQ(other.current_seed(), g.current_seed());
  EXPECT_EQ(other.get_offset(), 40u);
}

TEST_F(Generator, a_state_of_the_seed_alone_starts_at_offset_0) {
  auto g = create_generator();
  g.set_offset(40);
  g.set_state(bytes({3}));
  EXPECT_EQ(g.current_seed(), 3u);
  EXPECT_EQ(g.get_offset(), 0u);
}

TEST_F(Generator, a_wrong_state_is_refused_and_changes_nothing) {
  auto g = create_generator();
  g.set_current_seed(5);
  try {
    g.set_state(bytes({1, 2, 3}));
    FAIL();
  } catch (const c10::Error& e) {
    EXPECT_NE(e.msg().find("RNG state is wrong size"), std::string::npos);
    EXPECT_NE(e.msg().find("24"), std::string::npos);
  }
  EXPECT_THROW(g.set_state(at::Tensor(at::detail::empty_cpu({16}, at::kFloat))), c10::TypeError);
  EXPECT_THROW(g.set_state(bytes({1, 2})), c10::Error) << "an offset that is no multiple of 4";
  EXPECT_THROW(g.set_offset(3), c10::Error);
  EXPECT_EQ(g.current_seed(), 5u);
  EXPECT_EQ(g.get_offset(), 0u);
}

TEST_F(Generator, a_clone_goes_its_own_way_and_a_graphsafe_state_does_not) {
  auto g = create_generator();
  g.set_current_seed(5);
  impl(g).philox(4);
  auto clone = g.clone();
  auto shared = g.graphsafe_get_state();
  impl(g).philox(4);
  EXPECT_EQ(clone.get_offset(), 4u);
  EXPECT_EQ(clone.current_seed(), 5u);
  EXPECT_EQ(shared.get_offset(), 8u);
  auto other = create_generator();
  other.graphsafe_set_state(shared);
  impl(other).philox(4);
  EXPECT_EQ(g.get_offset(), 12u);
}

TEST_F(Generator, seeding_from_the_system_gives_different_seeds) {
  auto g = create_generator();
  const auto first = g.seed();
  EXPECT_EQ(g.current_seed(), first);
  EXPECT_NE(g.seed(), first);
}

TEST_F(Generator, operators_take_the_given_one_or_the_card_s_default) {
  std::optional<at::Generator> mine = create_generator();
  EXPECT_EQ(philox_state(mine, 8).second, 0u);
  EXPECT_EQ(philox_state(mine, 8).second, 8u);
  at::Generator everyone = default_generator();
  everyone.set_current_seed(9);
  EXPECT_EQ(philox_state(std::nullopt, 8), std::pair(uint64_t{9}, uint64_t{0}));
  EXPECT_EQ(everyone.get_offset(), 8u);
}
