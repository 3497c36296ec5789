// Tests that need another process: the test program starts itself again and runs a named function there.
//   CHILD(name) { ...; return exit_code; }      what the child does
//   Child child("name", {"SOFTNPU_DEVICES=2"});  starts it; say()/hear() talk to it over its stdin/stdout
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

extern char** environ;

namespace test {

using ChildFunction = int (*)();
inline std::map<std::string, ChildFunction>& children() {
  static std::map<std::string, ChildFunction> functions;
  return functions;
}
struct RegisterChild {
  RegisterChild(const char* name, ChildFunction function) { children()[name] = function; }
};

#define CHILD(name)                                                      \
  static int child_##name();                                             \
  static const test::RegisterChild register_##name(#name, child_##name); \
  static int child_##name()

class Child {
 public:
  explicit Child(const std::string& name, const std::vector<std::string>& environment = {}) {
    int in[2], out[2], err[2];
    EXPECT_EQ(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    std::string option = "--child=" + name, program = "/proc/self/exe";
    char* arguments[] = {program.data(), option.data(), nullptr};
    std::vector<std::string> variables;
    for (char** v = environ; *v; ++v)
      if (!overridden(*v, environment)) variables.push_back(*v);
    variables.insert(variables.end(), environment.begin(), environment.end());
    std::vector<char*> pointers;
    for (std::string& v : variables) pointers.push_back(v.data());
    pointers.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, pointers.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]), close(out[1]), close(err[1]);
    in_ = in[1], out_ = out[0], err_ = err[0];
  }
  ~Child() {
    if (pid_ > 0) kill(SIGKILL), wait();
    close(in_), close(out_), close(err_);
  }

  void say(const std::string& line) {
    const std::string text = line + "\n";
    EXPECT_EQ(write(in_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // The child's next line, without its end; empty after a minute or at its end.
  std::string hear() { return read_line(out_); }
  std::string errors() {
    std::string all;
    for (std::string line = read_line(err_); !line.empty(); line = read_line(err_)) all += line + "\n";
    return all;
  }
  void kill(int signal) { ::kill(pid_, signal); }
  // Exit code, or minus the signal.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  pid_t pid() const { return pid_; }

 private:
  static bool overridden(const char* variable, const std::vector<std::string>& by) {
    for (const std::string& other : by)
      if (strncmp(variable, other.c_str(), other.find('=') + 1) == 0) return true;
    return false;
  }
  static std::string read_line(int fd) {
    std::string line;
    for (char c = 0;;) {
      pollfd waiting{fd, POLLIN, 0};
      if (poll(&waiting, 1, 60000) <= 0 || read(fd, &c, 1) != 1 || c == '\n') return line;
      line += c;
    }
  }

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
};

// In a child: one line to and from the parent.
inline void tell(const std::string& line) {
  const std::string text = line + "\n";
  if (write(1, text.data(), text.size()) < 0) _exit(99);
}
inline std::string ask() {
  std::string line;
  for (char c = 0; read(0, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

}  // namespace test
