// The adapter's environment variables; docs list them. The only file of csrc/ that calls getenv.
// A function reads its variable when it is called, so that os.environ works until a feature is first used;
// whoever needs a value often keeps it. Flags follow CANN's rule: any non-zero integer is on, other text is off.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace npu::config {

enum class Runtime { automatic, cann, softnpu };
Runtime runtime();  // TORCH_NPU_RUNTIME=cann|soft; throws for another text

std::vector<std::string> cann_homes();             // ASCEND_HOME_PATH, ASCEND_TOOLKIT_HOME: those set, in this order
std::vector<std::string> custom_operator_paths();  // ASCEND_CUSTOM_OPP_PATH, then $ASCEND_OPP_PATH/vendors/*
std::string acl_init_config();                     // TORCH_ACL_INIT_CONFIG_PATH: JSON file for aclInit
std::optional<std::string> visible_devices();      // ASCEND_RT_VISIBLE_DEVICES

std::optional<int> task_queue_level();  // TASK_QUEUE_ENABLE=0|1|2; warns about another value
bool launch_blocking();                 // ASCEND_LAUNCH_BLOCKING
int stream_timeout_ms();                // ACL_STREAM_TIMEOUT; -1 waits for ever
int device_timeout_ms();                // ACL_DEVICE_SYNC_TIMEOUT (seconds); -1 waits for ever

std::optional<std::string> npu_alloc_conf();  // PYTORCH_NPU_ALLOC_CONF
std::optional<std::string> alloc_conf();      // PYTORCH_ALLOC_CONF
bool no_memory_caching();                     // PYTORCH_NO_NPU_MEMORY_CACHING
bool fallback_cpu_disabled();                 // TORCH_NPU_FALLBACK_CPU_DISABLE

bool hccl_blocking_wait();           // TORCH_HCCL_BLOCKING_WAIT: wait() blocks the host
int hccl_async_error_handling();     // TORCH_HCCL_ASYNC_ERROR_HANDLING=0..3, see docs/distributed.md
bool hccl_high_priority();           // TORCH_HCCL_HIGH_PRIORITY: streams of collectives
std::string hccl_transport();        // TORCH_NPU_HCCL_TRANSPORT: "gloo" makes softnpu's ranks use gloo
int hccl_trace_buffer_size();        // TORCH_HCCL_TRACE_BUFFER_SIZE: entries of the flight recorder, 0: off
bool hccl_trace_cpp_stack();         // TORCH_HCCL_TRACE_CPP_STACK: with C++ frames
bool hccl_dump_on_timeout();         // TORCH_HCCL_DUMP_ON_TIMEOUT: write it when a collective fails
std::string hccl_debug_info_file();  // TORCH_HCCL_DEBUG_INFO_TEMP_FILE: where to; the rank is appended
int hccl_buffer_megabytes();         // HCCL_BUFFSIZE: of a communicator
int hccl_p2p_buffer_megabytes();     // P2P_HCCL_BUFFSIZE: of the communicators of two ranks
bool hccl_deterministic();           // HCCL_DETERMINISTIC=true
bool hccl_enable_timing();           // TORCH_HCCL_ENABLE_TIMING: work.get_duration()

bool compact_errors();  // TORCH_NPU_COMPACT_ERROR_OUTPUT: only the first lines of an error
int rank();             // RANK, -1 outside a launcher; for error lines

// What a launcher such as torchrun says of its job: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. Nothing outside of one.
struct Job {
  int rank, ranks, port;
  uint32_t address;  // IPv4, 0 for a host's name
};
std::optional<Job> job();

}  // namespace npu::config
