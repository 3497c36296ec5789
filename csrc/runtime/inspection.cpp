#include "runtime/inspection.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "acl/config.h"
#include "acl/json.h"
#include "acl/library.h"
#include "acl/runtime_symbol.h"
#include "runtime/device.h"
#include "runtime/task_queue.h"
#include "runtime/watchers.h"

namespace npu::inspection {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxQuestion = 256;
constexpr auto kInterest = std::chrono::seconds(10);

struct Entry {
  Part part = nullptr;
  Unwanted unwanted = nullptr;
  std::optional<Clock::time_point> until = {};  // it is told; of the inspection's thread
};

struct Parts {
  std::mutex mutex;
  std::map<std::string, Entry> all;  // none is ever removed
};

// Never destroyed: the thread may outlive the statics.
Parts& parts() {
  static auto* const parts = new Parts;
  return *parts;
}

std::atomic<int> g_socket{-1};
std::thread* g_thread = nullptr;  // of start() and stop()
Clock::time_point g_started;
int g_rank = -1;  // read when it starts: other threads may change the environment later

std::string process_part() {
  const auto seconds = std::chrono::duration<double>(Clock::now() - g_started).count();
  std::string cards;
  for (c10::DeviceIndex card = 0; card < kMaxDevices; ++card)
    if (has_primary_context(card)) cards += (cards.empty() ? "" : ", ") + std::to_string(card);
  return c10::str("{\"pid\": ", getpid(), ", \"rank\": ", g_rank < 0 ? "null" : std::to_string(g_rank),
                  ", \"seconds\": ", seconds, ", \"cards\": [", cards, "], \"runtime\": \"",
                  acl::provider() == acl::Provider::softnpu ? "softnpu" : "cann", "\"}");
}

std::string queue_part() {
  return c10::str("{\"level\": ", task_queue::level(), ", \"waiting\": ", task_queue::backlog(), "}");
}

// CANN tells nobody what a stream is doing.
std::string streams_part() {
  if (acl::provider() != acl::Provider::softnpu) return "null";
  using Describe = size_t(char*, size_t);
  auto* const describe = reinterpret_cast<Describe*>(acl::runtime_symbol("softnpu_describe_streams"));
  if (!describe) return "null";
  std::string text(describe(nullptr, 0) + 1024, '\0');  // there may be more to tell by now
  const size_t size = describe(text.data(), text.size());
  if (size > text.size()) return "null";
  text.resize(size);
  return text;
}

std::string answer(const std::string& name) {
  Part part = nullptr;
  {
    std::lock_guard<std::mutex> lock(parts().mutex);
    const auto found = parts().all.find(name);
    if (found != parts().all.end()) {
      part = found->second.part;
      if (found->second.unwanted) found->second.until = Clock::now() + kInterest;
    }
  }
  std::string value = "null";
  try {
    if (part) value = part();
  } catch (const std::exception& error) {
    value = "{\"error\": " + quoted(error.what()) + "}";
  }
  return "{" + quoted(name) + ": " + value + "}\n";
}

bool may_ask(int connection) {
  ucred who{};
  socklen_t size = sizeof who;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && (who.uid == geteuid() || who.uid == 0);
}

std::string read_line(int connection) {
  std::string line;
  for (char c = 0; line.size() < kMaxQuestion && recv(connection, &c, 1, 0) == 1 && c != '\n';) line += c;
  return line;
}

bool send_all(int connection, const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

void serve(int connection) {
  const timeval patience{2, 0};  // with somebody who does not ask, or does not listen
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (!may_ask(connection)) {
    send_all(connection, "{\"refused\": \"the process belongs to another user\"}\n");
    return;
  }
  std::istringstream names(read_line(connection));
  for (std::string name; names >> name;)
    if (!send_all(connection, answer(name))) return;
}

// Tells the parts that nobody has asked for; milliseconds to the next time, -1 when there is none.
int tell_unwanted() {
  int next = -1;
  std::lock_guard<std::mutex> lock(parts().mutex);
  for (auto& [name, entry] : parts().all) {
    if (!entry.until) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*entry.until - Clock::now()).count();
    if (left <= 0) {
      entry.until.reset();
      entry.unwanted();
    } else if (next < 0 || left < next) {
      next = static_cast<int>(left);
    }
  }
  return next;
}

void await_question(int socket) {
  for (pollfd listening{socket, POLLIN, 0};;) {
    const int ready = poll(&listening, 1, tell_unwanted());
    if (ready > 0 || (ready < 0 && errno != EINTR)) return;
  }
}

void work(int socket) {
  pthread_setname_np(pthread_self(), "npu_inspection");
  for (;;) {
    await_question(socket);
    const int connection = accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0 && errno == EINVAL) return;  // stop()
    if (connection < 0) {                           // nobody came, or the process has no descriptor left for now
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      continue;
    }
    try {
      serve(connection);
    } catch (const std::exception&) {  // no memory: the asker sees the end of the answer
    }
    close(connection);
  }
}

// PIDs are numbers within a namespace, and containers may share the names of sockets.
int listen_here() {
  struct stat space{};
  if (stat("/proc/self/ns/pid", &space) != 0) return -1;
  const std::string name = c10::str("torch_npu/", space.st_ino, "/", getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name.data(), name.size());  // behind a zero: no file
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(fd, 8) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

}  // namespace

void add(const char* name, Part part, Unwanted unwanted) {
  std::lock_guard<std::mutex> lock(parts().mutex);
  Entry& entry = parts().all[name];
  entry.part = part;
  entry.unwanted = unwanted;
}

void start() noexcept {
  try {
    add("process", &process_part);
    add("queue", &queue_part);
    add("streams", &streams_part);
    g_started = Clock::now();
    g_rank = config::rank();
    const int fd = listen_here();
    if (fd < 0) return;
    g_socket = fd;
    sigset_t all, old;  // signals are for the program's threads
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    try {
      g_thread = new std::thread(&work, fd);
    } catch (const std::system_error&) {
      close(g_socket.exchange(-1));
    }
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  } catch (const std::exception&) {
  }
}

void stop() noexcept {
  if (g_socket < 0) return;
  shutdown(g_socket, SHUT_RDWR);  // accept() returns
  if (g_thread && g_thread->joinable()) g_thread->join();
  const int fd = g_socket.exchange(-1);
  if (fd >= 0) close(fd);
}

void forget_in_child() noexcept {
  watchers::set(watchers::count, false);  // nobody can ask, nor end it
  const int fd = g_socket.exchange(-1);
  if (fd >= 0) close(fd);
}

}  // namespace npu::inspection
