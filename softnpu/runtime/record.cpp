#include "record.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <unordered_set>

#include "config.h"

namespace softnpu {

namespace {

std::mutex g_mutex;
std::atomic<int> g_threads{0};

struct Line {
  int depth = 0;  // of calls
  int thread = ++g_threads;
  std::string arguments, form;
};

Line& line() {
  static thread_local Line l;
  return l;
}

// At once, and a line in one piece: processes share the file and end in all ways.
void write(const std::string& text) {
  static const int file = open(record_file(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file >= 0 && ::write(file, text.data(), text.size()) < 0) g_recording = false;  // no room: the program goes on
}

bool is_new(const std::string& form) {
  static auto& seen = *new std::unordered_set<std::string>;
  const std::lock_guard lock(g_mutex);
  return seen.insert(form).second;
}

}  // namespace

bool g_recording = record_file() != nullptr;

RecordedCall::RecordedCall(const char* entry) noexcept : entry_(entry) {
  if (line().depth++ == 0) line().arguments.clear(), line().form.clear();
}

int RecordedCall::end(int code) const noexcept {
  static const bool once = record_once();
  Line& l = line();
  if (--l.depth == 0 && !(once && (l.form.empty() || !is_new(entry_ + l.form + (code ? '!' : ' ')))))
    write(std::string("{\"f\":\"") + entry_ + "\",\"a\":[" + l.arguments + "],\"rc\":" + std::to_string(code) +
          ",\"thread\":" + std::to_string(l.thread) + "}\n");
  return code;
}

void note_json(const char* name, const std::string& json, const std::string& form) noexcept {
  Line& l = line();
  if (l.depth != 1) return;
  l.form += form;
  if (!l.arguments.empty()) l.arguments += ',';
  l.arguments += std::string("[\"") + name + "\"," + json + "]";
}

void note_bytes(const char* name, const void* bytes, size_t count) noexcept {
  if (!recording()) return;
  std::string digits;
  for (size_t i = 0; i < count; i++) {
    char two[3];
    snprintf(two, sizeof two, "%02x", static_cast<const unsigned char*>(bytes)[i]);
    digits += two;
  }
  note_json(name, "\"" + digits + "\"");
}

}  // namespace softnpu

void softnpu_record(const char* mark) {
  softnpu::g_recording = mark && softnpu::record_file();
  if (softnpu::g_recording) softnpu::write(std::string("{\"mark\":\"") + mark + "\"}\n");
}
