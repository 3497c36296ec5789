// Arguments on their way through packed words to the provider's objects.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "acl/library.h"
#include "aclnn/op.h"
#include "device_or_skip.h"

using namespace npu;

namespace {

std::vector<bool> g_given;  // to the last aclCreateBoolArray

// The provider with another aclCreateBoolArray, for a scope.
class WatchedProvider {
 public:
  WatchedProvider() : real_(&acl::api()), api_(*real_) {
    api_.aclCreateBoolArray = [](const bool* values, uint64_t count) -> aclBoolArray* {
      g_given.assign(values, values + count);
      return nullptr;
    };
    api_.aclDestroyBoolArray = [](const aclBoolArray*) { return 0; };
    acl::detail::g_api = &api_;
  }
  ~WatchedProvider() { acl::detail::g_api = real_; }

 private:
  const acl::Api* real_;
  acl::Api api_;
};

}  // namespace

TEST(Packing, a_list_of_bools_of_any_length_arrives_whole) {
  SKIP_WITHOUT_RUNTIME();
  const WatchedProvider watched;
  for (const size_t count : {0u, 1u, 3u, 64u, 65u, 1000u}) {
    const auto values = std::make_unique<bool[]>(count);
    for (size_t i = 0; i < count; i++) values[i] = i % 3 == 0;
    ops::Packer packer;
    packer.add_bools(c10::ArrayRef<bool>(values.get(), count));
    packer.add_word(7);
    ops::Unpacker arguments(packer.words.data(), packer.addresses.data());
    arguments.take<const aclBoolArray*>();
    EXPECT_EQ(g_given, std::vector<bool>(values.get(), values.get() + count));
    EXPECT_EQ(arguments.take<int64_t>(), 7);
  }
}
