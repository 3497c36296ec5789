#include "socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "acl_types.h"
#include "runtime/error.h"
#include "runtime/fork.h"

namespace softnpu::comm {

namespace {

constexpr size_t kMostDescriptors = 4;  // in one message

Descriptor open_socket() {
  Descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) fail_to_open("a socket");
  return fd;
}

// The leading NUL makes the name abstract.
socklen_t address_of(const std::string& name, sockaddr_un* address) {
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address->sun_path - 1);
  memcpy(address->sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

int milliseconds_until(TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1000));
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

void Descriptor::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void fail_to_open(const char* what) {
  const bool limited = errno == EMFILE || errno == ENFILE;
  fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "process %d cannot open %s: %s%s", static_cast<int>(getpid()), what,
       strerror(errno), limited ? ". Raise the limit of open files (ulimit -n)" : "");
}

Descriptor listen_on(const std::string& name) {
  Descriptor fd = open_socket();
  sockaddr_un address;
  const socklen_t length = address_of(name, &address);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(fd.get(), 128) != 0)
    fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "socket of the communicator: %s", strerror(errno));
  return fd;
}

Descriptor connect_to(const std::string& name, TimePoint deadline) {
  sockaddr_un address;
  const socklen_t length = address_of(name, &address);
  for (;;) {
    Descriptor fd = open_socket();
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0) return fd;
    const bool later = errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR;
    if (!later || std::chrono::steady_clock::now() >= deadline) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

bool same_user(int socket) {
  ucred credentials;
  socklen_t length = sizeof credentials;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 && credentials.uid == geteuid();
}

bool send_message(int socket, const void* data, size_t bytes, const std::vector<int>& descriptors) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  const char* next = static_cast<const char*>(data);
  bool first = true;
  while (bytes != 0) {
    iovec part{const_cast<char*>(next), bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (first && !descriptors.empty()) {
      const size_t size = descriptors.size() * sizeof(int);
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(size);
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(size);
      memcpy(CMSG_DATA(header), descriptors.data(), size);
    }
    const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    first = false;
    next += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool wait_readable(int socket, TimePoint deadline) {
  for (;;) {
    pollfd waiting{socket, POLLIN, 0};
    const int ready = poll(&waiting, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
}

bool receive_message(int socket, void* data, size_t bytes, std::vector<Descriptor>* descriptors, TimePoint deadline) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))];
  char* next = static_cast<char*>(data);
  while (bytes != 0) {
    if (!wait_readable(socket, deadline)) return false;
    iovec part{next, bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return false;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd = -1;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
        Descriptor owned(fd);
        if (descriptors) descriptors->push_back(std::move(owned));
      }
    }
    if (message.msg_flags & MSG_CTRUNC) errno = EMFILE, fail_to_open("what another rank sent");
    next += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace softnpu::comm
