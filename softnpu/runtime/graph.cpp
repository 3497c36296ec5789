#include "graph.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>

#include "address.h"
#include "arena.h"
#include "config.h"
#include "error.h"
#include "memory.h"

namespace softnpu {

namespace {

constinit Arena<Model> g_models{"graphs", 64 * 1024};
constinit Arena<TaskGroup> g_groups{"task groups", 512 * 1024};
std::atomic<uint32_t> g_next_id{1};

// Captures that are under way, to be found by calls that endanger them.
std::atomic<int> g_active{0};
std::mutex g_mutex;
std::vector<Graph*> g_captures;
thread_local constinit aclmdlRICaptureMode t_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;

uint64_t this_thread() { return static_cast<uint64_t>(pthread_self()); }

std::string number(const char* what, int64_t value) { return what + std::to_string(value); }

// An event that the host or another graph sees: its records, waits and resets are nodes.
class EventTask final : public Task {
 public:
  enum class Kind { record, wait, reset };
  EventTask(Kind kind, Event& event) : kind_(kind), event_(event), number_(event.number()) {}

  Waits waits() const noexcept override { return kind_ == Kind::wait ? Waits::for_user : Waits::never; }
  const char* name() const noexcept override {
    return kind_ == Kind::record ? "aclrtRecordEvent"
           : kind_ == Kind::wait ? "aclrtStreamWaitEvent"
                                 : "aclrtResetEvent";
  }
  std::string describe() const override { return name(); }

  void run() override {
    if (!event_.alive(number_)) fail(ACL_ERROR_RT_INVALID_HANDLE, "the event was destroyed before the graph ran");
    if (kind_ == Kind::reset) return event_.reset();
    if (kind_ == Kind::record) return event_.set_done(*t_thread.running);
    const timespec nap{0, 20000};
    while (!abandoned()) {
      const CompletionPtr completion = event_.current();
      if (completion && completion->done()) return;
      nanosleep(&nap, nullptr);
    }
  }

 private:
  const Kind kind_;
  Event& event_;
  const uint64_t number_;
};

}  // namespace

// What a stream is given for one run of a graph.
class Launch final : public Task {
 public:
  explicit Launch(std::shared_ptr<Graph> graph) : graph_(std::move(graph)) {
    std::lock_guard<std::mutex> lock(graph_->mutex_);
    for (const auto& node : graph_->nodes_)
      if (node.once) fresh_.emplace_back(node.task->again(), [](Task* task) { task->release(); });
    if (config().strict) check_memory();
  }

  Waits waits() const noexcept override { return graph_->waits_; }
  const char* name() const noexcept override { return "a graph"; }
  std::string describe() const override {
    return "graph " + std::to_string(graph_->id_) + " of " + std::to_string(graph_->nodes_.size()) + " tasks";
  }
  std::vector<TouchedBytes> memory() const override {
    std::vector<TouchedBytes> all;
    for (const auto& node : graph_->nodes_) {
      const auto spans = node.task->memory();
      all.insert(all.end(), spans.begin(), spans.end());
    }
    return all;
  }

  bool runs_once() const noexcept override { return !fresh_.empty(); }
  Task* again() override { return new Launch(graph_); }

  void run() override {
    std::lock_guard<std::mutex> lock(graph_->running_);
    auto fresh = fresh_.begin();
    for (const auto& node : graph_->nodes_) {
      if (abandoned()) return;
      if (node.once)
        run((fresh++)->get());
      else if (node.group < 0)
        run(node.task.get());
      else
        run(exchanged(node).get());
    }
  }

 private:
  static void run(Task* task) {
    try {
      task->run();
    } catch (const Failure& failure) {
      throw Failure(failure.code, task->describe() + ": " + failure.text);
    }
  }

  std::shared_ptr<Task> exchanged(const Graph::Node& node) const {
    std::lock_guard<std::mutex> lock(graph_->mutex_);
    return node.task;
  }

  void check_memory() const {
    for (const auto& node : graph_->nodes_)
      for (const TouchedBytes& span : node.task->memory())
        if (const void* address = device_address(span.begin); is_device_address(address))
          check_allocated(address, span.bytes, graph_->context_.card, node.task->name());
  }

