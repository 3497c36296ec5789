#include "reception.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "control.h"
#include "rendezvous.h"
#include "runtime/fork.h"

namespace softnpu::comm {

namespace {

constexpr auto kPatience = std::chrono::seconds(5);  // for a guest to say what it has to say

bool equal_secret(const uint8_t* a, const uint8_t* b) {  // in constant time
  uint8_t difference = 0;
  for (int i = 0; i < 16; ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

void tell(int socket, int code, const std::string& text) {
  Verdict verdict{};
  verdict.code = code;
  snprintf(verdict.text, sizeof verdict.text, "%s", text.c_str());
  send_message(socket, &verdict, sizeof verdict, {});
}

struct Failures {
  std::mutex mutex;
  std::map<std::string, Failure> by_name;
};

Failures& failures() {
  static Failures* const f = new Failures;
  return *f;
}

TimePoint now() { return std::chrono::steady_clock::now(); }

}  // namespace

Reception::Reception(const RootInfo& info, int timeout_seconds)
    : name_(info.name), listener_(listen_on(info.name)), magic_(info.magic), timeout_(timeout_seconds) {
  memcpy(secret_, info.secret, sizeof secret_);
  deadline_ = now() + std::chrono::seconds(timeout_);
  close_in_child(listener_.get());
}

void Reception::open(const RootInfo& info, int timeout_seconds) {
  auto reception = std::shared_ptr<Reception>(new Reception(info, timeout_seconds));
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  try {
    std::thread([reception] { reception->run(); }).detach();
  } catch (const std::system_error&) {
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no thread for the rendezvous: the limit of threads is reached");
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void Reception::run() noexcept {
  pthread_setname_np(pthread_self(), "softnpu-root");
  try {
    const bool complete = receive_all();
    forget_in_child(listener_.get());
    listener_.reset();
    if (!complete) return;
    introduce();
    collect_replies();
  } catch (const Failure& failure) {
    refuse_all(failure);
  } catch (const std::exception& e) {
    refuse_all({ACL_ERROR_RT_INTERNAL_ERROR, e.what()});
  }
}

void Reception::throw_failure_of(const std::string& name) {
  std::lock_guard<std::mutex> lock(failures().mutex);
  if (auto found = failures().by_name.extract(name)) throw Failure(std::move(found.mapped()));
}

bool Reception::receive_all() {
  while (guests_.empty() || here_ < guests_.size()) {
    std::vector<pollfd> waiting{{listener_.get(), POLLIN, 0}};
    std::vector<size_t> ranks{0};
    for (size_t rank = 0; rank < guests_.size(); ++rank) {
      if (!guests_[rank].here()) continue;
      waiting.push_back({guests_[rank].socket.get(), POLLIN, 0});
      ranks.push_back(rank);
    }
    poll(waiting.data(), waiting.size(), 100);
    for (size_t i = 1; i < waiting.size(); ++i)
      if (waiting[i].revents != 0)  // guests have nothing to say before they are introduced
        fail(ACL_ERROR_RT_LOST_HEARTBEAT, "rank %zu went away while the ranks came together", ranks[i]);
    if (waiting[0].revents != 0) {
      Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket && (errno == EMFILE || errno == ENFILE)) fail_to_open("the connection of a rank");
      if (socket) receive(std::move(socket));
    }
    if (now() >= deadline_) {
      if (guests_.empty()) return false;
      fail(ACL_ERROR_RT_TASK_TIMEOUT, "%s of %zu did not come within %d s (HCCL_CONNECT_TIMEOUT)", missing().c_str(),
           guests_.size(), timeout_);
    }
  }
  return true;
}

void Reception::receive(Descriptor socket) {
  Hello hello{};
  std::vector<Descriptor> descriptors;
  if (!same_user(socket.get())) return tell(socket.get(), ACL_ERROR_RT_NO_PERMISSION, "you are another user");
  try {
    if (!receive_message(socket.get(), &hello, sizeof hello, &descriptors, now() + kPatience)) return;
  } catch (const Failure& failure) {  // it is no guest yet, which refuse_all would tell
    tell(socket.get(), failure.code, failure.text);
    throw;
  }
  if (hello.magic != magic_ || !equal_secret(hello.secret, secret_) || descriptors.size() != 2)
    return tell(socket.get(), ACL_ERROR_RT_NO_PERMISSION, "the secret of the root info is wrong");
  if (guests_.empty()) {
    guests_.resize(hello.ranks);
    deadline_ = now() + std::chrono::seconds(timeout_);
  }
  if (hello.ranks != guests_.size() || hello.rank >= guests_.size())
    return tell(socket.get(), ACL_ERROR_RT_PARAM_INVALID,
                "rank " + std::to_string(hello.rank) + " says there are " + std::to_string(hello.ranks) +
                    " ranks, others said " + std::to_string(guests_.size()));
  Guest& guest = guests_[hello.rank];
  if (guest.here())
    return tell(socket.get(), ACL_ERROR_RT_PARAM_INVALID, "there already is a rank " + std::to_string(hello.rank));
  guest = {std::move(socket), std::move(descriptors[0]), std::move(descriptors[1])};
  ++here_;
}

void Reception::introduce() {
  const Descriptor control = ControlBlock::create(static_cast<uint32_t>(guests_.size()));
  const Verdict welcome{};
  for (size_t rank = 0; rank < guests_.size(); ++rank) {
    bool sent = send_message(guests_[rank].socket.get(), &welcome, sizeof welcome, {control.get()});
    for (uint32_t i = 0; sent && i < guests_.size(); ++i)
      sent =
          send_message(guests_[rank].socket.get(), &i, sizeof i, {guests_[i].memory.get(), guests_[i].life_line.get()});
    if (!sent) throw_gone(rank);
  }
}

void Reception::throw_gone(size_t rank) {
  Verdict verdict{};
  if (receive_message(guests_[rank].socket.get(), &verdict, sizeof verdict, nullptr, now()) && verdict.code != 0)
    fail(verdict.code, "rank %zu: %s", rank, verdict.text);
  fail(ACL_ERROR_RT_LOST_HEARTBEAT, "rank %zu went away while the ranks came together", rank);
}

void Reception::collect_replies() {
  const TimePoint deadline = now() + std::chrono::seconds(timeout_);
  for (size_t rank = 0; rank < guests_.size(); ++rank) {
    Verdict verdict{};
    if (!receive_message(guests_[rank].socket.get(), &verdict, sizeof verdict, nullptr, deadline))
      fail(ACL_ERROR_RT_LOST_HEARTBEAT, "rank %zu went away while the ranks came together", rank);
    if (verdict.code != 0) fail(verdict.code, "rank %zu: %s", rank, verdict.text);
  }
  for (Guest& guest : guests_) tell(guest.socket.get(), 0, "");
}

void Reception::refuse_all(const Failure& failure) {
  {
    std::lock_guard<std::mutex> lock(failures().mutex);
    failures().by_name.insert_or_assign(name_, failure);
  }
  for (Guest& guest : guests_)
    if (guest.here()) tell(guest.socket.get(), failure.code, failure.text);
}

std::string Reception::missing() const {
  std::string text;
  for (size_t rank = 0; rank < guests_.size(); ++rank)
    if (!guests_[rank].here()) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return (guests_.size() - here_ == 1 ? "rank " : "ranks ") + text;
}

}  // namespace softnpu::comm
