// The text of PYTORCH_NPU_ALLOC_CONF: what it sets, and what is said about bad text. The environment is in test/python.
#include "memory/allocator_config.h"

#include <c10/core/AllocatorConfig.h>
#include <gtest/gtest.h>

using namespace npu::caching_allocator;
using Upstream = c10::CachingAllocator::AcceleratorAllocatorConfig;

namespace {

class AllocatorConfig : public testing::Test {
 protected:
  void TearDown() override { settings::set("expandable_segments:False,large_segment_size_mb:20"); }

  static std::string error_of(const std::string& text) {
    try {
      settings::set(text);
    } catch (const c10::ValueError& error) {
      return error.what_without_backtrace();
    }
    return "";
  }
};

}  // namespace

TEST_F(AllocatorConfig, common_keys_are_upstreams) {
  settings::set("max_split_size_mb:64, garbage_collection_threshold:0.5 ,roundup_power2_divisions:[256:2,>:4]");
  EXPECT_EQ(Upstream::max_split_size(), 64u << 20);
  EXPECT_EQ(Upstream::garbage_collection_threshold(), 0.5);
  EXPECT_TRUE(settings::rounds_to_power_of_two());
  settings::set("");
  EXPECT_EQ(Upstream::garbage_collection_threshold(), 0);
  EXPECT_FALSE(settings::rounds_to_power_of_two());
}

TEST_F(AllocatorConfig, own_keys_are_set) {
  settings::set("multi_stream_lazy_reclaim:True,throw_on_npumalloc_oom:True,per_process_memory_fraction:0.25");
  EXPECT_TRUE(settings::lazy_reclaim());
  EXPECT_TRUE(settings::refuse_over_limit());
  EXPECT_EQ(settings::memory_fraction(), 0.25);
  settings::set("");
  EXPECT_FALSE(settings::lazy_reclaim());
  EXPECT_FALSE(settings::refuse_over_limit());
}

TEST_F(AllocatorConfig, the_deprecated_segment_size_still_works) {
  settings::set("segment_size_mb:32");
  EXPECT_EQ(Upstream::large_segment_size(), 32u << 20);
}

TEST_F(AllocatorConfig, an_unknown_key_is_named_with_the_valid_ones) {
  const std::string error = error_of("max_split_size_mb:64,max_spilt_size_mb:64");
  EXPECT_NE(error.find("unknown key 'max_spilt_size_mb'"), std::string::npos) << error;
  EXPECT_NE(error.find("max_split_size_mb, multi_stream_lazy_reclaim"), std::string::npos) << error;
}

TEST_F(AllocatorConfig, text_that_is_no_list_of_settings_is_refused) {
  EXPECT_NE(error_of("max_split_size_mb").find("expected key:value at 'max_split_size_mb'"), std::string::npos);
  EXPECT_NE(error_of("max_split_size_mb:").find("expected key:value"), std::string::npos);
  EXPECT_NE(error_of(":1").find("expected key:value"), std::string::npos);
  EXPECT_NE(error_of("max_split_size_mb:64:128").find("expected a comma"), std::string::npos);
  EXPECT_NE(error_of("roundup_power2_divisions:[256:1").find("no closing ]"), std::string::npos);
}

TEST_F(AllocatorConfig, values_out_of_range_are_refused) {
  EXPECT_NE(error_of("max_split_size_mb:1"), "");
  EXPECT_NE(error_of("garbage_collection_threshold:2"), "");
  EXPECT_NE(error_of("per_process_memory_fraction:2"), "");
  EXPECT_NE(error_of("multi_stream_lazy_reclaim:perhaps"), "");
}
