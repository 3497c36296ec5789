// Card memory between processes of one user. The exporter leaves a note in the private folder (records.h) that says
// which pages of which of its descriptors; the importer opens that descriptor through /proc. A note whose process is
// gone, or that does not name the importer, is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace softnpu {

struct SharedPages {
  int fd;
  size_t offset;
  size_t bytes;
};

// Publishes pages of this process; `anyone`: the importer need not be named with allow().
uint64_t publish(const SharedPages& pages, bool anyone);
void allow(uint64_t share, const int32_t* pids, size_t count);
void unpublish(uint64_t share) noexcept;
bool is_published(int fd, size_t offset, size_t bytes);  // whether a share of this process overlaps the range

// Pages another process (or this one) published, with a new descriptor. Throws Failure(507022).
SharedPages open_share(uint64_t share);

// ---- aclrtIpcMem*: device memory under a key ----
std::string export_memory(void* address, size_t bytes, bool anyone);
uint64_t share_of_key(const char* key);  // throws Failure(107000)
void* import_memory(const char* key);
void close_memory(const char* key);  // by the importer: unmaps; by the exporter: withdraws the key

}  // namespace softnpu
