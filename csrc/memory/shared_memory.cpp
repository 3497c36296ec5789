#include "memory/shared_memory.h"

#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "acl/check.h"
#include "acl/library.h"
#include "memory/caching_allocator.h"
#include "memory/shared_ledger.h"
#include "runtime/device.h"
#include "runtime/device_memory.h"
#include "runtime/storage_format.h"
#include "runtime/stream.h"

namespace npu::shared_memory {
namespace {

const acl::Api& api() {
  const acl::Api& found = acl::api();
  TORCH_CHECK_NOT_IMPLEMENTED(found.aclrtIpcMemGetExportKey && found.aclrtIpcMemImportByKey && found.aclrtIpcMemClose,
                              "This version of CANN cannot share memory between processes.");
  return found;
}

// ---- The sender ----

struct Export {
  std::string key;
  int64_t uses = 0;
};

// Note [Received again]
// Programs take a tensor apart once and send the same words for each round of a transfer. So a cell is not given up
// when its receiver is done: as long as the sender's program has the storage, the message may be received again, by any
// one process at a time. Until then nothing of ours holds the storage, and a program that frees it meanwhile has taken
// the message back. A storage that is sent again gets its idle cell again, so that there are no more cells than
// receivers.
struct Sent {
  int64_t cell;
  c10::Storage storage;  // null while no other process holds it
  c10::weak_intrusive_ptr<c10::StorageImpl> known;
  void* segment;
  c10::DeviceIndex device;
};

struct Sender {
  std::mutex mutex;
  std::shared_ptr<Ledger> ledger;
  std::map<void*, Export> exports;  // by the segment's address
  std::vector<Sent> sent;
};

Sender& sender() {
  static Sender* const s = new Sender;  // outlives whatever ends at exit
  return *s;
}

bool is_gone(Cell& cell) {
  const int64_t state = cell.state.load(std::memory_order_acquire);
  if (state != Cell::received) return state == Cell::released;
  const int64_t pid = cell.pid.load(std::memory_order_acquire);
  return pid != 0 && start_time(pid) != cell.started.load(std::memory_order_relaxed);  // 0: it is being received
}

// With the lock held: notes who is done. Storages go to `dead`, to be freed without it. Returns how many others hold.
int64_t look_locked(Sender& s, std::vector<c10::Storage>& dead) {
  int64_t held = 0;
  for (Sent& sent : s.sent) {
    if (!is_gone(s.ledger->cell(sent.cell))) {
      ++held;
      if (!sent.storage) sent.storage = c10::Storage(sent.known.lock());
    } else if (sent.storage) {
      dead.push_back(std::move(sent.storage));
      sent.storage = c10::Storage();
    }
  }
  return held;
}

// With the lock held: gives up what the program has freed and nobody holds.
void drop_locked(Sender& s) {
  std::erase_if(s.sent, [&](Sent& sent) {
    Cell& cell = s.ledger->cell(sent.cell);
    if (sent.storage || !sent.known.expired() || !is_gone(cell)) return false;
    cell.state.store(Cell::unused, std::memory_order_release);
    const auto exported = s.exports.find(sent.segment);
    if (--exported->second.uses == 0) {
      if (is_usable()) {
        const DeviceGuard guard(sent.device);
        api().aclrtIpcMemClose(exported->second.key.c_str());
      }
      s.exports.erase(exported);
    }
    return true;
  });
}

// ---- The receiver ----

class Mapping {
 public:
  Mapping(std::string key, c10::DeviceIndex device) : key_(std::move(key)), device_(device) {
    const DeviceGuard guard(device);
    NPU_CHECK(api().aclrtIpcMemImportByKey(&address_, key_.c_str(), ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
  }
  ~Mapping() {
    if (!is_usable()) return;
    const DeviceGuard guard(device_);
    api().aclrtIpcMemClose(key_.c_str());
  }
  char* address() const { return static_cast<char*>(address_); }

 private:
  const std::string key_;
  const c10::DeviceIndex device_;
  void* address_ = nullptr;
};

struct Receiver {
  std::mutex mutex;
  std::map<std::pair<std::string, c10::DeviceIndex>, std::weak_ptr<Mapping>> mappings;
  std::map<std::string, std::weak_ptr<Ledger>> ledgers;
  // What this process has of each message: ledger, cell, message.
  std::map<std::tuple<std::string, int64_t, int64_t>, c10::weak_intrusive_ptr<c10::StorageImpl>> storages;
};

Receiver& receiver() {
  static Receiver* const r = new Receiver;
  return *r;
}

// What a received storage's memory needs to be let go of.
struct Received {
  std::shared_ptr<Mapping> mapping;
  std::shared_ptr<Ledger> ledger;
  int64_t cell;
  c10::DeviceIndex device;
};

void let_go(void* context) {
  const std::unique_ptr<Received> received(static_cast<Received*>(context));
  if (is_usable()) {
    try {
      device_memory::settle(received->device);  // what is queued may still use the memory
    } catch (const std::exception& error) {
      TORCH_WARN("Work on a received npu tensor failed: ", error.what());
    }
  }
  const std::lock_guard lock(receiver().mutex);  // nobody finds a mapping that is about to end
  received->mapping.reset();
  Cell& cell = received->ledger->cell(received->cell);
  cell.pid.store(0, std::memory_order_relaxed);
  cell.started.store(0, std::memory_order_relaxed);
  cell.state.store(Cell::released, std::memory_order_release);
}

std::shared_ptr<Ledger> ledger_of(const Handle& handle) {
  TORCH_CHECK_VALUE(handle.cell >= 0 && handle.cell < Ledger::kCells, "A shared npu tensor has no number ",
                    handle.cell);
  auto& known = receiver().ledgers[handle.ledger];
  auto ledger = known.lock();
  if (ledger == nullptr) known = ledger = Ledger::open(handle.ledger);
  return ledger;
}

}  // namespace

bool can_send(const c10::Storage& storage) {
  if (formats::layout_of(storage.unsafeGetStorageImpl()) != nullptr) return false;
  const auto segment = caching_allocator::heap(storage.device().index()).segment_of(storage.data());
  return segment.address != nullptr && !segment.expandable;
}

Handle send(const c10::Storage& storage) {
  const c10::DeviceIndex device = storage.device().index();
  const DeviceGuard guard(device);
  const auto segment = caching_allocator::heap(device).segment_of(storage.data());
  TORCH_CHECK(segment.address != nullptr && !segment.expandable, "This memory cannot be shared between processes.");
  current_stream(device).synchronize();
  Sender& s = sender();
  collect();
  const std::lock_guard lock(s.mutex);
  if (s.ledger == nullptr) s.ledger = Ledger::create();
  const auto offset = static_cast<const char*>(storage.data()) - static_cast<const char*>(segment.address);
  const auto handle_of = [&](const Export& exported, int64_t cell) {
    return Handle{exported.key, static_cast<int64_t>(segment.bytes),
                  offset,       s.ledger->name(),
                  cell,         s.ledger->cell(cell).message.load(std::memory_order_relaxed)};
  };
  for (Sent& sent : s.sent) {
    Cell& cell = s.ledger->cell(sent.cell);
    if (sent.storage || sent.known.lock().get() != storage.unsafeGetStorageImpl()) continue;
    int64_t idle = Cell::released;
    if (!cell.state.compare_exchange_strong(idle, Cell::sent)) continue;
    sent.storage = storage;
    return handle_of(s.exports.find(sent.segment)->second, sent.cell);
  }
  auto exported = s.exports.find(segment.address);
  if (exported == s.exports.end()) {
    char key[ACL_IPC_HANDLE_SIZE + 1] = {};
    NPU_CHECK(api().aclrtIpcMemGetExportKey(segment.address, segment.bytes, key, ACL_IPC_HANDLE_SIZE,
                                            ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    exported = s.exports.emplace(segment.address, Export{key}).first;
  }
  const int64_t cell = s.ledger->take();
  TORCH_CHECK(cell >= 0, "Other processes hold ", Ledger::kCells, " npu tensors of this one; let them free some.");
  ++exported->second.uses;
  s.sent.push_back({cell, storage, storage.getWeakStorageImpl(), segment.address, device});
  return handle_of(exported->second, cell);
}

c10::Storage receive(const Handle& handle, int64_t bytes, c10::DeviceIndex device) {
  TORCH_CHECK_VALUE(bytes >= 0 && handle.offset >= 0 && handle.offset <= handle.segment_bytes - bytes, bytes,
                    " bytes at ", handle.offset, " are not inside the shared memory of ", handle.segment_bytes,
                    " bytes");
  check_device_index(device);
  Receiver& r = receiver();
  c10::Storage same;  // outlives the lock, which who frees a storage takes
  const std::lock_guard lock(r.mutex);
  std::erase_if(r.ledgers, [](const auto& known) { return known.second.expired(); });
  std::erase_if(r.mappings, [](const auto& known) { return known.second.expired(); });
  auto ledger = ledger_of(handle);
  Cell& cell = ledger->cell(handle.cell);
  std::erase_if(r.storages, [](const auto& known) { return known.second.expired(); });
  const auto message = std::make_tuple(handle.ledger, handle.cell, handle.message);
  const auto found = r.storages.find(message);
  if (found != r.storages.end()) {
    same = c10::Storage(found->second.lock());
    if (same && same.nbytes() == static_cast<size_t>(bytes) && same.device().index() == device) return same;
  }
  int64_t state = cell.state.load(std::memory_order_acquire);
  const auto check = [&](bool is_free) {
    TORCH_CHECK(is_free && cell.message.load(std::memory_order_relaxed) == handle.message,
                "This npu tensor is with another process, or its sender has taken it back: send it again.");
  };
  check(state == Cell::sent || state == Cell::released);
  auto& known = r.mappings[{handle.key, device}];
  auto mapping = known.lock();
  if (mapping == nullptr) known = mapping = std::make_shared<Mapping>(handle.key, device);
  check(cell.state.compare_exchange_strong(state, Cell::received));
  cell.started.store(start_time(getpid()), std::memory_order_relaxed);
  cell.pid.store(getpid(), std::memory_order_release);
  char* const address = mapping->address() + handle.offset;
  auto* const received = new Received{std::move(mapping), std::move(ledger), handle.cell, device};
  c10::Storage storage(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes),
                       c10::DataPtr(address, received, &let_go, c10::Device(c10::DeviceType::PrivateUse1, device)),
                       /*allocator=*/nullptr, /*resizable=*/false);
  r.storages.insert_or_assign(message, storage.getWeakStorageImpl());
  return storage;
}

void decline(const Handle& handle) {
  const std::lock_guard lock(receiver().mutex);
  const auto ledger = ledger_of(handle);
  Cell& cell = ledger->cell(handle.cell);
  int64_t sent = Cell::sent;
  if (cell.message.load(std::memory_order_relaxed) == handle.message)
    cell.state.compare_exchange_strong(sent, Cell::released);
}

int64_t collect() {
  Sender& s = sender();
  int64_t held = 0;
  {
    std::vector<c10::Storage> dead;  // outlives the lock
    const std::lock_guard lock(s.mutex);
    if (s.ledger != nullptr) held = look_locked(s, dead);
  }
  const std::lock_guard lock(s.mutex);
  if (s.ledger != nullptr) drop_locked(s);
  return held;
}

int64_t end_sending() {
  const int64_t held = collect();
  const std::lock_guard lock(sender().mutex);
  if (sender().ledger != nullptr) sender().ledger->remove();
  return held;
}

}  // namespace npu::shared_memory
