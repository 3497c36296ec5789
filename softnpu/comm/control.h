// The shared memory of one communicator: who has arrived with which buffers, and how far the work is. A memfd without a
// name, made by the rendezvous and mapped by every rank.
//
// Note [How a collective runs]
// Ranks see each other's card memory (see Note [Peers]), so a collective is one job that any of them can do: read some
// buffers, write others. Its work is cut into blocks (schedule.h).
//  1. A rank posts what it brings (operation, type, counts, where its buffers lie) under the collective's number, and
//     counts itself as arrived.
//  2. The last one to arrive opens the job. Everybody checks that all posts agree.
//  3. Ranks take blocks from a common counter until there are none left. Whoever runs makes progress, whoever does not
//     get a core holds up nobody: ranks may outnumber cores. A small collective is one block, done by the last to
//     arrive.
//  4. Who finishes the last block closes the job. All buffers are now read and written, so every rank may go on.
// The result does not depend on who did what: a block is always reduced in the order of ranks.
// A post stays valid until its rank posts twice more, and that needs everyone to be done with it: two slots suffice.
// The job's counters are set back by the last to arrive, when nobody can be inside an earlier job.
//
// Note [Collectives and threads]
// Submitting never waits. A collective's number is taken when it is submitted, so the host's order counts, as it does
// between the ranks; it runs in its stream's order, on the stream's worker or on a thread that waits for the stream
// anyway (see Note [Who runs a task]), and starts when this rank is done with the one before. Since every stream has a
// worker of its own, collectives of other communicators, and of other ranks in the same process, always get a thread:
// only an order of submission that differs between ranks can make them wait for each other, and that ends in a time-out
// which says who is where. begin() lets the submitting thread post at once and, if everyone else is there and the job
// is one block, do it.
//
// Note [When ranks fail]
// The first rank to see something wrong (a mismatch, a time-out, a peer whose life line hung up) writes it into
// `fault`; the others find it there and fail with the same words. A rank that gives up a posted collective must not
// return while a peer may still write into its buffers: peers are `inside` a job while they take blocks, look at
// `fault` before each, and the one that leaves waits for those that live to come out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/memory.h"
#include "socket.h"

namespace softnpu::comm {

constexpr uint32_t kMaxRanks = 512;
constexpr uint32_t kMaxExtents = 1024;     // of a buffer in a collective
constexpr uint32_t kMessageExtents = 128;  // of a buffer in a send or receive
constexpr uint32_t kMessagesInFlight = 4;  // between two ranks, in one direction

enum class Kind : uint32_t {
  none,
  all_reduce,
  broadcast,
  all_gather,
  all_gather_v,
  reduce_scatter,
  reduce_scatter_v,
  all_to_all,
  all_to_all_v,
  reduce,
  scatter,
};
const char* name_of(Kind kind);

// A buffer of one rank: in its own address space, and where that is in its card's file.
template <uint32_t N>
struct Buffer {
  uint64_t address;
  uint32_t extent_count;
  Extent extents[N];
};

// What a rank brings to a collective. The counts and displacements of the "v" forms follow in memory: 4 arrays of one
// number for each rank (Control::table).
struct alignas(64) Post {
  std::atomic<uint64_t> number;  // of the collective; written last
  Kind kind;
  uint32_t type, op, root;
  uint64_t count;
  Buffer<kMaxExtents> send, recv;
};
enum class Table { send_counts, send_offsets, recv_counts, recv_offsets };

// One side of a send and its receive.
struct alignas(64) Side {
  std::atomic<uint64_t> number;
  uint32_t type;
  uint64_t bytes;
  Buffer<kMessageExtents> buffer;
};
struct Message {
  Side sender, receiver;
  // Numbers of the last message that somebody took upon himself, that was copied, and whose buffers its claimer, having
  // copied or given up, does not touch any more.
  std::atomic<uint64_t> claimed, done, released;
};

struct alignas(64) RankState {
  std::atomic<uint32_t> left;         // destroyed its communicator
  std::atomic<uint64_t> inside;       // number of the job it takes blocks of, 0 outside
  std::atomic<uint64_t> invitations;  // how often it has invited to a sub-communicator; see create.cpp
  uint64_t invitation_id;
  uint8_t invitation[128];
};

struct Fault {
  std::atomic<uint32_t> state;  // 0 none, 1 being written, 2 there
  int32_t code;
  char text[1000];
};

struct Control {
  uint64_t magic;
  uint32_t ranks;
  Fault fault;
  alignas(64) std::atomic<uint32_t> event;  // futex: moves on whenever somebody may have something to look at
  std::atomic<uint32_t> sleepers;
  alignas(64) std::atomic<uint64_t> arrivals;      // ever: collective n is complete at n * ranks
  alignas(64) std::atomic<uint64_t> open, closed;  // number of the last job that was opened, closed
  alignas(64) std::atomic<uint64_t> next_block;
  alignas(64) std::atomic<uint64_t> finished_blocks;

  RankState& rank(uint32_t rank);
  Post& post(uint32_t rank, uint64_t number);
  uint64_t* table(Post& post, Table which);
  Message& message(uint32_t from, uint32_t to, uint64_t number);

  void notify() noexcept;                                // something changed
  void sleep(uint32_t seen, int milliseconds) noexcept;  // until notify() after `seen` was read from event

  bool set_fault(int code, const char* text) noexcept;  // false when there already was one
};

// Layout and life of the mapping.
class ControlBlock {
 public:
  static Descriptor create(uint32_t ranks);  // throws Failure(207001) when the host refuses the memory
  ControlBlock(Descriptor fd, uint32_t ranks);
  Control* operator->() const { return control_.get(); }
  Control& operator*() const { return *control_; }
  // Memory for messages between two ranks is committed when they first talk.
  void prepare_messages(uint32_t from, uint32_t to);

 private:
  Descriptor fd_;
  std::shared_ptr<Control> control_;  // ranks of the same process share one mapping
};

}  // namespace softnpu::comm
