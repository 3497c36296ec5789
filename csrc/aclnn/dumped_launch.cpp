#include "aclnn/dumped_launch.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <set>

#include "acl/json.h"
#include "aclnn/survey.h"
#include "dump/operators.h"
#include "runtime/capture.h"
#include "runtime/python_line.h"
#include "runtime/stream.h"

namespace npu::ops {

namespace {

std::vector<int64_t> packed_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

dump::DeviceArray located(const PackedTensor& t) {
  const auto& w = t.words;
  dump::DeviceArray array{w.type, w.sizes.vec(), w.strides.vec(), w.offset, w.storage_bytes, t.address};
  if (w.stored.empty()) return array;
  array.sizes = w.stored.vec();  // a private format: its blocks as they lie
  array.strides = packed_strides(array.sizes);
  array.offset = 0;
  return array;
}

// Which tensor of the launch is the operator's argument; null: none, or one in a private format.
std::string place_of(const dump::TensorKey& key, const std::vector<PackedTensor>& read) {
  for (size_t i = 0; i < read.size(); i++)
    if (read[i].words.stored.empty() && read[i].address == key.storage && read[i].words.offset == key.offset &&
        read[i].words.sizes == key.sizes)
      return std::to_string(i);
  return "null";
}

}  // namespace

DumpedLaunch::DumpedLaunch(const AclOp& op, PhaseOne phase_one, const Packer& packer) {
  auto session = dump::Session::current();
  if (!session) return;
  const uint64_t order = session->next_order();
  const auto* aten = dump::innermost();
  const auto step = dump::step();
  const std::string name = aten ? aten->name : "";
  if (!session->wants(name, op.name, step)) return;
  if (captures::any()) {
    TORCH_WARN_ONCE("Operators of a graph that is being captured are not dumped: nothing of it runs yet.");
    return;
  }
  // What an operator writes is an input too if its caller had it before.
  std::set<const void*> known;
  if (aten)
    for (const auto& key : aten->tensors)
      if (!key.is_out) known.insert(key.storage);
  const uint64_t written = written_by(op.name);
  std::vector<PackedTensor> read;
  for (const auto& tensor : packed_tensors(phase_one, packer)) {
    const bool is_written = written >> tensor.argument & 1;
    if (is_written) outputs_.push_back(located(tensor));
    const auto same = [&](const PackedTensor& other) {
      return other.address == tensor.address && other.words.offset == tensor.words.offset &&
             other.words.sizes == tensor.words.sizes && other.words.strides == tensor.words.strides;
    };
    if (!is_written || (known.count(tensor.address) && std::none_of(read.begin(), read.end(), same)))
      read.push_back(tensor);
  }

  const auto stream = current_stream();
  stream.synchronize();
  char digits[24];
  snprintf(digits, sizeof(digits), "%06llu_", static_cast<unsigned long long>(order));
  stem_ = std::string(digits) + op.name;
  std::string inputs, places;
  for (size_t i = 0; session->options().inputs && i < read.size(); i++)
    inputs += (i ? ", " : "") + session->describe(dump::HostArray(located(read[i])), c10::str(stem_, "_in", i));
  line_ = c10::str("{\"order\": ", order, ", \"step\": ", step, ", \"operator\": ", quoted(name), ", \"aclnn\": \"",
                   op.name, "\", \"scope\": ", quoted(dump::scope()), ", \"line\": ", quoted(python_line()),
                   ", \"device\": ", int{stream.device_index()}, ", \"stream\": ", stream.id(), ", \"inputs\": [",
                   inputs, "]");
  if (aten) {
    for (const auto& key : aten->tensors) places += (places.empty() ? "" : ", ") + place_of(key, read);
    line_ += c10::str(", \"overload\": ", quoted(aten->overload), ", \"arguments\": [", aten->arguments,
                      "], \"tensors\": [", places, "]");
  }
  session_ = std::move(session);
}

void DumpedLaunch::finish(const std::vector<std::vector<int64_t>>& shapes) {
  if (!session_) return;
  current_stream().synchronize();
  const size_t first = outputs_.size() - std::min(shapes.size(), outputs_.size());
  for (size_t i = 0; session_->options().outputs && i < outputs_.size(); i++) {
    auto& output = outputs_[i];
    if (i >= first && output.sizes != shapes[i - first]) {  // the device packs what it fills
      output.sizes = shapes[i - first];
      output.strides = packed_strides(output.sizes);
    }
    outputs_text_ += (i ? ", " : "") + session_->describe(dump::HostArray(output), c10::str(stem_, "_out", i));
  }
  add_line("");
  session_.reset();
}

void DumpedLaunch::add_line(const std::string& error) {
  session_->append(c10::str(line_, ", \"outputs\": [", outputs_text_, "]", error, "}"));
}

DumpedLaunch::~DumpedLaunch() {
  if (!session_) return;
  try {
    add_line(", \"failed\": true");
  } catch (...) {  // the program hears of the launch that failed
  }
}

}  // namespace npu::ops
