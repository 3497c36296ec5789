// Which tensors of a process others still hold: a file in shared memory, of the user alone, with a cell for each tensor
// that was sent. The sender makes the file and takes cells, the receiver marks its cell when it has the tensor and when
// it has let it go. The file goes with its process; one that a killed process left is removed by the next sender.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace npu::shared_memory {

struct Cell {
  enum State : int64_t { unused, sent, received, released };
  std::atomic<int64_t> state;
  std::atomic<int64_t> message;  // how often the cell was taken: a message about an earlier tensor is known by it
  std::atomic<int64_t> pid;      // of the receiver
  std::atomic<int64_t> started;  // when it started, as numbers of processes are used again
};

class Ledger {
 public:
  static constexpr int64_t kCells = 1 << 16;

  static std::shared_ptr<Ledger> create();  // throws where there is no shared memory
  // Of another process of this user. Throws for a name that no ledger has, and for a file of somebody else.
  static std::shared_ptr<Ledger> open(const std::string& name);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  const std::string& name() const { return name_; }
  Cell& cell(int64_t index) { return cells_[index]; }
  void remove() noexcept;  // the file, by the process that made it; who has it open keeps it
  int64_t take();          // the index of a cell in state `sent`, with a new message; -1 when all are in use

 private:
  Ledger(std::string name, Cell* cells, int64_t owner) : name_(std::move(name)), cells_(cells), owner_(owner) {}
  const std::string name_;
  Cell* const cells_;
  const int64_t owner_;  // the process that made it, 0 if opened
  int64_t next_ = 0;
};

int64_t start_time(int64_t pid);  // of a process, 0 when there is none

}  // namespace npu::shared_memory
