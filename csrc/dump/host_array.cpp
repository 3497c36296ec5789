#include "dump/host_array.h"

#include <c10/util/StringUtil.h>
#include <c10/util/accumulate.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "acl/check.h"
#include "acl/library.h"

namespace npu::dump {

namespace {

std::unique_ptr<char[]> read_card(const char* from, size_t bytes) {
  auto host = std::unique_ptr<char[]>(new char[bytes]);  // not cleared
  if (bytes) NPU_CHECK(acl::api().aclrtMemcpy(host.get(), bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  return host;
}

// Elements of `item` bytes in the order of `sizes`; strides and the result's place are in bytes.
char* gather(const char* from, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t item, char* to) {
  if (sizes.empty()) return static_cast<char*>(memcpy(to, from, item)) + item;
  if (sizes.size() == 1 && strides[0] == 1)
    return static_cast<char*>(memcpy(to, from, item * sizes[0])) + item * sizes[0];
  for (int64_t i = 0; i < sizes[0]; i++)
    to = gather(from + i * strides[0] * item, sizes.slice(1), strides.slice(1), item, to);
  return to;
}

std::string header(const char* numpy, c10::IntArrayRef sizes) {
  std::string shape;
  for (const int64_t size : sizes) shape += c10::str(size, ", ");
  std::string text = c10::str("{'descr': '", numpy, "', 'fortran_order': False, 'shape': (", shape, "), }");
  text.append(63 - (10 + text.size()) % 64, ' ');  // the data begins at a multiple of 64
  text += '\n';
  const char size[2] = {static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return std::string("\x93NUMPY\x01\x00", 8) + std::string(size, 2) + text;
}

bool write_all(int file, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(file, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

HostArray::HostArray(const DeviceArray& from) : type_(&element_type(from.type)), sizes_(from.sizes) {
  const auto item = static_cast<int64_t>(type_->bytes);
  const auto* storage = static_cast<const char*>(from.storage);
  if (item == 0) {
    sizes_ = {static_cast<int64_t>(from.storage_bytes)};
    count_ = from.storage_bytes;
    data_ = read_card(storage, count_);
    return;
  }
  count_ = static_cast<size_t>(c10::multiply_integers(sizes_));
  int64_t span = count_ ? 1 : 0;
  for (size_t d = 0; d < sizes_.size() && count_; d++) span += (sizes_[d] - 1) * from.strides[d];
  const auto used = read_card(storage + from.offset * item, span * item);
  data_.reset(new char[count_ * item]);
  if (count_) gather(used.get(), sizes_, from.strides, item, data_.get());
  if (!type_->widen) return;
  auto wide = std::unique_ptr<char[]>(new char[bytes()]);
  type_->widen(data_.get(), count_, wide.get());
  data_ = std::move(wide);
}

int HostArray::save(const std::string& path) const {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
  if (file < 0) return errno;
  const auto head = header(type_->numpy, sizes_);
  int error = write_all(file, head.data(), head.size()) && write_all(file, data_.get(), bytes()) ? 0 : errno;
  if (::close(file) != 0 && !error) error = errno;
  if (error) ::unlink(path.c_str());
  return error;
}

}  // namespace npu::dump
