// What the streams of this process are doing, for tools: no function of CANN's, which tells nobody. On any thread.
#include <cstring>

#include "entry.h"
#include "runtime/stream.h"

// Writes a JSON list into `text` if its `size` suffices; how many bytes there are, without an end, in any case.
extern "C" __attribute__((visibility("default"))) size_t softnpu_describe_streams(char* text, size_t size);

size_t softnpu_describe_streams(char* text, size_t size) {
  std::string list = "[]";
  if (!softnpu::forked()) softnpu::guarded("softnpu_describe_streams", [&] { list = softnpu::describe_streams(); });
  if (text && list.size() <= size) memcpy(text, list.data(), list.size());
  return list.size();
}
