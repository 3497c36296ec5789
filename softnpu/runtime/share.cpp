#include "share.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "capacity.h"
#include "context.h"
#include "error.h"
#include "memory.h"
#include "records.h"
#include "stream.h"

namespace softnpu {

namespace {

constexpr uint64_t kMagic = 0x31657261'68736e73;
constexpr char kPrefix[] = "share-";
constexpr char kKeyPrefix[] = "softnpu-ipc-";
constexpr size_t kMaxAllowed = 64;

struct Note {
  uint64_t magic;
  char record[64];  // of the exporter: alive as long as it is locked
  int32_t pid, fd;
  uint64_t offset, bytes;
  int32_t anyone;
  int32_t allowed_count;
  int32_t allowed[kMaxAllowed];
};

struct Import {
  uintptr_t address;
  size_t bytes;
  int card;
};

struct Imports {
  std::mutex mutex;
  std::map<uint64_t, Import> by_share;
};

// Of this process, by share.
struct Published {
  std::mutex mutex;
  std::map<uint64_t, SharedPages> pages;
};

Published& published() {
  static Published* const p = new Published;
  return *p;
}

Imports& imports() {
  static Imports* const i = new Imports;
  return *i;
}

std::string note_name(uint64_t share) {
  char name[32];
  snprintf(name, sizeof name, "%s%016llx", kPrefix, (unsigned long long)share);
  return name;
}

int shared_folder() {
  if (!records().shared() || records().own_name().empty())
    fail(ACL_ERROR_RT_IPC_ERROR, "processes cannot share memory: no private folder at %s",
         config().record_folder.c_str());
  return records().folder_fd();
}

bool read_note(const char* name, Note* note) {
  const int fd = openat(shared_folder(), name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  const bool whole = read(fd, note, sizeof *note) == sizeof *note && note->magic == kMagic;
  close(fd);
  return whole;
}

void write_note(uint64_t share, const Note& note, int flags) {
  const int fd = openat(shared_folder(), note_name(share).c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  const bool written = fd >= 0 && write(fd, &note, sizeof note) == sizeof note;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!written) fail(ACL_ERROR_RT_IPC_ERROR, "cannot write the note on shared memory: %s", strerror(error));
}

void remove_stale_notes() {
  const int copy = openat(shared_folder(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* folder = copy < 0 ? nullptr : fdopendir(copy);
  if (!folder) return;
  while (const dirent* item = readdir(folder)) {
    Note note;
    if (strncmp(item->d_name, kPrefix, sizeof kPrefix - 1) == 0 && read_note(item->d_name, &note) &&
        !records().is_live(note.record))
      unlinkat(shared_folder(), item->d_name, 0);
  }
  closedir(folder);
}

Note checked_note(uint64_t share) {
  Note note;
  if (!read_note(note_name(share).c_str(), &note))
    fail(ACL_ERROR_RT_IPC_ERROR, "no process of this user shares anything under this key");
  if (!records().is_live(note.record))
    fail(ACL_ERROR_RT_IPC_ERROR, "process %d, which shared this, has ended", note.pid);
  return note;
}

}  // namespace

uint64_t publish(const SharedPages& pages, bool anyone) {
  remove_stale_notes();
  Note note = {};
  note.magic = kMagic;
  snprintf(note.record, sizeof note.record, "%s", records().own_name().c_str());
  note.pid = getpid();
  note.fd = pages.fd;
  note.offset = pages.offset;
  note.bytes = pages.bytes;
  note.anyone = anyone;
  uint64_t share = 0;
  if (getrandom(&share, sizeof share, 0) != sizeof share)
    fail(ACL_ERROR_RT_IPC_ERROR, "getrandom: %s", strerror(errno));
  write_note(share, note, O_CREAT | O_EXCL);
  std::lock_guard<std::mutex> lock(published().mutex);
  published().pages[share] = pages;
  return share;
}

bool is_published(int fd, size_t offset, size_t bytes) {
  std::lock_guard<std::mutex> lock(published().mutex);
  for (const auto& [share, pages] : published().pages)
    if (pages.fd == fd && pages.offset < offset + bytes && offset < pages.offset + pages.bytes) return true;
  return false;
}

void allow(uint64_t share, const int32_t* pids, size_t count) {
  Note note = checked_note(share);
  if (note.pid != getpid()) fail(ACL_ERROR_RT_PARAM_INVALID, "only the exporting process may name importers");
  for (size_t i = 0; i < count; ++i) {
    if (note.allowed_count == static_cast<int32_t>(kMaxAllowed))
      fail(ACL_ERROR_RT_OVER_LIMIT, "more than %zu importing processes", kMaxAllowed);
    note.allowed[note.allowed_count++] = pids[i];
  }
  write_note(share, note, 0);
}

void unpublish(uint64_t share) noexcept {
  {
    std::lock_guard<std::mutex> lock(published().mutex);
    published().pages.erase(share);
  }
  if (records().shared()) unlinkat(records().folder_fd(), note_name(share).c_str(), 0);
}

SharedPages open_share(uint64_t share) {
  const Note note = checked_note(share);
  bool allowed = note.anyone || note.pid == getpid();
  for (int i = 0; i < note.allowed_count; ++i) allowed |= note.allowed[i] == getpid();
  if (!allowed) fail(ACL_ERROR_RT_NO_PERMISSION, "process %d has not been named as importer of this memory", getpid());
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", note.pid, note.fd);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) fail(ACL_ERROR_RT_IPC_ERROR, "cannot open what process %d shares: %s", note.pid, strerror(errno));
  return {fd, note.offset, note.bytes};
}

std::string export_memory(void* address, size_t bytes, bool anyone) {
  check_allocated(address, bytes, -1, "devPtr");
  Region region;
  find_region(address, &region);
  if (region.kind != RegionKind::plain)
    fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "devPtr was mapped with aclrtMapMem; share its physical handle instead");
  const size_t inside = reinterpret_cast<uintptr_t>(address) - region.begin;
  if (inside % 4096 != 0) fail(ACL_ERROR_RT_ADDR_UNALIGNED, "devPtr %p is not at the start of a page", address);
  char key[64];
  const uint64_t share = publish({card_file(region.card), file_offset(region) + inside, bytes}, anyone);
  snprintf(key, sizeof key, "%s%016llx", kKeyPrefix, (unsigned long long)share);
  return key;
}

uint64_t share_of_key(const char* key) {
  unsigned long long share = 0;
  int length = 0;
  const size_t prefix = sizeof kKeyPrefix - 1;
  if (strnlen(key, 65) != prefix + 16 || strncmp(key, kKeyPrefix, prefix) != 0 ||
      sscanf(key + prefix, "%16llx%n", &share, &length) != 1 || length != 16)
    fail(ACL_ERROR_RT_PARAM_INVALID, "key is not one that aclrtIpcMemGetExportKey gives");
  return share;
}

void* import_memory(const char* key) {
  const uint64_t share = share_of_key(key);
  const int card = current_context().card;
  std::lock_guard<std::mutex> lock(imports().mutex);
  if (imports().by_share.count(share)) fail(ACL_ERROR_RT_PARAM_INVALID, "this key is already imported");
  const SharedPages pages = open_share(share);
  uintptr_t address = 0;
  try {
    address = reserve_addresses(card, pages.bytes, size_t{2} << 20);
    map_pages(card, address, pages.bytes, pages.fd, pages.offset);
  } catch (...) {
    if (address) release_addresses(card, address, pages.bytes);
    close(pages.fd);
    throw;
  }
  close(pages.fd);  // the mapping keeps the memory
  imports().by_share[share] = {address, pages.bytes, card};
  return reinterpret_cast<void*>(address);
}

void close_memory(const char* key) {
  const uint64_t share = share_of_key(key);
  Import import;
  {
    std::lock_guard<std::mutex> lock(imports().mutex);
    const auto it = imports().by_share.find(share);
    if (it == imports().by_share.end()) {
      if (checked_note(share).pid != getpid()) fail(ACL_ERROR_RT_PARAM_INVALID, "this key is not imported here");
      unpublish(share);
      return;
    }
    import = it->second;
    imports().by_share.erase(it);
  }
  wait_for_card(import.card);
  unmap_pages(import.address, import.bytes);
  release_addresses(import.card, import.address, import.bytes);
}

}  // namespace softnpu
