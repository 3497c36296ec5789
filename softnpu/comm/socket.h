// A Unix stream socket that carries fixed-size messages with descriptors. Used only while a communicator is made.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace softnpu::comm {

using TimePoint = std::chrono::steady_clock::time_point;

// An open descriptor, closed at the end of its life.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset();
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Throws Failure(207005) with errno's words, and what to do when it says that the limit of descriptors is reached.
[[noreturn]] void fail_to_open(const char* what);

// `name` lies in the abstract namespace: nothing appears in a folder, and the kernel forgets it with the socket.
Descriptor listen_on(const std::string& name);
// Tries until `deadline`; an invalid descriptor when nobody listens.
Descriptor connect_to(const std::string& name, TimePoint deadline);

bool same_user(int socket);  // whether the other side runs under this process's user id

// False when the other side has gone or the deadline has passed. Throws Failure(207005) when descriptors were lost
// because this process may open no more of them.
bool send_message(int socket, const void* data, size_t bytes, const std::vector<int>& descriptors);
bool receive_message(int socket, void* data, size_t bytes, std::vector<Descriptor>* descriptors, TimePoint deadline);

bool wait_readable(int socket, TimePoint deadline);

}  // namespace softnpu::comm
