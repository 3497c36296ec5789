// Every environment variable softnpu listens to, read once and checked. The only file of softnpu that calls getenv.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "planned_faults.h"

#pragma GCC visibility push(default)
namespace softnpu {

struct Soc;

constexpr int kMaxCards = 64;

// clang-format off
// | variable                  | default     | meaning                                                                |
// |---------------------------|-------------|------------------------------------------------------------------------|
// | SOFTNPU_SOC               | Ascend910B1 | which chip to be; memory, cores and bfloat16 follow it (soc.cpp)       |
// | SOFTNPU_DEVICES           | 8           | number of cards, 0 to 64                                               |
// | SOFTNPU_MEMORY            | the chip's  | memory of one card: 512M, 2G or bytes; at most what the host can give  |
// | SOFTNPU_ASYNC             | 0           | 1: every task runs on its stream's worker thread                       |
// | SOFTNPU_THREADS           | see right   | threads of one kernel; default OMP_NUM_THREADS, else the usable cores  |
// | SOFTNPU_WORKSPACE         | (unset)     | all: every operator asks for a workspace                               |
// | SOFTNPU_TRACE             | 0           | 1: one line on stderr for each task that runs                          |
// | SOFTNPU_RECORD            | (unset)     | a file that every call of a client is written to; see record.h         |
// | SOFTNPU_RECORD_ONCE       | 0           | 1: only operators and collectives, each form of a call once            |
// | SOFTNPU_STRICT            | 0           | calls: refuse calls that a card may not survive; 1: types it lacks too |
// | SOFTNPU_HOSTILE           | 0           | a seed: what a card leaves open changes by chance (hostility.h)        |
// | SOFTNPU_FAULT             | (unset)     | faults of cards at places chosen beforehand (planned_faults.h)         |
// | SOFTNPU_POOL              | (unset)     | a name: only processes with the same one share their cards' memory     |
// | ACLNN_CACHE_LIMIT         | 8192        | executors that a thread keeps in the executor cache; 0: none           |
// | HCCL_CONNECT_TIMEOUT      | 120         | seconds for all ranks to come together when a communicator is made     |
// | HCCL_EXEC_TIMEOUT         | 1800        | seconds a collective waits for the other ranks; 0: for ever            |
// | ASCEND_RT_VISIBLE_DEVICES | (unset)     | which cards the process sees, in which order, as CANN has it           |
// | ASCEND_GLOBAL_LOG_LEVEL   | (unset)     | aclAppLog prints lines of this level (0 debug .. 3 error) and above    |
// | XDG_RUNTIME_DIR, TMPDIR   |             | where the folder with the memory records of the user's processes lies  |
// clang-format on
struct Config {
  const Soc* soc = nullptr;
  int devices = 8;
  size_t memory = 0;  // 0: as the chip
  bool async = false;
  int threads = 1;
  bool workspace_all = false;
  bool trace = false;
  bool strict = false;        // refuses calls, and
  bool strict_types = false;  // types
  uint32_t hostile = 0;       // seed; 0: not
  int cache_limit = 8192;
  int connect_timeout = 120;  // seconds
  int exec_timeout = 1800;    // seconds, 0: none
  int log_level = 4;          // above every level: silent
  std::vector<int> visible;   // card of each user device id
  std::string record_folder;  // private folder of the user, not yet created
  std::string error;          // first variable that makes no sense, in one sentence; empty when all is well
  std::vector<PlannedFault> faults;
};

// Read at the first call and constant from then on. Never throws: see `error`.
const Config& config();

// SOFTNPU_RECORD, or NULL, and SOFTNPU_RECORD_ONCE. Apart from config(), which the first call reads: these are asked
// for when the library is loaded.
const char* record_file();
bool record_once();

// As config(), but throws Failure(507008) when a variable is wrong.
const Config& checked_config();

// The parts with rules of their own, for tests.
std::vector<int> parse_visible_devices(const char* text, int devices);
bool parse_bytes(const std::string& text, size_t* bytes);
bool is_pool_name(const std::string& text);

}  // namespace softnpu
#pragma GCC visibility pop
