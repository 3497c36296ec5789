#include "point_to_point.h"

#include <cstring>

#include "arithmetic.h"
#include "collective.h"
#include "reduce.h"
#include "runtime/error.h"
#include "runtime/task.h"
#include "span.h"

namespace softnpu::comm {

namespace {

constexpr uint64_t kStep = 1 << 20;  // bytes copied between two looks at the fault

// One side of a message. Whoever finds both sides posted and claims the message copies it.
class Half {
 public:
  Half(Communicator& communicator, const Transfer& transfer)
      : communicator_(communicator),
        transfer_(transfer),
        from_(transfer.sends ? communicator.rank() : transfer.peer),
        to_(transfer.sends ? transfer.peer : communicator.rank()) {
    const size_t size = size_of(transfer.type);
    bytes_ = product(transfer.count, size);
    extents_ = checked_buffer(communicator, transfer.buffer, bytes_, size, kMessageExtents,
                              transfer.sends ? "sendBuf" : "recvBuf");
    communicator.control_block().prepare_messages(from_, to_);
  }

  void take_number() { number_ = transfer_.sends ? communicator_.next_sent(to_) : communicator_.next_received(from_); }

  bool done() const { return message().done.load(std::memory_order_acquire) >= number_; }
  uint32_t peer() const { return transfer_.peer; }
  TouchedBytes memory() const {
    return {kernel_address(transfer_.buffer), bytes_, !transfer_.sends, transfer_.sends ? "sendBuf" : "recvBuf"};
  }

  // Does what can be done without waiting.
  void advance() {
    if (!posted_) {
      const bool free =
          number_ <= kMessagesInFlight || message().done.load(std::memory_order_acquire) >= number_ - kMessagesInFlight;
      if (free) post();
    }
    if (posted_ && !done()) try_copy();
  }

  // After a failure: nobody may touch the buffer any more. Waits for a peer that is copying.
  void withdraw() {
    if (!posted_ || done()) return;
    if (claim()) return release();
    while (message().released.load(std::memory_order_acquire) < number_ && !communicator_.is_gone(transfer_.peer))
      pause();
  }

  std::string describe() const {
    return std::string(transfer_.sends ? "send" : "recv") + "(" + type_name(transfer_.type) + ", " +
           std::to_string(transfer_.count) + " elements, " + (transfer_.sends ? "to rank " : "from rank ") +
           std::to_string(transfer_.peer) + ") #" + std::to_string(number_) + " of communicator " +
           communicator_.name();
  }

 private:
  Message& message() const { return communicator_.control().message(from_, to_, number_); }

  static std::string contents(const Side& side) {
    return std::to_string(side.bytes) + " bytes of " + type_name(side.type);
  }

  static void pause() {
    const timespec nap{0, 100000};
    nanosleep(&nap, nullptr);
  }

  void post() {
    Side& side = transfer_.sends ? message().sender : message().receiver;
    side.type = transfer_.type;
    side.bytes = bytes_;
    describe_buffer(&side.buffer, transfer_.buffer, extents_);
    side.number.store(number_, std::memory_order_seq_cst);
    posted_ = true;
  }

  bool claim() {
    uint64_t before = message().claimed.load(std::memory_order_acquire);
    return before < number_ && message().claimed.compare_exchange_strong(before, number_);
  }
  void release() { message().released.store(number_, std::memory_order_release); }

  void try_copy() {
    const Side& sender = message().sender;
    const Side& receiver = message().receiver;
    if (sender.number.load(std::memory_order_seq_cst) != number_ ||
        receiver.number.load(std::memory_order_seq_cst) != number_ || !claim())
      return;
    if (sender.bytes != receiver.bytes || sender.type != receiver.type) {
      release();
      communicator_.give_up(ACL_ERROR_RT_PARAM_INVALID, describe() + ": rank " + std::to_string(from_) + " sends " +
                                                            contents(sender) + ", rank " + std::to_string(to_) +
                                                            " expects " + contents(receiver));
    }
    for (uint64_t offset = 0; offset < sender.bytes;) {
      uint64_t run = std::min(kStep, sender.bytes - offset);
      const char* source = locate(sender.buffer, communicator_.peer(from_), offset, &run);
      char* target = locate(receiver.buffer, communicator_.peer(to_), offset, &run);
      memmove(target, source, run);
      offset += run;
    }
    message().done.store(number_, std::memory_order_seq_cst);
    release();
    communicator_.control().notify();
  }

