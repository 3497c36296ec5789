// How the processes of one user know of each other: one locked file each in a private folder. See Note [Capacity]. The
// lock dies with its process, however it ends, so a record without a lock is stale and is removed by whoever sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "config.h"

namespace softnpu {

// What a process says about itself. Shared memory: others read it while it changes.
struct Record {
  uint64_t magic;
  int64_t pid;
  uint64_t pending;          // bytes being committed right now, not yet visible in the host's figures
  uint64_t used[kMaxCards];  // bytes of each card
};

class Records {
 public:
  // Opens (creates) the folder and this process's record. Without a usable folder the process counts only itself.
  explicit Records(const std::string& folder);

  // Holds the lock of the folder: sums and changes of records are one step for all processes.
  class Lock {
   public:
    explicit Lock(Records& records);
    ~Lock();
    Lock(const Lock&) = delete;

   private:
    Records& records_;
  };

  Record& own() { return *own_; }
  int process() const { return process_; }
  // Sums the records of the other living processes into `sum`, removing stale ones. The lock is held.
  void add_others(Record* sum);

  bool shared() const { return folder_fd_ >= 0; }
  int folder_fd() const { return folder_fd_; }
  const std::string& own_name() const { return own_name_; }
  // Whether the process that owns record `name` lives.
  bool is_live(const char* name);

 private:
  void open_folder(const std::string& folder);
  void create_own(const std::string& folder);

  int process_ = -1;
  int folder_fd_ = -1;
  int lock_fd_ = -1;
  Record* own_ = nullptr;
  std::string own_name_;
};

}  // namespace softnpu
