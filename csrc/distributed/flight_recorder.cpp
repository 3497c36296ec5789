#include "distributed/flight_recorder.h"

#include <c10/util/Logging.h>
#include <c10/util/error.h>
#include <fcntl.h>
#include <torch/csrc/distributed/c10d/TraceUtils.h>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "acl/config.h"

namespace npu::distributed {

namespace {

constexpr const char* kFormatVersion = "2.10";

using Dict = c10::Dict<c10::IValue, c10::IValue>;
using List = c10::List<c10::IValue>;

Dict new_dict() { return Dict(c10::AnyType::get(), c10::AnyType::get()); }
List new_list() { return List(c10::AnyType::get()); }

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

FlightRecorder::FlightRecorder()
    : capacity_(static_cast<size_t>(std::max(0, config::hccl_trace_buffer_size()))),
      cpp_stacks_(config::hccl_trace_cpp_stack()) {}

FlightRecorder& FlightRecorder::get() {
  static FlightRecorder* const recorder = new FlightRecorder;  // leaked: it holds Python objects
  return *recorder;
}

std::optional<uint64_t> FlightRecorder::record(Operation operation, const std::vector<at::Tensor>& inputs,
                                               const std::vector<at::Tensor>& outputs) {
  if (!enabled()) return std::nullopt;
  const auto shapes = [](const std::vector<at::Tensor>& tensors) {
    std::vector<Shape> result;
    for (const at::Tensor& tensor : tensors) result.push_back({tensor.sizes().vec(), tensor.scalar_type()});
    return result;
  };
  Entry entry{0, std::move(operation), shapes(inputs), shapes(outputs), now(), 0, nullptr};
  entry.stack = torch::CapturedTraceback::gather(true, true, cpp_stacks_);
  std::lock_guard<std::mutex> lock(mutex_);
  entry.id = next_++;
  if (!entry.operation.point_to_point) groups_[entry.operation.group].enqueued = entry.operation.number;
  entries_.push_back(std::move(entry));
  if (entries_.size() > capacity_) entries_.pop_front();
  return next_ - 1;
}

void FlightRecorder::done(std::optional<uint64_t> id) {
  if (!id) return;
  std::lock_guard<std::mutex> lock(mutex_);
  if (entries_.empty() || *id < entries_.front().id) return;
  Entry& entry = entries_[*id - entries_.front().id];
  entry.completed = now();
  if (!entry.operation.point_to_point) groups_[entry.operation.group].completed = entry.operation.number;
}

void FlightRecorder::set_ranks(const std::string& group, std::vector<uint64_t> ranks) {
  std::lock_guard<std::mutex> lock(mutex_);
  groups_[group].ranks = std::move(ranks);
}

c10::IValue FlightRecorder::describe(const Entry& entry) const {
  const auto sizes = [](const std::vector<Shape>& shapes) {
    List all = new_list();
    for (const Shape& shape : shapes) {
      List one = new_list();
      for (int64_t size : shape.sizes) one.push_back(size);
      all.push_back(one);
    }
    return all;
  };
  const auto types = [](const std::vector<Shape>& shapes) {
    std::vector<std::string> names;
    for (const Shape& shape : shapes) names.push_back(c10::toString(shape.type));
    return names;
  };
  const Operation& operation = entry.operation;
  const bool p2p = operation.point_to_point;
  Dict dict = new_dict();
  dict.insert("record_id", static_cast<int64_t>(entry.id));
  dict.insert("pg_id", int64_t{0});
  dict.insert("process_group", std::make_tuple(operation.group, operation.description));
  dict.insert("thread_name", "");
  dict.insert("thread_id", "");
  dict.insert("collective_seq_id", p2p ? int64_t{0} : static_cast<int64_t>(operation.number));
  dict.insert("p2p_seq_id", p2p ? static_cast<int64_t>(operation.number) : int64_t{0});
  dict.insert("op_id", static_cast<int64_t>(operation.number));
  dict.insert("profiling_name", operation.title);
  dict.insert("time_created_ns", entry.created);
  dict.insert("input_sizes", sizes(entry.inputs));
  dict.insert("input_dtypes", types(entry.inputs));
  dict.insert("output_sizes", sizes(entry.outputs));
  dict.insert("output_dtypes", types(entry.outputs));
  dict.insert("state", entry.completed ? "completed" : "scheduled");
  dict.insert("time_discovered_started_ns", c10::IValue());
  dict.insert("time_discovered_completed_ns", entry.completed ? c10::IValue(entry.completed) : c10::IValue());
  dict.insert("retired", entry.completed != 0);
  dict.insert("timeout_ms", static_cast<int64_t>(operation.timeout.count()));
  dict.insert("is_p2p", p2p);
  return dict;
}

std::string FlightRecorder::dump(bool with_collectives, bool with_stacks, bool only_active) {
  std::vector<Entry> entries;
  std::map<std::string, Group> groups;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    entries.assign(entries_.begin(), entries_.end());
    groups = groups_;
  }
  Dict result = new_dict(), config = new_dict(), status = new_dict();
  for (const auto& [name, group] : groups) {
    Dict info = new_dict(), progress = new_dict();
    std::string ranks;
    for (uint64_t rank : group.ranks) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    info.insert("name", name);
    info.insert("desc", "");
    info.insert("ranks", "[" + ranks + "]");
    config.insert(name, info);
    progress.insert("last_enqueued_collective", static_cast<int64_t>(group.enqueued));
    progress.insert("last_started_collective", static_cast<int64_t>(group.enqueued));
    progress.insert("last_completed_collective", static_cast<int64_t>(group.completed));
    status.insert(name, progress);
  }
  result.insert("version", kFormatVersion);
  result.insert("comm_lib_version", "hccl");
  result.insert("pg_config", config);
  result.insert("pg_status", status);
  if (with_collectives) {
    std::vector<torch::CapturedTraceback*> stacks;
    for (const Entry& entry : entries) stacks.push_back(entry.stack.get());
    torch::SymbolizedTracebacks symbols;
    if (with_stacks) symbols = torch::symbolize(stacks);
    List list = new_list();
    for (size_t i = 0; i < entries.size(); ++i) {
      if (only_active && entries[i].completed) continue;
      Dict dict = describe(entries[i]).to<Dict>();
      List frames = new_list();
      if (with_stacks) {
        for (uint64_t index : symbols.tracebacks.at(i)) {
          const auto& frame = symbols.all_frames.at(index);
          Dict one = new_dict();
          one.insert("name", frame.funcname);
          one.insert("filename", frame.filename);
          one.insert("line", static_cast<int64_t>(frame.lineno));
          frames.push_back(one);
        }
      }
      dict.insert("frames", frames);
      list.push_back(dict);
    }
    result.insert("entries", list);
  }
  return c10d::pickle_str(result);
}

std::string FlightRecorder::write_file(int rank) {
  const std::string path = config::hccl_debug_info_file() + std::to_string(rank);
  const std::string text = dump(true, true, false);
  // For this user alone, and in one step: a link or a file that somebody put there is replaced, not followed.
  std::string temporary = path + ".XXXXXX";
  const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);  // mode 0600
  FILE* file = descriptor < 0 ? nullptr : fdopen(descriptor, "wb");
  bool written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file) written &= std::fclose(file) == 0;
  written = written && std::rename(temporary.c_str(), path.c_str()) == 0;
  if (written) return path;
  LOG(ERROR) << "The flight recorder cannot write " << path << ": " << c10::utils::str_error(errno);
  if (descriptor >= 0) unlink(temporary.c_str());
  return "";
}

}  // namespace npu::distributed