  const std::shared_ptr<Graph> graph_;
  std::vector<std::shared_ptr<Task>> fresh_;  // instead of nodes that cannot run twice
};

Graph::Graph(Stream& origin, aclmdlRICaptureMode mode)
    : context_(origin.context()), origin_(origin), mode_(mode), thread_(this_thread()), id_(g_next_id.fetch_add(1)) {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_captures.push_back(this);
  g_active.fetch_add(1, std::memory_order_release);
}

Graph::~Graph() {
  std::lock_guard<std::mutex> lock(g_mutex);
  std::erase(g_captures, this);
}

void Graph::throw_invalid() const {
  fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "the capture is invalid: %s", reason_.c_str());
}

void Graph::invalidate(const std::string& why) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  if (invalid()) return;
  reason_ = why;
  invalid_.store(true, std::memory_order_relaxed);
}

void Graph::refuse(int code, const std::string& why) {
  invalidate(why);
  throw Failure(code, why);
}

// Lock held, or nobody else knows the graph yet.
void Graph::join(Stream& stream) {
  if (!members_.try_emplace(stream.id(), Member{&stream, {}}).second) return;
  stream.divert(Stream::Diversion::capture, shared_from_this());
}

void Graph::leave() noexcept {
  for (auto& [id, member] : members_)
    if (member.stream->id() == id) member.stream->divert(Stream::Diversion::none, nullptr);
  members_.clear();
  capturing_.store(false, std::memory_order_release);
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    std::erase(g_captures, this);
  }
  g_active.fetch_sub(1, std::memory_order_release);
}

void Graph::add(Stream& stream, Task* task) {
  std::shared_ptr<Task> owned(task, [](Task* t) { t->release(); });
  std::lock_guard<std::mutex> lock(mutex_);
  if (invalid()) throw_invalid();
  waits_ = std::max(waits_, task->waits());
  const bool once = task->runs_once();
  nodes_.push_back({std::move(owned), stream.id(), open_group_, once});
  ++members_.at(stream.id()).behind[stream.id()];
}

void Graph::record(Stream& stream, Event& event) {
  if (event.external()) return add(stream, new EventTask(EventTask::Kind::record, event));
  auto completion = std::make_shared<Completion>(&stream, false);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (invalid()) throw_invalid();
    completion->capture = std::make_unique<CaptureMark>(weak_from_this(), members_.at(stream.id()).behind);
  }
  event.set_current(std::move(completion));
}

void Graph::wait(Stream& stream, const CompletionPtr& completion) {
  if (!completion->capture && completion->origin() == &stream) return;  // its own work, before the capture
  const auto origin = completion->capture ? completion->capture->graph.lock() : nullptr;
  if (origin.get() != this)
    refuse(origin ? ACL_ERROR_STREAM_CAPTURE_CONFLICT : ACL_ERROR_RT_CAPTURE_DEPENDENCY,
           number("stream ", stream.id()) + " is being captured and waits for an event that was recorded " +
               (origin ? "in another capture" : "outside of the capture"));
  if (!capturing())
    fail(ACL_ERROR_RT_EVENT_CAPTURED, "the event was recorded in a capture that has ended: record it again");
  std::lock_guard<std::mutex> lock(mutex_);
  if (invalid()) throw_invalid();
  join(stream);
  for (const auto& [id, count] : completion->capture->behind) {
    uint64_t& known = members_.at(stream.id()).behind[id];
    known = std::max(known, count);
  }
}

void Graph::end(Stream& stream) {
  if (&stream != &origin_)
    fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "the capture was begun on stream %d, not on stream %d", origin_.id(),
         stream.id());
  std::lock_guard<std::mutex> lock(mutex_);
  const auto behind = members_.at(stream.id()).behind;
  int unjoined = -1;
  for (const auto& [id, each] : members_) {
    const auto own = each.behind.find(id);
    const auto known = behind.find(id);
    if (own != each.behind.end() && (known == behind.end() || known->second < own->second)) unjoined = id;
  }
  leave();
  if (invalid()) throw_invalid();
  if (open_group_ >= 0) fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group was begun and not ended");
  if (unjoined >= 0)
    fail(ACL_ERROR_RT_STREAM_UNJOINED,
         "stream %d was captured too, and stream %d does not wait for its last work: record an event on the one and "
         "wait for it on the other before the capture ends",
         unjoined, stream.id());
}

