#include "python/memory_snapshot.h"

#include <c10/util/ApproximateClock.h>
#include <pybind11/stl.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <optional>

#include "memory/caching_allocator.h"

// torch's header for it needs a JSON library that the wheel does not ship.
namespace torch {
TORCH_API std::vector<pybind11::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
}

namespace npu::python {

namespace {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::SegmentInfo;
using c10::CachingDeviceAllocator::TraceEntry;
using torch::wrap_pybind_function;

// ---- stack traces ---------------------------------------------------------------------------------------------------

std::shared_ptr<c10::GatheredContext> gather_python() { return torch::CapturedTraceback::gather(true, true, false); }
std::shared_ptr<c10::GatheredContext> gather_all() { return torch::CapturedTraceback::gather(true, true, true); }

// Frames are looked up once for the whole snapshot, after everything else has been built.
class Frames {
 public:
  void add(py::dict dict, const std::shared_ptr<c10::GatheredContext>& context) {
    if (context == nullptr) {
      dict["frames"] = py::list();
      return;
    }
    tracebacks_.push_back(torch::getCapturedTracebackFromContext(context));
    dicts_.push_back(std::move(dict));
  }
  void fill() {
    const auto frames = torch::py_symbolize(tracebacks_);
    for (size_t i = 0; i < dicts_.size(); ++i) dicts_[i]["frames"] = frames[i];
  }

