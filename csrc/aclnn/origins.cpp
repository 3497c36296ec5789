#include "aclnn/origins.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <string>
#include <vector>

#include "acl/error_origin.h"
#include "aclnn/survey.h"
#include "dump/element_type.h"
#include "dump/operators.h"
#include "runtime/python_line.h"
#include "runtime/watchers.h"

namespace npu::origins {

namespace {

struct Origin {
  const char* aclnn = nullptr;
  std::string text;                 // for people
  std::vector<std::string> shapes;  // of its tensors, as softnpu's reports have them
};

constexpr size_t kKept = 4096, kShown = 3;
std::mutex g_mutex;
std::vector<Origin> g_ring;
size_t g_next = 0;  // place of the oldest

std::string shape_text(c10::IntArrayRef sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

// As a whole: aclnnAdd is not in aclnnAdds.
bool names(const std::string& words, const std::string& name) {
  for (size_t at = words.find(name); at != std::string::npos; at = words.find(name, at + 1))
    if (at + name.size() == words.size() || !std::isalnum(static_cast<unsigned char>(words[at + name.size()])))
      return true;
  return false;
}

bool has_shapes(const std::string& words, const Origin& origin) {
  size_t at = 0;
  for (const auto& shape : origin.shapes) {
    at = words.find(shape, at);
    if (at == std::string::npos) return false;
    at += shape.size();
  }
  return true;
}

// The newest launches that fit, each text once.
template <class Fits>
std::vector<std::string> newest(Fits&& fits) {
  std::vector<std::string> found;
  for (size_t i = 0; i < g_ring.size() && found.size() < kShown; i++) {
    const auto& origin = g_ring[(g_next + g_ring.size() - 1 - i) % g_ring.size()];
    if (fits(origin) && std::find(found.begin(), found.end(), origin.text) == found.end()) found.push_back(origin.text);
  }
  return found;
}

std::string find(const std::string& words) {
  std::lock_guard lock(g_mutex);
  const auto named = [&](const Origin& origin) { return names(words, origin.aclnn); };
  auto found = newest([&](const Origin& origin) { return named(origin) && has_shapes(words, origin); });
  if (found.empty()) found = newest(named);
  const bool known = !found.empty();
  if (!known) found = newest([](const Origin&) { return true; });
  if (found.empty()) return "";
  return (known ? "It was launched by " : "The report names no launch; the last ones were ") +
         c10::Join(known ? ", or by " : ", ", found);
}

}  // namespace

void keep(bool on) {
  {
    std::lock_guard lock(g_mutex);
    g_ring.clear();
    g_next = 0;
  }
  dump::observe_operators(watchers::origin, on);
  acl::set_find_origin(on ? &find : nullptr);
  watchers::set(watchers::origin, on);
}

void note(const ops::AclOp& op, PhaseOne phase_one, const ops::Packer& packer) {
  const uint64_t written = ops::written_by(op.name);
  Origin origin{op.name, {}, {}};
  std::string inputs, outputs;
  for (const auto& tensor : ops::packed_tensors(phase_one, packer)) {
    const auto shape = shape_text(tensor.words.sizes);
    auto& list = written >> tensor.argument & 1 ? outputs : inputs;
    list += (list.empty() ? "" : ", ") + (dump::element_type(tensor.words.type).name + shape);
    origin.shapes.push_back(shape);
  }
  const auto* aten = dump::innermost();
  const auto scope = dump::scope(), line = python_line();
  origin.text = c10::str(aten ? aten->name : op.name, "(", inputs, ") -> ", outputs, line.empty() ? "" : " at ", line,
                         scope.empty() ? "" : " within ", scope);
  std::lock_guard lock(g_mutex);
  if (g_ring.size() < kKept) return g_ring.push_back(std::move(origin));
  g_ring[g_next] = std::move(origin);
  g_next = (g_next + 1) % kKept;
}

}  // namespace npu::origins
