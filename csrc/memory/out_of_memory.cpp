#include "memory/out_of_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/AllocatorConfig.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <mutex>
#include <sstream>
#include <vector>

#include "acl/check.h"
#include "acl/config.h"
#include "memory/allocator_config.h"

namespace npu::caching_allocator {
namespace {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::format_size;

std::mutex g_mutex;
std::vector<OutOfMemoryObserver> g_observers;

std::string advice(const OutOfMemory& facts) {
  const size_t unallocated = facts.reserved - facts.allocated;
  const size_t foreign = facts.total - facts.free > facts.reserved ? facts.total - facts.free - facts.reserved : 0;
  if (facts.limited && facts.reserved + facts.requested > facts.limit)
    return " Raise the limit with torch.npu.set_per_process_memory_fraction.";
  if (facts.free + unallocated >= facts.requested && !settings::expandable_segments())
    return " There is enough memory, but in pieces: try setting PYTORCH_NPU_ALLOC_CONF=expandable_segments:True to"
           " avoid fragmentation.";
  if (foreign >= facts.requested) return " Other processes use " + format_size(foreign) + " of this card.";
  return "";
}

// "train.py:12 in forward", innermost first; frames of C++ are left out.
std::string stack_text(c10::GatheredContext* context) {
  constexpr size_t kFrames = 4;
  auto* const traceback = dynamic_cast<torch::CapturedTraceback*>(context);
  if (!traceback) return "  (no stack)";
  std::vector<torch::CapturedTraceback*> one{traceback};
  const auto symbols = torch::symbolize(one);
  std::vector<std::string> lines;
  for (const auto index : symbols.tracebacks.front()) {
    const auto& frame = symbols.all_frames[index];
    if (frame.filename.ends_with(".py") || frame.filename.starts_with("<"))
      lines.push_back(c10::str(frame.filename, ":", frame.lineno, " in ", frame.funcname));
    if (lines.size() == kFrames) break;
  }
  return lines.empty() ? "  (no Python stack)" : "  " + c10::Join(" < ", lines);
}

std::string largest_tensors(const OutOfMemory& facts) {
  if (!facts.cached) return "";
  if (!facts.recorded)
    return "\nCall torch.npu.memory._record_memory_history() at the start to have the largest tensors listed here.";
  std::string text = "\nThe largest live tensors:";
  for (const auto& [bytes, context] : facts.largest) text += "\n  " + format_size(bytes) + stack_text(context.get());
  return text;
}

}  // namespace

std::string describe(const OutOfMemory& facts) {
  std::ostringstream text;
  text << "NPU out of memory. Tried to allocate " << format_size(facts.requested) << ". NPU "
       << static_cast<int>(facts.device) << " has a total capacity of " << format_size(facts.total) << " of which "
       << format_size(facts.free) << " is free. ";
  if (facts.limited) text << format_size(facts.limit) << " allowed for this process. ";
  text << "Of the allocated memory " << format_size(facts.allocated) << " is allocated by PyTorch, and "
       << format_size(facts.reserved - facts.allocated) << " is reserved by PyTorch but unallocated." << advice(facts)
       << largest_tensors(facts);
  if (!config::compact_errors()) text << "\n" << acl::error_line("ERR00006 PTA memory error");
  return text.str();
}

void attach_out_of_memory_observer(OutOfMemoryObserver observer) {
  std::lock_guard lock(g_mutex);
  g_observers.push_back(std::move(observer));
}

void notify_out_of_memory_observers(const OutOfMemory& facts) {
  std::unique_lock lock(g_mutex);
  const auto observers = g_observers;
  lock.unlock();
  for (const auto& observer : observers) observer(facts);
}

}  // namespace npu::caching_allocator