 private:
  std::vector<torch::CapturedTraceback*> tracebacks_;
  std::vector<py::dict> dicts_;
};

// ---- dicts ----------------------------------------------------------------------------------------------------------

const char* state_name(const BlockInfo& block) {
  return block.allocated ? "active_allocated" : block.active ? "active_pending_free" : "inactive";
}

const char* action_name(TraceEntry::Action action) {
  switch (action) {
    case TraceEntry::ALLOC:
      return "alloc";
    case TraceEntry::FREE_REQUESTED:
      return "free_requested";
    case TraceEntry::FREE_COMPLETED:
      return "free_completed";
    case TraceEntry::SEGMENT_ALLOC:
      return "segment_alloc";
    case TraceEntry::SEGMENT_FREE:
      return "segment_free";
    case TraceEntry::SEGMENT_MAP:
      return "segment_map";
    case TraceEntry::SEGMENT_UNMAP:
      return "segment_unmap";
    case TraceEntry::SNAPSHOT:
      return "snapshot";
    case TraceEntry::OOM:
      return "oom";
  }
  return "unknown";
}

py::dict to_dict(const SegmentInfo& segment, Frames& frames) {
  py::dict dict;
  dict["device"] = segment.device;
  dict["address"] = segment.address;
  dict["total_size"] = segment.total_size;
  dict["allocated_size"] = segment.allocated_size;
  dict["active_size"] = segment.active_size;
  dict["requested_size"] = segment.requested_size;
  dict["stream"] = reinterpret_cast<int64_t>(segment.stream);
  dict["segment_type"] = segment.is_large ? "large" : "small";
  dict["segment_pool_id"] = segment.owner_private_pool_id;
  dict["is_expandable"] = segment.is_expandable;
  frames.add(dict, segment.context_when_allocated);
  py::list blocks;
  size_t address = segment.address;
  for (const BlockInfo& info : segment.blocks) {
    py::dict block;
    block["address"] = address;
    block["size"] = info.size;
    block["requested_size"] = info.requested_size;
    block["state"] = state_name(info);
    frames.add(block, info.context_when_allocated);
    blocks.append(block);
    address += info.size;
  }
  dict["blocks"] = blocks;
  return dict;
}

py::dict to_dict(const TraceEntry& entry, const std::function<c10::time_t(c10::approx_time_t)>& to_unix_time,
                 Frames& frames) {
  py::dict dict;
  dict["action"] = action_name(entry.action_);
  dict[entry.action_ == TraceEntry::OOM ? "device_free" : "addr"] = entry.addr_;
  dict["size"] = entry.size_;
  dict["stream"] = reinterpret_cast<int64_t>(entry.stream_);
  dict["pool_id"] = entry.mempool_;
  dict["time_us"] = to_unix_time(entry.time_.approx_t_) / 1000;
  dict["compile_context"] = entry.compile_context_;
  dict["user_metadata"] = entry.user_metadata_;
  frames.add(dict, entry.context_);
  return dict;
}

py::dict allocator_settings() {
  py::dict dict;
  dict["PYTORCH_NPU_ALLOC_CONF"] = AcceleratorAllocatorConfig::last_allocator_settings();
  dict["max_split_size"] = static_cast<int64_t>(AcceleratorAllocatorConfig::max_split_size());
  dict["garbage_collection_threshold"] = AcceleratorAllocatorConfig::garbage_collection_threshold();
  dict["expandable_segments"] = AcceleratorAllocatorConfig::use_expandable_segments();
  py::dict divisions;
  size_t megabytes = 1;
  for (const size_t count : AcceleratorAllocatorConfig::roundup_power2_divisions()) {
    divisions[py::str(std::to_string(megabytes))] = count;
    megabytes *= 2;
  }
  dict["roundup_power2_divisions"] = divisions;
  return dict;
}

// Measures the clock's rate between its first use, when recording starts, and the snapshot.
c10::ApproximateClockToUnixTimeConverter& unix_time_converter() {
  static c10::ApproximateClockToUnixTimeConverter converter;
  return converter;
}

py::dict memory_snapshot(c10::MempoolId_t pool, bool with_traces) {
  const auto snapshot = caching_allocator::snapshot(pool, with_traces);
  const auto to_unix_time = unix_time_converter().makeConverter();
  Frames frames;
  py::list segments;
  for (const auto& segment : snapshot.segments) segments.append(to_dict(segment, frames));
  py::list traces;
  for (const auto& entries : snapshot.traces) {
    py::list trace;
    for (const auto& entry : entries) trace.append(to_dict(entry, to_unix_time, frames));
    traces.append(trace);
  }
  frames.fill();
  py::dict dict;
  dict["segments"] = segments;
  dict["device_traces"] = traces;
  dict["allocator_settings"] = allocator_settings();
  dict["external_annotations"] = py::list();
  return dict;
}

// ---- history --------------------------------------------------------------------------------------------------------

RecordContext parse_context(const std::optional<std::string>& context) {
  if (!context) return RecordContext::NEVER;
  if (*context == "state") return RecordContext::STATE;
  if (*context == "alloc") return RecordContext::ALLOC;
  TORCH_CHECK_VALUE(*context == "all", "Expected context to be 'state', 'alloc', 'all' or None, but got '", *context,
                    "'");
  return RecordContext::ALL;
}

void record_memory_history(const std::optional<std::string>& enabled, const std::optional<std::string>& context,
                           const std::string& stacks, size_t max_entries, bool clear_history,
                           const std::vector<std::string>& skip_actions) {
  TORCH_CHECK_VALUE(!enabled || *enabled == "state" || *enabled == "all",
                    "Expected enabled to be 'state', 'all' or None, but got '", enabled.value_or(""), "'");
  TORCH_CHECK_VALUE(stacks == "python" || stacks == "all", "Expected stacks to be 'python' or 'all', but got '", stacks,
                    "'");
  caching_allocator::HistorySettings settings;
  if (enabled) {
    settings.when = parse_context(context);
    settings.enabled = *enabled == "all";
    if (*enabled == "state" && settings.when > RecordContext::STATE) settings.when = RecordContext::STATE;
    settings.gather = stacks == "python" ? gather_python : gather_all;
    settings.max_entries = max_entries;
    for (const auto& action : skip_actions)
      settings.skip.push_back(c10::CachingDeviceAllocator::parseTraceEntryAction(action));
    unix_time_converter();
    torch::unwind::unwind();  // its first call is slow: not inside an allocation
  }
  caching_allocator::record_history(settings, clear_history);
}

py::object allocation_traceback(uintptr_t address) {
  const auto context = caching_allocator::context_of(reinterpret_cast<const void*>(address));
  if (context == nullptr) return py::none();
  std::vector<torch::CapturedTraceback*> tracebacks = {torch::getCapturedTracebackFromContext(context)};
  return torch::py_symbolize(tracebacks).front();
}

}  // namespace

void bind_memory_snapshot(py::module_& module) {
  module.def("memory_snapshot", wrap_pybind_function(&memory_snapshot), py::arg("pool") = c10::MempoolId_t{0, 0},
             py::arg("with_traces") = true);
  module.def("record_memory_history", wrap_pybind_function(&record_memory_history));
  module.def("is_history_enabled", wrap_pybind_function(&caching_allocator::is_history_enabled));
  module.def("allocation_traceback", wrap_pybind_function(&allocation_traceback));
  module.def("set_memory_metadata", wrap_pybind_function(&caching_allocator::set_user_metadata));
  module.def("get_memory_metadata", wrap_pybind_function(&caching_allocator::user_metadata));
}

}  // namespace npu::python
