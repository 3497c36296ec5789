#include "collective.h"

#include "arithmetic.h"
#include "reduce.h"
#include "runtime/address.h"
#include "runtime/config.h"
#include "runtime/error.h"
#include "runtime/task.h"
#include "schedule.h"

namespace softnpu::comm {

namespace {

constexpr int kGrace = 1000;  // milliseconds: the others may finish the blocks when a rank is gone

std::vector<TouchedBytes> touched(const Request& request) {
  const size_t size = size_of(request.type);
  return {{kernel_address(request.send), request.send_elements * size, false, "sendBuf"},
          {kernel_address(request.recv), request.recv_elements * size, true, "recvBuf"}};
}

class CollectiveTask final : public Task {
 public:
  CollectiveTask(std::shared_ptr<Communicator> communicator, Request request)
      : communicator_(std::move(communicator)), control_(communicator_->control()), request_(std::move(request)) {
    const size_t size = size_of(request_.type);
    send_ = checked_buffer(*communicator_, request_.send, product(request_.send_elements, size), size, kMaxExtents,
                           "sendBuf");
    recv_ = checked_buffer(*communicator_, request_.recv, product(request_.recv_elements, size), size, kMaxExtents,
                           "recvBuf");
    number_ = communicator_->next_number();  // nothing fails from here on: peers have this number too
  }

  // Dropped without having run: the peers would wait for ever, and so would this rank's next collective.
  ~CollectiveTask() override {
    if (finished_) return;
    control_.set_fault(
        ACL_ERROR_RT_STREAM_ABORT,
        (describe() + ": the work of rank " + std::to_string(communicator_->rank()) + " was dropped").c_str());
    if (posted_) communicator_->wait_for_insiders(number_);
  }

  Waits waits() const noexcept override { return Waits::for_peers; }
  const char* name() const noexcept override { return name_of(request_.kind); }
  std::vector<TouchedBytes> memory() const override { return touched(request_); }

  std::string describe() const override {
    const std::string what =
        posted_ ? comm::describe(control_.post(communicator_->rank(), number_)) : name_of(request_.kind);
    return what + " #" + std::to_string(number_) + " of communicator " + communicator_->name();
  }

  bool begin() override {
    if (!communicator_->is_turn(number_)) return false;
    communicator_->throw_fault();
    post();
    if (control_.open.load(std::memory_order_acquire) != number_) return false;
    const Schedule schedule = checked_schedule();
    if (schedule.blocks() > 1 && communicator_->ranks() > 1) {
      control_.notify();  // the others may start
      return false;
    }
    take_blocks(schedule);
    if (control_.closed.load(std::memory_order_acquire) < number_) return false;
    finish();
    return true;
  }

  void run() override {
    try {
      communicator_->throw_fault();
      wait([&] { return communicator_->is_turn(number_); }, [](uint32_t) { return false; }, 0);
      if (!posted_) post();
      wait([&] { return control_.open.load(std::memory_order_acquire) >= number_; },
           [&](uint32_t rank) { return control_.post(rank, number_).number.load() < number_; }, 0);
      if (control_.closed.load(std::memory_order_acquire) < number_) take_blocks(checked_schedule());
      wait([&] { return control_.closed.load(std::memory_order_acquire) >= number_; }, [](uint32_t) { return true; },
           kGrace);
    } catch (...) {
      if (posted_) communicator_->wait_for_insiders(number_);
      finish();
      throw;
    }
    finish();
  }

 private:
  void post() {
    Post& post = control_.post(communicator_->rank(), number_);
    post.kind = request_.kind;
    post.type = request_.type;
    post.op = request_.op;
    post.root = request_.root;
    post.count = request_.count;
    describe_buffer(&post.send, request_.send, send_);
    describe_buffer(&post.recv, request_.recv, recv_);
    for (int i = 0; i < 4; ++i) {
      uint64_t* table = control_.table(post, static_cast<Table>(i));
      for (size_t k = 0; k < request_.tables[i].size(); ++k) table[k] = request_.tables[i][k];
    }
    post.number.store(number_, std::memory_order_release);
    posted_ = true;
    if (control_.arrivals.fetch_add(1, std::memory_order_seq_cst) + 1 != number_ * communicator_->ranks()) return;
    control_.next_block.store(0, std::memory_order_relaxed);
    control_.finished_blocks.store(0, std::memory_order_relaxed);
    control_.open.store(number_, std::memory_order_release);
    last_ = true;
  }

  Schedule checked_schedule() {
    try {
      return Schedule(control_, number_, communicator_->peers());
    } catch (const Failure& failure) {
      communicator_->give_up(failure.code, describe() + ": " + failure.text);
    }
  }