void Graph::begin_group() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (open_group_ >= 0) fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group was begun before and not ended");
  open_group_ = static_cast<int>(groups_.size());
  groups_.push_back({nodes_.size(), nodes_.size()});
}

aclrtTaskGrp Graph::end_group() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (open_group_ < 0) fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "no task group was begun");
  TaskGroup* handle = g_groups.acquire();
  handle->graph = weak_from_this();
  handle->index = static_cast<size_t>(open_group_);
  handle->begin();
  groups_[open_group_].end = nodes_.size();
  handles_.push_back(handle);
  open_group_ = -1;
  return handle;
}

void begin_update(Stream& stream, aclrtTaskGrp handle) {
  TaskGroup* group = g_groups.find(handle);
  const std::shared_ptr<Graph> graph = group ? group->graph.lock() : nullptr;
  if (!graph) fail(ACL_ERROR_RT_INVALID_HANDLE, "task group %p is none, or its graph was destroyed", handle);
  if (stream.diversion() != Stream::Diversion::none)
    fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "stream %d is being captured or updates a graph already", stream.id());
  graph->begin_update(group->index);
  stream.divert(Stream::Diversion::update, graph);
}

void Graph::begin_update(size_t group) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (updated_ >= 0) fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group of the graph is being updated already");
  updated_ = static_cast<int>(group);
  next_ = groups_[group].begin;
}

void Graph::update(Task* task) {
  std::shared_ptr<Task> owned(task, [](Task* t) { t->release(); });
  std::lock_guard<std::mutex> lock(mutex_);
  if (next_ == groups_[updated_].end || std::string(nodes_[next_].task->name()) != task->name())
    fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "the update gives %s where the task group has %s", task->name(),
         next_ == groups_[updated_].end ? "no more tasks" : nodes_[next_].task->name());
  nodes_[next_++].task.swap(owned);
}

void end_update(Stream& stream) {
  if (stream.diversion() != Stream::Diversion::update)
    fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "stream %d updates no task group", stream.id());
  const std::shared_ptr<Graph> graph = stream.graph();
  stream.divert(Stream::Diversion::none, nullptr);
  graph->end_update();
}

void Graph::end_update() {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool complete = next_ == groups_[updated_].end;
  updated_ = -1;
  if (!complete) fail(ACL_ERROR_STREAM_TASK_GROUP_INTR, "the update gave fewer tasks than the task group has");
}

void Graph::launch(Stream& stream) {
  if (&stream.context() != &context_)
    fail(ACL_ERROR_RT_STREAM_CONTEXT, "the graph is one of card %d, the stream one of card %d", context_.card,
         stream.context().card);
  stream.submit(new Launch(shared_from_this()));
}

std::vector<Graph::NodeDescription> Graph::describe() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<NodeDescription> all;
  for (const Node& node : nodes_) all.push_back({node.stream, node.task->name(), node.task->describe()});
  return all;
}

void Graph::forget_groups() noexcept {
  for (TaskGroup* handle : handles_)
    if (handle->end()) {
      handle->graph.reset();
      g_groups.release(handle);
    }
  handles_.clear();
}

Model& Model::create(std::shared_ptr<Graph> graph) {
  Model* model = g_models.acquire();
  model->graph_ = std::move(graph);
  model->begin();
  return *model;
}

std::shared_ptr<Graph> Model::checked(aclmdlRI handle) {
  Model* model = g_models.find(handle);
  if (!model || !model->hold())
    fail(ACL_ERROR_RT_INVALID_HANDLE, "graph %p is no live graph (destroyed before, or not made by a capture)", handle);
  std::shared_ptr<Graph> graph = model->graph_;
  model->let_go();
  return graph;
}

void Model::destroy(aclmdlRI handle) {
  Model* model = g_models.end(handle);
  if (!model)
    fail(ACL_ERROR_RT_INVALID_HANDLE, "graph %p is no live graph (destroyed before, or not made by a capture)", handle);
  model->graph_->forget_groups();
  model->graph_.reset();
  g_models.release(model);
}

