#include "memory/allocator_history.h"

#include <algorithm>
#include <mutex>

namespace npu::caching_allocator {
namespace {

std::mutex g_metadata_mutex;
std::string g_metadata;

}  // namespace

void set_user_metadata(std::string text) {
  std::lock_guard lock(g_metadata_mutex);
  g_metadata = std::move(text);
}

std::string user_metadata() {
  std::lock_guard lock(g_metadata_mutex);
  return g_metadata;
}

std::shared_ptr<c10::GatheredContext> AllocatorHistory::gather(RecordContext when) const {
  const CreateContextFn gather = gather_.load(std::memory_order_acquire);
  return gather != nullptr && when_.load(std::memory_order_relaxed) >= when ? gather() : nullptr;
}

void AllocatorHistory::configure(const HistorySettings& settings, bool clear) {
  settings_ = settings;
  settings_.max_entries = std::max<size_t>(settings.max_entries, 1);
  when_ = settings.when;
  gather_.store(settings.gather, std::memory_order_release);
  records_ = settings.enabled || settings.when != RecordContext::NEVER;
  ring_ = settings.enabled && !clear ? entries() : std::vector<TraceEntry>();
  if (ring_.size() > settings_.max_entries) ring_.erase(ring_.begin(), ring_.end() - settings_.max_entries);
  oldest_ = 0;
}

void AllocatorHistory::add(TraceEntry::Action action, const void* address, size_t size, c10::StreamId stream,
                           c10::MempoolId_t pool, std::shared_ptr<c10::GatheredContext> context) {
  if (!settings_.enabled) return;
  if (std::find(settings_.skip.begin(), settings_.skip.end(), action) != settings_.skip.end()) return;
  if (settings_.when < RecordContext::ALLOC) context = nullptr;
  TraceEntry entry(action, device_, reinterpret_cast<size_t>(address), size, reinterpret_cast<void*>(stream), pool,
                   c10::getApproximateTime(), std::move(context), "", user_metadata());
  if (ring_.size() < settings_.max_entries) {
    ring_.push_back(std::move(entry));
  } else {
    ring_[oldest_] = std::move(entry);
    oldest_ = (oldest_ + 1) % ring_.size();
  }
}

std::vector<TraceEntry> AllocatorHistory::entries() const {
  std::vector<TraceEntry> entries(ring_.begin() + oldest_, ring_.end());
  entries.insert(entries.end(), ring_.begin(), ring_.begin() + oldest_);
  return entries;
}

}  // namespace npu::caching_allocator
