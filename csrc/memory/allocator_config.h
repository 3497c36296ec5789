// Settings of the device and host allocators: PYTORCH_NPU_ALLOC_CONF or PYTORCH_ALLOC_CONF (one of them), and
// PYTORCH_NO_NPU_MEMORY_CACHING. Keys that every backend has are parsed and kept by upstream's
// AcceleratorAllocatorConfig; here are the variable's name, the keys of this backend and clear errors.
#pragma once

#include <optional>
#include <string>

namespace npu::caching_allocator::settings {

// Reads the environment; the first call does, before the first allocation and not at import. Throws for bad text.
void load();

// Replaces the settings (torch.npu.memory._set_allocator_settings).
void set(const std::string& text);

bool caching_disabled() noexcept;        // PYTORCH_NO_NPU_MEMORY_CACHING=1
bool rounds_to_power_of_two() noexcept;  // roundup_power2_divisions is set
bool expandable_segments() noexcept;
bool lazy_reclaim() noexcept;       // multi_stream_lazy_reclaim: look at events only when memory is short
bool refuse_over_limit() noexcept;  // throw_on_npumalloc_oom: past the process's limit fail without flushing
std::optional<double> memory_fraction() noexcept;  // per_process_memory_fraction

}  // namespace npu::caching_allocator::settings