void begin_capture(Stream& stream, aclmdlRICaptureMode mode) {
  if (mode < ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
    fail(ACL_ERROR_RT_PARAM_INVALID, "mode %d is no capture mode", static_cast<int>(mode));
  if (stream.diversion() != Stream::Diversion::none)
    fail(ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured already", stream.id());
  if (&stream == &default_stream(stream.context()))
    fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "the default stream of a card cannot be captured");
  std::make_shared<Graph>(stream, mode)->begin();
}

void Graph::begin() {
  handle_ = &Model::create(shared_from_this());
  join(origin_);
}

aclmdlRICaptureMode exchange_capture_mode(aclmdlRICaptureMode mode) {
  if (mode < ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
    fail(ACL_ERROR_RT_PARAM_INVALID, "mode %d is no capture mode", static_cast<int>(mode));
  return std::exchange(t_mode, mode);
}

bool Graph::endangered_by_this_thread() const noexcept {
  if (t_mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && mode_ == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) return true;
  return thread_ == this_thread() && mode_ != ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
}

void check_no_capture(const char* what) {
  if (g_active.load(std::memory_order_acquire) == 0 || t_mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return;
  bool refused = false;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    for (Graph* graph : g_captures)
      if (graph->endangered_by_this_thread()) {
        graph->invalidate(std::string(what) + " was called, which a capture does not permit");
        refused = true;
      }
  }
  if (refused) fail(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "operation not permitted when stream is capturing");
}

void check_not_captured(Stream& stream, const char* what) {
  if (stream.diversion() != Stream::Diversion::capture) return;
  if (const auto graph = stream.graph())
    graph->invalidate(std::string(what) + " was called for stream " + std::to_string(stream.id()));
  fail(ACL_ERROR_RT_STREAM_CAPTURED, "operation not permitted when stream is capturing (stream %d)", stream.id());
}

void check_not_captured(const Completion& completion, const char* what) {
  if (!completion.capture) return;
  if (const auto graph = completion.capture->graph.lock(); graph && graph->capturing())
    graph->invalidate(std::string(what) + " was called for an event of the capture");
  fail(ACL_ERROR_RT_EVENT_CAPTURED, "the event was recorded in a capture, where nothing runs: record it again");
}

// ---- The stream's side ----

std::shared_ptr<Graph> Stream::graph() {
  std::lock_guard<std::mutex> lock(mutex_);
  return graph_;
}

void Stream::divert(Diversion diversion, std::shared_ptr<Graph> graph) {
  std::lock_guard<std::mutex> lock(mutex_);
  graph_.swap(graph);
  diversion_.store(diversion, std::memory_order_release);
}

void Stream::give_to_graph(Task* task) {
  const auto to = graph();
  if (!to) {
    task->release();
    fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "another thread has ended the capture of stream %d", id());
  }
  task->leave_thread();
  diversion() == Diversion::capture ? to->add(*this, task) : to->update(task);
}

void Stream::record(Event& event) {
  const auto to = diversion() == Diversion::capture ? graph() : nullptr;
  if (!to) return event.record(*this);
  if (event.shared())
    fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "an event that other processes see cannot be recorded in a capture");
  to->record(*this, event);
}

void Stream::wait_for(Event& event) {
  const auto to = diversion() == Diversion::capture ? graph() : nullptr;
  if (to && event.external()) return to->add(*this, new EventTask(EventTask::Kind::wait, event));
  if (const uint64_t number = event.recorded_elsewhere()) {
    if (to) fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a capture cannot wait for an event of another process");
    return event.shared()->hold_up(*this, number);
  }
  const CompletionPtr completion = event.current();
  if (!completion) return;
  if (to) return to->wait(*this, completion);
  if (!completion->capture) return wait_for(completion);
  const auto origin = completion->capture->graph.lock();
  if (!origin || !origin->capturing())
    fail(ACL_ERROR_RT_EVENT_CAPTURED, "the event was recorded in a capture that has ended: record it again");
  origin->wait(*this, completion);
}

void Stream::reset(Event& event) {
  const auto to = diversion() == Diversion::capture ? graph() : nullptr;
  if (to && event.external()) return to->add(*this, new EventTask(EventTask::Kind::reset, event));
  event.reset();
}

}  // namespace softnpu
