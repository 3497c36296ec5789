#include "memory/allocator_config.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "acl/config.h"

namespace npu::caching_allocator::settings {
namespace {

using Upstream = c10::CachingAllocator::AcceleratorAllocatorConfig;
using Tokens = c10::CachingAllocator::ConfigTokenizer;

const std::unordered_set<std::string> kOwnKeys = {
    "base_addr_aligned_kb",           "multi_stream_lazy_reclaim",      "page_size",
    "per_process_memory_fraction",    "pin_memory_expandable_segments", "pinned_mem_register",
    "pinned_reserve_segment_size_mb", "release_lock_on_npumalloc",      "segment_size_mb",
    "throw_on_npumalloc_oom",
};

struct Settings {
  std::atomic<bool> rounds{false};
  std::atomic<bool> expandable{false};
  std::atomic<bool> lazy_reclaim{false};
  std::atomic<bool> refuse_over_limit{false};
  std::atomic<double> fraction{-1.0};  // negative: not set
};
Settings g_settings;

bool is_separator(const std::string& token) { return token == ":" || token == "," || token == "[" || token == "]"; }

std::string valid_keys() {
  std::vector<std::string> keys(Upstream::getKeys().begin(), Upstream::getKeys().end());
  std::sort(keys.begin(), keys.end());
  std::string text;
  for (const auto& key : keys) text += (text.empty() ? "" : ", ") + key;
  return text;
}

// Calls visit(key, index of its first value token) for each setting of `text`; throws when it is not a list of
// key:value.
template <class Visit>
void for_each_setting(const std::string& text, const Tokens& tokens, Visit visit) {
  for (size_t i = 0; i < tokens.size();) {
    const std::string& key = tokens[i];
    TORCH_CHECK_VALUE(!is_separator(key) && i + 2 < tokens.size() && tokens[i + 1] == ":", "Allocator settings '", text,
                      "': expected key:value at '", key, "'");
    TORCH_CHECK_VALUE(Upstream::getKeys().count(key) != 0, "Allocator settings '", text, "': unknown key '", key,
                      "'. Valid keys: ", valid_keys());
    visit(key, i + 2);
    i += 2;
    if (tokens[i] == "[") {
      while (i < tokens.size() && tokens[i] != "]") ++i;
      TORCH_CHECK_VALUE(i < tokens.size(), "Allocator settings '", text, "': the list of '", key, "' has no closing ]");
    }
    ++i;
    TORCH_CHECK_VALUE(i == tokens.size() || tokens[i] == ",", "Allocator settings '", text,
                      "': expected a comma after the value of '", key, "'");
    ++i;
  }
}

double fraction_in_range(const Tokens& tokens, size_t i) {
  const double fraction = tokens.toDouble(i);
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "per_process_memory_fraction is ", fraction, ", must be in 0~1");
  return fraction;
}

void warn_without_effect(const std::string& key) {
  TORCH_WARN("Allocator setting '", key, "' is accepted but has no effect in this version of torch_npu");
}

// The deprecated name of large_segment_size_mb; upstream knows the new one only.
void apply_segment_size(const std::string& text, const std::string& megabytes) {
  TORCH_WARN("Allocator setting 'segment_size_mb' is deprecated, use 'large_segment_size_mb'");
  Upstream::instance().parseArgs(text + ",large_segment_size_mb:" + megabytes);
}

void apply_own_keys(const std::string& text) {
  const Tokens tokens(text);
  g_settings.lazy_reclaim = false;
  g_settings.refuse_over_limit = false;
  g_settings.fraction = -1.0;
  for_each_setting(text, tokens, [&](const std::string& key, size_t value) {
    if (key == "multi_stream_lazy_reclaim")
      g_settings.lazy_reclaim = tokens.toBool(value);
    else if (key == "throw_on_npumalloc_oom")
      g_settings.refuse_over_limit = tokens.toBool(value);
    else if (key == "per_process_memory_fraction")
      g_settings.fraction = fraction_in_range(tokens, value);
    else if (key == "segment_size_mb")
      apply_segment_size(text, tokens[value]);
    // Always so here: the lock is never held across a driver call, and segments are aligned to their page.
    else if (key == "release_lock_on_npumalloc" || key == "base_addr_aligned_kb")
      return;
    else if (kOwnKeys.count(key) != 0)
      warn_without_effect(key);
  });
  const auto& divisions = Upstream::roundup_power2_divisions();
  g_settings.rounds = std::any_of(divisions.begin(), divisions.end(), [](size_t n) { return n > 1; });
  g_settings.expandable = Upstream::use_expandable_segments();
}

// Upstream calls the hook after its own parser, also for torch._C._accelerator_setAllocatorSettings. Its registration
// throws for a key that it knows already, from another plugin; that would end the process while the library is loaded.
[[maybe_unused]] const bool g_registered = [] {
  Upstream::getConfigParserHook() = &apply_own_keys;
  Upstream::getMutableKeys().insert(kOwnKeys.begin(), kOwnKeys.end());
  return true;
}();

void load_environment() {
  const auto npu_text = config::npu_alloc_conf();
  const auto generic_text = config::alloc_conf();
  TORCH_CHECK_VALUE(!npu_text || !generic_text,
                    "PYTORCH_NPU_ALLOC_CONF and PYTORCH_ALLOC_CONF are both set; unset one of them");
  const char* name = npu_text ? "PYTORCH_NPU_ALLOC_CONF" : "PYTORCH_ALLOC_CONF";
  const std::string text = npu_text ? *npu_text : generic_text.value_or("");
  try {
    for_each_setting(text, Tokens(text), [](const std::string&, size_t) {});
    if (npu_text || generic_text) Upstream::instance().parseArgs(text);
    apply_own_keys(text);
  } catch (c10::Error& error) {
    error.add_context(std::string("while reading the environment variable ") + name);
    throw;
  } catch (const std::exception&) {  // std::stoull, std::stod
    TORCH_CHECK_VALUE(false, "Allocator settings '", text, "': a value is not a number (environment variable ", name,
                      ")");
  }
}

}  // namespace

void load() {
  static std::once_flag once;
  std::call_once(once, load_environment);
}

void set(const std::string& text) {
  load();
  for_each_setting(text, Tokens(text), [](const std::string&, size_t) {});
  c10::CachingAllocator::setAllocatorSettings(text);
}

bool caching_disabled() noexcept {
  static const bool disabled = config::no_memory_caching();
  return disabled;
}

bool rounds_to_power_of_two() noexcept { return g_settings.rounds.load(std::memory_order_relaxed); }
bool expandable_segments() noexcept { return g_settings.expandable.load(std::memory_order_relaxed); }
bool lazy_reclaim() noexcept { return g_settings.lazy_reclaim.load(std::memory_order_relaxed); }
bool refuse_over_limit() noexcept { return g_settings.refuse_over_limit.load(std::memory_order_relaxed); }

std::optional<double> memory_fraction() noexcept {
  const double fraction = g_settings.fraction.load(std::memory_order_relaxed);
  return fraction < 0 ? std::nullopt : std::optional(fraction);
}

}  // namespace npu::caching_allocator::settings
