// Serialising operator arguments and building ACL objects from the words again. See Note [Packed calls] in pack.h.
#include "aclnn/pack.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <memory>
#include <vector>

#include "acl/check.h"
#include "acl/library.h"
#include "aclnn/stored.h"
#include "aclnn/words.h"
#include "runtime/storage_format.h"

namespace npu::ops {

namespace {

// What a tensor of this rank is called: kernels for images and sequences look at the name. Others are ND.
constexpr aclFormat plain_format(uint64_t dim) {
  constexpr aclFormat kNames[] = {ACL_FORMAT_NCL, ACL_FORMAT_NCHW, ACL_FORMAT_NCDHW};
  return dim >= 3 && dim <= 5 ? kNames[dim - 3] : ACL_FORMAT_ND;
}

constexpr uint64_t kAddressBits = (uint64_t{1} << 48) - 1;  // of word 0, see Note [Word 0] in executor.cpp

int destroy_tensor(const void* t) { return acl::api().aclDestroyTensor(static_cast<const aclTensor*>(t)); }
int destroy_tensor_list(const void* t) { return acl::api().aclDestroyTensorList(static_cast<const aclTensorList*>(t)); }
int destroy_scalar(const void* t) { return acl::api().aclDestroyScalar(static_cast<const aclScalar*>(t)); }
int destroy_scalar_list(const void* t) { return acl::api().aclDestroyScalarList(static_cast<const aclScalarList*>(t)); }
int destroy_ints(const void* t) { return acl::api().aclDestroyIntArray(static_cast<const aclIntArray*>(t)); }
int destroy_bools(const void* t) { return acl::api().aclDestroyBoolArray(static_cast<const aclBoolArray*>(t)); }

}  // namespace

void Packer::add(const at::Tensor& t) {
  if (!t.defined()) return add_null();
  if (t.scalar_type() == at::ScalarType::Float4_e2m1fn_x2) return add_stored(*this, t, ACL_FLOAT4_E2M1);
  const auto where = t.device();
  if (device < 0 && where.is_privateuseone()) device = where.index();
  TORCH_CHECK(where.is_privateuseone() && where.index() == device,
              "Expected all tensors to be on the same device, but found at least "
              "two devices, npu:",
              int(device < 0 ? 0 : device), " and ", where, "!");
  const auto* impl = t.unsafeGetTensorImpl();
  const auto sizes = impl->sizes(), strides = impl->strides();
  const size_t dim = sizes.size();
  const size_t at = words.size();
  words.resize_for_overwrite(at + 3 + 2 * dim);
  uint64_t* w = words.data() + at;
  const auto type = static_cast<uint64_t>(acl_type(t.scalar_type()));
  w[0] = kTensor | type << 8 | dim << 16;
  const uint64_t empty = impl->numel() == 0 ? 64 : 0;  // no kernel sees its type
  words[0] = (words[0] & kAddressBits) | (((words[0] >> 48) * 41 + type + empty) & 0xffff) << 48;
  for (size_t d = 0; d < dim; d++) {  // few, so that calls of memcpy would take longer
    w[1 + d] = sizes[d];
    w[1 + dim + d] = strides[d];
  }
  w[1 + 2 * dim] = impl->storage_offset();
  const auto& storage = impl->unsafe_storage();
  w[2 + 2 * dim] = storage.nbytes();
  addresses.push_back(const_cast<void*>(storage.data()));
  if (C10_UNLIKELY(!storage.resizable())) note_format(t, at);
}

void Packer::note_format(const at::Tensor& t, size_t word) {
  if (!formats::layout_of(t)) return;
  if (!formatted) formatted = std::make_unique<std::vector<FormattedArgument>>();
  formatted->push_back({word, addresses.size() - 1, t});
}

void Packer::describe(size_t word, aclFormat format, c10::IntArrayRef stored) {
  uint64_t* head = words.data() + word;
  const uint64_t dim = *head >> 16;
  *head |= static_cast<uint64_t>(format) << 32 | static_cast<uint64_t>(stored.size()) << 48;
  words.insert(words.begin() + static_cast<int64_t>(word + 3 + 2 * dim), stored.begin(), stored.end());
}

void Packer::rename(const void* op) { words[0] = (words[0] & ~kAddressBits) | reinterpret_cast<uint64_t>(op); }

void add_stored(Packer& packer, const at::Tensor& t, aclDataType type) {
  if (!t.defined()) return packer.add_null();
  const size_t at = packer.words.size();
  packer.add(t.scalar_type() == at::ScalarType::Float4_e2m1fn_x2 ? t.view(at::kByte) : t);
  uint64_t* w = packer.words.data() + at;
  w[0] = (w[0] & ~(uint64_t{0xff} << 8)) | static_cast<uint64_t>(type) << 8;
  if (!in_pairs(type)) return;
  // Two numbers a byte: the descriptor counts numbers, which are neighbours where the bytes are.
  const int64_t dim = t.dim();
  int64_t along = dim - 1;
  while (along > 0 && t.stride(along) != 1) along--;
  TORCH_CHECK(dim > 0 && t.stride(along) == 1,
              "numbers of four bits must lie side by side in some dimension; call contiguous() first");
  for (int64_t d = 0; d < dim; d++) w[d == along ? 1 + d : 1 + dim + d] *= 2;
  w[1 + 2 * dim] *= 2;
  w[2 + 2 * dim] *= 2;
}

void add_stored(Packer& packer, const StoredList& list) {
  if (list.is_absent) return packer.add_null();
  if (!list.type) return packer.add_list(at::ITensorListRef(list.tensors));
  packer.words.push_back(kTensorList | list.tensors.size() << 8);
  for (const auto& t : list.tensors) add_stored(packer, t, *list.type);
}

void Packer::add_list(at::ITensorListRef list) {
  words.push_back(kTensorList | list.size() << 8);
  for (const auto& t : list) add(t);
}

void Packer::add_list(c10::ArrayRef<std::optional<at::Tensor>> list) {
  words.push_back(kTensorList | list.size() << 8);
  for (const auto& t : list) add(t);
}

void Packer::add_list(const c10::List<std::optional<at::Tensor>>& list) {
  words.push_back(kTensorList | list.size() << 8);
  for (const std::optional<at::Tensor> t : list) add(t);
}

void Packer::add_list(at::IOptTensorListRef list) {
  words.push_back(kTensorList | list.size() << 8);
  for (const auto& t : list) add(t);
}

void Packer::add(const c10::Scalar& s) {
  uint64_t value[2] = {0, 0};
  aclDataType dtype;
  if (s.isComplex()) {
    const auto c = s.toComplexDouble();
    memcpy(value, &c, 16);
    dtype = ACL_COMPLEX128;
  } else if (s.isFloatingPoint()) {
    const double d = s.toDouble();
    memcpy(value, &d, 8);
    dtype = ACL_DOUBLE;
  } else if (s.isBoolean()) {
    value[0] = s.toBool();
    dtype = ACL_BOOL;
  } else if (s.type() == at::ScalarType::UInt64) {
    value[0] = s.toUInt64();
    dtype = ACL_UINT64;
  } else {
    value[0] = static_cast<uint64_t>(s.toLong());
    dtype = ACL_INT64;
  }
  words.append({kScalar | static_cast<uint64_t>(dtype) << 8, value[0], value[1]});
}

void Packer::add(c10::ArrayRef<c10::Scalar> scalars) {
  words.push_back(kScalarList | scalars.size() << 8);
  for (const auto& s : scalars) add(s);
}

void Packer::add(c10::IntArrayRef ints) {
  words.push_back(kInts | ints.size() << 8);
  words.append(ints.begin(), ints.end());
}

void Packer::add_bools(c10::ArrayRef<bool> bools) {
  words.push_back(kBools | bools.size() << 8);
  words.append(bools.begin(), bools.end());
}

void Packer::add(std::string_view text) {
  words.push_back(kText | text.size() << 8);
  const size_t at = words.size();
  words.resize(at + text.size() / 8 + 1);  // zero padded, and NUL-terminated
  memcpy(words.data() + at, text.data(), text.size());
}

Unpacker::~Unpacker() {
  for (auto& [object, destroy] : owned_) destroy(object);
}

const aclTensor* Unpacker::tensor() {
  const TensorWords t(word_);
  word_ = t.end;
  if (!t.present || starts_) return nullptr;
  static constexpr uint8_t kItem[] = {4, 2, 1, 4, 1, 1, 2, 2, 4, 8, 8, 8, 1};
  int64_t item = 1;
  if (t.type <= ACL_BOOL)
    item = kItem[t.type];
  else if (t.type == ACL_BF16)
    item = 2;
  else if (t.type == ACL_COMPLEX32)
    item = 4;
  else if (t.type == ACL_COMPLEX64)
    item = 8;
  else if (t.type == ACL_COMPLEX128)
    item = 16;
  const auto storage = static_cast<int64_t>(t.storage_bytes) / item;
  const bool in_blocks = !t.stored.empty();
  const auto format = in_blocks ? t.format : plain_format(t.sizes.size());
  auto* made =
      acl::api().aclCreateTensor(t.sizes.data(), t.sizes.size(), t.type, t.strides.data(), t.offset, format,
                                 in_blocks ? t.stored.data() : &storage, in_blocks ? t.stored.size() : 1, *address_++);
  TORCH_CHECK(made, "aclCreateTensor failed: ", acl::api().aclGetRecentErrMsg());
  return made;
}

template <>
const aclTensor* Unpacker::take() {
  if (starts_) starts_->push_back(word_);
  auto* t = tensor();
  if (t) owned_.emplace_back(t, destroy_tensor);
  return t;
}

template <>
const aclTensorList* Unpacker::take() {
  if (starts_) starts_->push_back(word_);
  const uint64_t head = *word_++;
  if (head == 0) return nullptr;
  c10::SmallVector<const aclTensor*, 16> tensors;
  for (uint64_t i = 0; i < head >> 8; i++) tensors.push_back(tensor());
  if (starts_) return nullptr;
  auto* list = acl::api().aclCreateTensorList(tensors.data(), tensors.size());
  owned_.emplace_back(list, destroy_tensor_list);  // a list owns its elements
  return list;
}

std::vector<std::vector<int64_t>> Unpacker::view_shapes(int count) const {
  std::vector<std::vector<int64_t>> shapes;
  for (auto it = owned_.rbegin(); it != owned_.rend() && count > 0; ++it) {
    if (it->second != destroy_tensor) continue;
    int64_t* sizes = nullptr;
    uint64_t dim = 0;
    NPU_CHECK(acl::api().aclGetViewShape(static_cast<const aclTensor*>(it->first), &sizes, &dim));
    shapes.emplace(shapes.begin(), sizes, sizes + dim);
    delete[] sizes;  // made with new[] by the provider
    count--;
  }
  return shapes;
}

namespace {
aclScalar* create_scalar(const uint64_t*& word) {
  const auto dtype = static_cast<aclDataType>(*word >> 8);
  auto* s = acl::api().aclCreateScalar(const_cast<uint64_t*>(word + 1), dtype);
  word += 3;
  return s;
}
}  // namespace

template <>
const aclScalar* Unpacker::take() {
  if (*word_ == 0) return word_++, nullptr;
  auto* s = create_scalar(word_);
  owned_.emplace_back(s, destroy_scalar);
  return s;
}

template <>
const aclScalarList* Unpacker::take() {
  const uint64_t head = *word_++;
  if (head == 0) return nullptr;
  c10::SmallVector<const aclScalar*, 16> scalars;
  for (uint64_t i = 0; i < head >> 8; i++) scalars.push_back(create_scalar(word_));
  auto* list = acl::api().aclCreateScalarList(scalars.data(), scalars.size());
  owned_.emplace_back(list, destroy_scalar_list);
  return list;
}

template <>
const aclIntArray* Unpacker::take() {
  const uint64_t head = *word_++;
  if (head == 0) return nullptr;
  auto* a = acl::api().aclCreateIntArray(reinterpret_cast<const int64_t*>(word_), head >> 8);
  word_ += head >> 8;
  owned_.emplace_back(a, destroy_ints);
  return a;
}

template <>
const aclBoolArray* Unpacker::take() {
  const uint64_t head = *word_++;
  if (head == 0) return nullptr;
  const uint64_t count = head >> 8;
  const auto values = std::make_unique<bool[]>(count);
  for (uint64_t i = 0; i < count; i++) values[i] = *word_++ != 0;
  auto* a = acl::api().aclCreateBoolArray(values.get(), count);
  owned_.emplace_back(a, destroy_bools);
  return a;
}

template <>
const char* Unpacker::take() {
  const uint64_t head = *word_++;
  if (head == 0) return nullptr;
  const auto* text = reinterpret_cast<const char*>(word_);
  word_ += (head >> 8) / 8 + 1;
  return text;
}

template <>
int64_t Unpacker::take() {
  return static_cast<int64_t>(*word_++);
}
template <>
uint64_t Unpacker::take() {
  return *word_++;
}
template <>
int32_t Unpacker::take() {
  return static_cast<int32_t>(*word_++);
}
template <>
int8_t Unpacker::take() {
  return static_cast<int8_t>(*word_++);
}
template <>
bool Unpacker::take() {
  return *word_++ != 0;
}
template <>
double Unpacker::take() {
  double d;
  memcpy(&d, word_++, 8);
  return d;
}
template <>
float Unpacker::take() {
  return static_cast<float>(take<double>());
}
template <>
aclDataType Unpacker::take() {
  return static_cast<aclDataType>(*word_++);
}

}  // namespace npu::ops
