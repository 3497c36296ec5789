// The founder's side of the rendezvous: a thread that receives the ranks and introduces them. See Note [Rendezvous].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "socket.h"

namespace softnpu::comm {

struct RootInfo;

// What a guest says first, with its card's memory and its life line.
struct Hello {
  uint64_t magic;
  uint8_t secret[16];
  uint32_t ranks, rank;
};

// Code 0: all is well. Sent by the founder with the control block, by guests when they have mapped everything, and by
// the founder again as the word to go.
struct Verdict {
  int32_t code;
  char text[500];
};

class Reception {
 public:
  // Listens and returns; the ranks are received by a thread of its own.
  static void open(const RootInfo& info, int timeout_seconds);
  // Throws what ended the reception of this name, if it was in this process and failed: a guest that it could not even
  // let in learns it this way.
  static void throw_failure_of(const std::string& name);

 private:
  struct Guest {
    Descriptor socket, memory, life_line;
    bool here() const { return static_cast<bool>(socket); }
  };

  Reception(const RootInfo& info, int timeout_seconds);
  void run() noexcept;
  bool receive_all();  // false when nobody came at all
  void receive(Descriptor socket);
  void introduce();
  void collect_replies();
  [[noreturn]] void throw_gone(size_t rank);  // what the rank said last, or that it went away
  void refuse_all(const Failure& failure);
  std::string missing() const;

  const std::string name_;
  Descriptor listener_;
  uint8_t secret_[16];
  uint64_t magic_;
  int timeout_;
  TimePoint deadline_;
  std::vector<Guest> guests_;  // by rank, once the first one has said how many there are
  size_t here_ = 0;
};

}  // namespace softnpu::comm