  Communicator& communicator_;
  const Transfer transfer_;
  const uint32_t from_, to_;
  uint64_t bytes_ = 0, number_ = 0;
  std::vector<Extent> extents_;
  bool posted_ = false;
};

class TransferTask final : public Task {
 public:
  TransferTask(std::shared_ptr<Communicator> communicator, const std::vector<Transfer>& transfers)
      : communicator_(std::move(communicator)) {
    for (const Transfer& transfer : transfers) halves_.emplace_back(*communicator_, transfer);
    for (Half& half : halves_) half.take_number();  // nothing fails from here on
  }

  ~TransferTask() override {
    if (finished_) return;
    communicator_->control().set_fault(
        ACL_ERROR_RT_STREAM_ABORT,
        (describe() + ": the work of rank " + std::to_string(communicator_->rank()) + " was dropped").c_str());
    for (Half& half : halves_) half.withdraw();
  }

  Waits waits() const noexcept override { return Waits::for_peers; }
  const char* name() const noexcept override { return "HcclSend or HcclRecv"; }
  std::vector<TouchedBytes> memory() const override {
    std::vector<TouchedBytes> spans;
    for (const Half& half : halves_) spans.push_back(half.memory());
    return spans;
  }

  std::string describe() const override {
    for (const Half& half : halves_)
      if (!half.done()) return half.describe();
    return halves_.empty() ? "empty batch" : halves_.back().describe();
  }

  bool begin() override {
    communicator_->throw_fault();
    for (Half& half : halves_) half.advance();
    communicator_->control().notify();
    return finished_ = all_done();
  }

  void run() override {
    communicator_->throw_fault();
    for (Half& half : halves_) half.advance();
    communicator_->control().notify();
    communicator_->wait({[&] {
                           for (Half& half : halves_) half.advance();
                           return all_done();
                         },
                         [&](uint32_t rank) {
                           for (const Half& half : halves_)
                             if (half.peer() == rank && !half.done()) return true;
                           return false;
                         },
                         [&] { return describe(); }, 0});
    finished_ = true;
  }

 private:
  bool all_done() const {
    for (const Half& half : halves_)
      if (!half.done()) return false;
    return true;
  }

  const std::shared_ptr<Communicator> communicator_;
  std::vector<Half> halves_;
  bool finished_ = false;
};

// What a captured stream keeps: peers meet again at each launch, under numbers of its own.
class CapturedTransfer final : public Task {
 public:
  CapturedTransfer(std::shared_ptr<Communicator> communicator, std::vector<Transfer> transfers)
      : communicator_(std::move(communicator)), transfers_(std::move(transfers)) {}

  bool runs_once() const noexcept override { return true; }
  Task* again() override { return new TransferTask(communicator_, transfers_); }
  void run() override {}
  Waits waits() const noexcept override { return Waits::for_peers; }
  const char* name() const noexcept override { return "HcclSend or HcclRecv"; }
  std::string describe() const override { return std::string(name()) + " of communicator " + communicator_->name(); }
  std::vector<TouchedBytes> memory() const override {
    std::vector<TouchedBytes> spans;
    for (const Transfer& transfer : transfers_)
      spans.push_back({kernel_address(transfer.buffer), transfer.count * size_of(transfer.type), !transfer.sends,
                       transfer.sends ? "sendBuf" : "recvBuf"});
    return spans;
  }

 private:
  const std::shared_ptr<Communicator> communicator_;
  const std::vector<Transfer> transfers_;
};

}  // namespace

void submit_transfers(std::shared_ptr<Communicator> communicator, const std::vector<Transfer>& transfers,
                      aclrtStream stream) {
  communicator->throw_fault();
  for (const Transfer& transfer : transfers) {
    const char* what = transfer.sends ? "send" : "recv";
    if (size_of(transfer.type) == 0)
      fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: dataType %u is no type that HCCL transports", what, transfer.type);
    if (transfer.peer >= communicator->ranks())
      fail(ACL_ERROR_RT_PARAM_INVALID, "%s: rank %u is not below %u ranks", what, transfer.peer, communicator->ranks());
  }
  Stream& target = launchable(stream);
  if (card_of(target) != communicator->card())
    fail(ACL_ERROR_RT_STREAM_CONTEXT, "the stream is one of card %d, the communicator one of card %d", card_of(target),
         communicator->card());
  communicator->check_order("HcclSend or HcclRecv", stream);
  if (captured(target))
    submit(target, new CapturedTransfer(communicator, transfers));
  else
    submit(target, new TransferTask(communicator, transfers));
  communicator->note_order(stream);
}

}  // namespace softnpu::comm