  void take_blocks(const Schedule& schedule) {
    if (last_ && schedule.blocks() > 1) control_.notify();  // the others may lend a hand
    std::atomic<uint64_t>& inside = control_.rank(communicator_->rank()).inside;
    inside.store(number_, std::memory_order_seq_cst);
    if (schedule.blocks() == 0 && last_) close();
    while (control_.fault.state.load(std::memory_order_seq_cst) == 0) {
      const uint64_t block = control_.next_block.fetch_add(1, std::memory_order_relaxed);
      if (block >= schedule.blocks()) break;
      schedule.execute(block);
      if (control_.finished_blocks.fetch_add(1, std::memory_order_acq_rel) + 1 == schedule.blocks()) close();
    }
    inside.store(0, std::memory_order_seq_cst);
  }

  void close() {
    control_.closed.store(number_, std::memory_order_release);
    control_.notify();
  }

  void finish() {
    finished_ = true;
    communicator_->complete(number_);
  }

  void wait(std::function<bool()> ready, std::function<bool(uint32_t)> needs, int grace) {
    communicator_->wait({std::move(ready), std::move(needs), [&] { return describe(); }, grace});
  }

  const std::shared_ptr<Communicator> communicator_;
  Control& control_;
  const Request request_;
  std::vector<Extent> send_, recv_;
  uint64_t number_ = 0;
  bool posted_ = false, last_ = false, finished_ = false;
};

// What a captured stream keeps: peers meet again at each launch, under a number of its own.
class CapturedCollective final : public Task {
 public:
  CapturedCollective(std::shared_ptr<Communicator> communicator, Request request)
      : communicator_(std::move(communicator)), request_(std::move(request)) {}

  bool runs_once() const noexcept override { return true; }
  Task* again() override { return new CollectiveTask(communicator_, request_); }
  void run() override {}
  Waits waits() const noexcept override { return Waits::for_peers; }
  const char* name() const noexcept override { return name_of(request_.kind); }
  std::string describe() const override { return std::string(name()) + " of communicator " + communicator_->name(); }
  std::vector<TouchedBytes> memory() const override { return touched(request_); }

 private:
  const std::shared_ptr<Communicator> communicator_;
  const Request request_;
};

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter ||
         kind == Kind::reduce_scatter_v;
}

// SOFTNPU_STRICT=1: HCCL moves numbers of every type, and computes with these.
void check_reduced_type(const Request& request) {
  constexpr uint32_t kComputed[] = {HCCL_DATA_TYPE_INT8,  HCCL_DATA_TYPE_INT16, HCCL_DATA_TYPE_INT32,
                                    HCCL_DATA_TYPE_INT64, HCCL_DATA_TYPE_FP16,  HCCL_DATA_TYPE_FP32,
                                    HCCL_DATA_TYPE_BFP16};
  for (const uint32_t type : kComputed)
    if (request.type == type) return;
  fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
       "%s: argument 'dataType' is %s, which HCCL does not reduce: convert to int8, int16, int32, int64, float16, "
       "float32 or bfloat16 first (SOFTNPU_STRICT=1)",
       name_of(request.kind), type_name(request.type));
}

void check_request(const Communicator& communicator, const Request& request) {
  if (size_of(request.type) == 0)
    fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: dataType %u is no type that HCCL transports", name_of(request.kind),
         request.type);
  if (softnpu::config().strict_types && reduces(request.kind)) check_reduced_type(request);
  if (request.op >= HCCL_REDUCE_RESERVED)
    fail(ACL_ERROR_RT_PARAM_INVALID, "%s: op %u is no reduction", name_of(request.kind), request.op);
  if (request.root >= communicator.ranks())
    fail(ACL_ERROR_RT_PARAM_INVALID, "%s: root %u is not below %u ranks", name_of(request.kind), request.root,
         communicator.ranks());
}

}  // namespace

std::vector<Extent> checked_buffer(const Communicator& communicator, const void* address, uint64_t bytes, size_t size,
                                   uint32_t most, const char* name) {
  if (bytes == 0) return {};
  if (!address) fail(ACL_ERROR_INVALID_PARAM, "%s is NULL", name);
  if (reinterpret_cast<uintptr_t>(address) % size != 0)
    fail(ACL_ERROR_RT_ADDR_UNALIGNED, "%s %p is not aligned to its type's %zu bytes", name, address, size);
  std::vector<Extent> extents = extents_of(address, bytes, communicator.card(), name);
  if (extents.size() > most)
    fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s lies in %zu pieces of memory, at most %u are possible", name,
         extents.size(), most);
  return extents;
}

void submit_collective(std::shared_ptr<Communicator> communicator, Request request, aclrtStream stream) {
  communicator->throw_fault();
  check_request(*communicator, request);
  Stream& target = launchable(stream);
  if (card_of(target) != communicator->card())
    fail(ACL_ERROR_RT_STREAM_CONTEXT, "the stream is one of card %d, the communicator one of card %d", card_of(target),
         communicator->card());
  communicator->check_order(name_of(request.kind), stream);
  if (captured(target))
    submit(target, new CapturedCollective(communicator, std::move(request)));
  else
    submit(target, new CollectiveTask(communicator, std::move(request)));
  communicator->note_order(stream);
}

}  // namespace softnpu::comm
