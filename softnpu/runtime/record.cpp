#include "record.h"

#include <atomic>
#include <cstdio>
#include <mutex>

#include "config.h"

namespace softnpu {

namespace {

std::mutex g_mutex;
FILE* g_file = nullptr;
std::atomic<int> g_threads{0};

struct Line {
  int depth = 0;  // of calls
  int thread = ++g_threads;
  std::string arguments;
};

Line& line() {
  static thread_local Line l;
  return l;
}

void write(const std::string& text) {
  const std::lock_guard lock(g_mutex);
  if (!g_file) g_file = fopen(record_file(), "ae");
  if (!g_file) return;
  fwrite(text.data(), 1, text.size(), g_file);
  fflush(g_file);  // processes end in all ways
}

}  // namespace

bool g_recording = record_file() != nullptr;

RecordedCall::RecordedCall(const char* entry) noexcept : entry_(entry) {
  if (line().depth++ == 0) line().arguments.clear();
}

int RecordedCall::end(int code) const noexcept {
  Line& l = line();
  if (--l.depth == 0)
    write(std::string("{\"f\":\"") + entry_ + "\",\"a\":[" + l.arguments + "],\"rc\":" + std::to_string(code) +
          ",\"thread\":" + std::to_string(l.thread) + "}\n");
  return code;
}

void note_json(const char* name, const std::string& json) noexcept {
  Line& l = line();
  if (l.depth != 1) return;
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
