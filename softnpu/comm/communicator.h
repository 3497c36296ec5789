// One rank's end of a communicator: its peers, the order of its collectives, and how it waits and fails. See the notes
// in control.h. Tasks keep it alive; HcclCommDestroy ends what still runs.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "config.h"
#include "hccl.h"
#include "rendezvous.h"
#include "runtime/order.h"

namespace softnpu::comm {

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(Membership membership, uint32_t rank, int card, Settings settings);

  // ---- Handles ----
  static HcclComm publish(std::shared_ptr<Communicator> communicator);
  static std::shared_ptr<Communicator> checked(HcclComm handle);  // throws Failure(107017)
  static std::shared_ptr<Communicator> withdraw(HcclComm handle);
  // Leaves: what still runs fails, and peers that wait for this rank are told.
  void leave();

  uint32_t rank() const { return rank_; }
  uint32_t ranks() const { return static_cast<uint32_t>(peers_.size()); }
  int card() const { return card_; }
  const std::string& name() const { return settings_.name; }
  Control& control() const { return **control_; }
  ControlBlock& control_block() const { return *control_; }
  const std::vector<std::shared_ptr<Peer>>& peers() const { return peers_; }
  const Peer& peer(uint32_t rank) const { return *peers_[rank]; }

  // ---- Order ----
  uint64_t next_number() { return submitted_.fetch_add(1) + 1; }  // of a collective that is being submitted
  bool is_turn(uint64_t number) const { return completed_.load(std::memory_order_acquire) + 1 == number; }
  void complete(uint64_t number);
  uint64_t next_sent(uint32_t to) { return sent_[to].fetch_add(1) + 1; }
  uint64_t next_received(uint32_t from) { return received_[from].fetch_add(1) + 1; }

  // SOFTNPU_STRICT: throws Failure when `what` would run on `stream` beside work of this rank on another one. Then, for
  // what was submitted.
  void check_order(const char* what, aclrtStream stream);
  void note_order(aclrtStream stream);

  // ---- Waiting ----
  struct Wait {
    std::function<bool()> ready;
    // Whether the operation cannot go on without this rank.
    std::function<bool(uint32_t rank)> needs;
    std::function<std::string()> describe;  // the operation, for messages
    int grace_milliseconds = 0;             // how long to hope when a needed rank is gone
  };
  // Returns when ready. Throws Failure, having told the peers, when a needed rank is gone, the time is up, the stream's
  // work or the communicator is given up; or with what a peer told.
  void wait(const Wait& wait);
  void throw_fault() const;  // if there is one
  HcclResult async_error() const;
  // Makes the communicator useless for everyone, with the words of the first who says so; throws them.
  [[noreturn]] void give_up(int code, const std::string& text);
  // A posted collective was given up: returns when no living peer can touch its buffers any more.
  void wait_for_insiders(uint64_t number) const;
  bool is_gone(uint32_t rank) const;  // left, or its process ended

  std::mutex invitation_mutex;             // one sub-communicator at a time
  std::vector<uint64_t> seen_invitations;  // by rank

 private:
  std::string gone_reason(uint32_t rank) const;
  std::string list_needed(const Wait& wait) const;

  const uint32_t rank_;
  const int card_;
  const Settings settings_;
  const std::unique_ptr<ControlBlock> control_;
  const std::vector<std::shared_ptr<Peer>> peers_;
  const bool spins_;
  std::atomic<uint64_t> submitted_{0}, completed_{0};
  std::vector<std::atomic<uint64_t>> sent_, received_;
  std::atomic<bool> closing_{false};
  std::mutex order_mutex_;
  order::Mark last_;  // what was submitted last, with SOFTNPU_STRICT
};

}  // namespace softnpu::comm
