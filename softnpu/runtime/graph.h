// Graphs (aclmdlRI): the tasks that streams were given while they were captured, to be run again without their client.
//
// Note [Capture]
// A captured stream runs nothing: what it is given becomes a node. Streams that wait for an event of a captured stream
// are captured too, into the same graph. Nodes are kept in the order in which they came, which is an order that all the
// streams and events agree with, so a launch is one task that runs them one after the other. Whoever asks a captured
// stream for something that only running work can give (synchronise, query, a copy from memory that may change) gets an
// error, and the capture is invalid from then on. So is one by a call that may wait for the device, by any thread or by
// the capturing one, according to the mode of the capture and of the calling thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "acl_types.h"
#include "event.h"
#include "life.h"
#include "stream.h"
#include "task.h"

namespace softnpu {

class Graph;
class Model;

// The handle of a part of a graph whose tasks can be exchanged.
struct TaskGroup : Life {
  std::weak_ptr<Graph> graph;
  size_t index = 0;
};

class Graph : public std::enable_shared_from_this<Graph> {
 public:
  Graph(Stream& origin, aclmdlRICaptureMode mode);
  ~Graph();

  // ---- Capture ----
  void begin();
  Model& handle() const noexcept { return *handle_; }  // while its owner lives
  void add(Stream& stream, Task* task);                // takes ownership, also when it throws
  void record(Stream& stream, Event& event);
  void wait(Stream& stream, const CompletionPtr& completion);  // by a captured stream, or one that becomes captured
  void end(Stream& stream);                                    // throws Failure, and there is no graph then
  void invalidate(const std::string& why) noexcept;
  bool invalid() const noexcept { return invalid_.load(std::memory_order_relaxed); }
  bool capturing() const noexcept { return capturing_.load(std::memory_order_acquire); }
  bool endangered_by_this_thread() const noexcept;  // if it waits for the device

  // ---- Task groups: what was captured between begin and end is exchanged by an update, task by task ----
  void begin_group();
  aclrtTaskGrp end_group();
  void begin_update(size_t group);
  void update(Task* task);  // takes ownership, also when it throws
  void end_update();
  void forget_groups() noexcept;

  // ---- Launches ----
  void launch(Stream& stream);
  uint32_t id() const noexcept { return id_; }
  struct NodeDescription {
    int stream;
    std::string name, text;
  };
  std::vector<NodeDescription> describe();

 private:
  friend class Launch;
  struct Node {
    std::shared_ptr<Task> task;
    int stream;  // by which it came
    int group;   // -1: none
    bool once;   // each launch has its own task instead
  };
  struct Group {
    size_t begin, end;
  };
  struct Member {
    Stream* stream;
    std::map<int, uint64_t> behind;  // by stream, how many of its nodes stand before the next one of this
  };

  void join(Stream& stream);
  void leave() noexcept;
  void throw_invalid() const;
  [[noreturn]] void refuse(int code, const std::string& why);

  Context& context_;
  Stream& origin_;
  Model* handle_ = nullptr;
  const aclmdlRICaptureMode mode_;
  const uint64_t thread_;
  const uint32_t id_;
  std::atomic<bool> capturing_{true}, invalid_{false};
  std::mutex running_;  // launches of one graph run one after the other
  std::mutex mutex_;    // all below; after the capture nothing of it changes but the tasks of groups
  std::vector<Node> nodes_;
  std::vector<Group> groups_;
  std::vector<TaskGroup*> handles_;
  std::map<int, Member> members_;  // captured streams by number
  int open_group_ = -1;            // captured into
  int updated_ = -1;               // group, and the node that the next task of the update replaces
  size_t next_ = 0;
  std::string reason_;  // why it is invalid
  Task::Waits waits_ = Task::Waits::never;
};

// The handle of a graph.
class Model : public Life {
 public:
  static Model& create(std::shared_ptr<Graph> graph);
  static std::shared_ptr<Graph> checked(aclmdlRI handle);
  static void destroy(aclmdlRI handle);

 private:
  std::shared_ptr<Graph> graph_;
};

void begin_capture(Stream& stream, aclmdlRICaptureMode mode);
void begin_update(Stream& stream, aclrtTaskGrp group);
void end_update(Stream& stream);
aclmdlRICaptureMode exchange_capture_mode(aclmdlRICaptureMode mode);
// For calls that may wait for the device: refused, and captures that they endanger end.
void check_no_capture(const char* what);
// For calls that ask `stream` for something that only running work can give.
void check_not_captured(Stream& stream, const char* what);
void check_not_captured(const Completion& completion, const char* what);

}  // namespace softnpu
