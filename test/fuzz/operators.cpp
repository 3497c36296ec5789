// Both phases of operators: tensors of one family of shapes and types, now and then another, so that many calls get
// past the checks; and executors that are used twice, destroyed or made up.
#include <cstring>

#include "steps.h"

namespace fuzz {

namespace {

constexpr aclDataType kTypes[] = {ACL_FLOAT,     ACL_FLOAT16, ACL_BF16,   ACL_DOUBLE, ACL_INT8,
                                  ACL_INT16,     ACL_INT32,   ACL_INT64,  ACL_UINT8,  ACL_BOOL,
                                  ACL_COMPLEX64, ACL_UINT64,  ACL_UINT16, ACL_INT4,   static_cast<aclDataType>(77)};

class Call {
 public:
  Call(Values& values) : values_(values), random_(values.random) {
    rank_ = random_.below(6);
    // One size for all dimensions is what factorisations want, and what windows of 1 leave.
    const bool cube = random_.one_in(3);
    for (int64_t& size : sizes_)
      size = cube && &size != sizes_ ? sizes_[0] : 1 + static_cast<int64_t>(random_.below(random_.one_in(8) ? 40 : 5));
    type_ = random_.one_in(3) ? random_.one_of(kTypes) : ACL_FLOAT;
  }
  ~Call() {
    for (auto& [destroy, object] : made_) destroy(reinterpret_cast<void*>(object));
  }
  Call(const Call&) = delete;

  Arguments phase_one(const Target& target) {
    Arguments a;
    for (const Parameter& p : target.parameters) add(a, p);
    a.add(&workspace_size_), a.add(&executor_);
    if (random_.one_in(50)) a.integers[a.integer_count - 1 - random_.below(2)] = 0;
    return a;
  }

  aclOpExecutor* executor() const { return executor_; }
  const std::string& tensors() const { return tensors_; }  // for the journal

  Arguments phase_two(aclOpExecutor* executor) {
    Arguments a;
    const bool wrong = random_.one_in(15);
    a.add(wrong ? values_.foreign(Kind::memory) : reinterpret_cast<uint64_t>(values_.block()));
    a.add(wrong ? values_.bytes() : workspace_size_);
    a.add(executor);
    a.add(random_.one_in(2) ? 0 : values_.handle(Kind::stream));
    return a;
  }

 private:
  template <class T>
  uint64_t keep(T* object, int (*destroy)(const T*), Kind kind) {
    if (!object) return 0;
    values_.pool().put(kind, reinterpret_cast<uint64_t>(object));
    // Some live on, so that other calls and threads meet them.
    if (!random_.one_in(16))
      made_.emplace_back(reinterpret_cast<int (*)(void*)>(destroy), reinterpret_cast<uint64_t>(object));
    return reinterpret_cast<uint64_t>(object);
  }

  // Small numbers; among whole ones, which may be indices, also absurd ones.
  void fill(void* at, size_t elements, aclDataType type) {
    char bytes[4096] = {};
    const size_t item = type == ACL_INT64 || type == ACL_DOUBLE ? 8 : type == ACL_FLOAT || type == ACL_INT32 ? 4 : 0;
    if (item == 0 || elements * item > sizeof bytes) return;
    const bool absurd = random_.one_in(4);
    for (size_t i = 0; i < elements; i++) {
      const int small = static_cast<int>(random_.below(4));
      const float number = static_cast<float>(small) / 2 - 0.5f;
      const double wide = number;
      const int64_t whole = absurd ? values_.integer() : small;
      memcpy(bytes + i * item,
             type == ACL_FLOAT    ? static_cast<const void*>(&number)
             : type == ACL_DOUBLE ? static_cast<const void*>(&wide)
                                  : &whole,
             item);
    }
    ACL(aclrtMemcpy)(at, elements * item, bytes, elements * item, ACL_MEMCPY_HOST_TO_DEVICE);
  }

  // The family's, or what an argument of that name has as a rule.
  aclDataType type_for(const std::string& name) {
    if (random_.one_in(6)) return random_.one_of(kTypes);
    for (const char* part : {"ind", "pivots", "offset", "target", "sorter", "repeats", "bag", "batch_sizes"})
      if (name.find(part) != std::string::npos) return random_.one_in(4) ? ACL_INT32 : ACL_INT64;
    return name.find("mask") != std::string::npos ? ACL_BOOL : type_;
  }

  aclTensor* make_tensor(const std::string& name) {
    int64_t sizes[8], strides[8], elements = 1;
    uint64_t rank = rank_;
    if (random_.one_in(6)) rank = random_.below(7);
    for (uint64_t i = 0; i < rank; i++) {
      sizes[i] = sizes_[i];
      if (random_.one_in(10)) sizes[i] = static_cast<int64_t>(random_.below(4));
    }
    for (uint64_t i = rank; i-- > 0;) strides[i] = elements, elements *= std::max<int64_t>(sizes[i], 1);
    int64_t storage = elements, offset = 0;
    const aclDataType type = type_for(name);
    char* data = static_cast<char*>(values_.block()) + 64 * random_.below(kCard / 64 / 2);
    if (storage < 500 && random_.one_in(2)) fill(data, storage, type);
    if (rank > 0 && random_.one_in(30)) sizes[random_.below(rank)] = values_.integer();
    if (rank > 0 && random_.one_in(20)) strides[random_.below(rank)] = values_.integer();
    if (random_.one_in(40)) storage = values_.integer();
    if (random_.one_in(40)) offset = values_.integer();
    if (random_.one_in(40)) data = reinterpret_cast<char*>(values_.foreign(Kind::memory));
    aclTensor* tensor = ACL(aclCreateTensor)(sizes, rank, type, random_.one_in(20) ? nullptr : strides, offset,
                                             ACL_FORMAT_ND, &storage, 1, data);
    describe(name, type, sizes, strides, rank, offset);
    return tensor;
  }

  void describe(const std::string& name, aclDataType type, const int64_t* sizes, const int64_t* strides, uint64_t rank,
                int64_t offset) {
    const auto list = [&](const int64_t* numbers) {
      tensors_ += '[';
      for (uint64_t i = 0; i < rank; i++) tensors_ += (i ? "," : "") + std::to_string(numbers[i]);
      tensors_ += ']';
    };
    tensors_ += "\n    " + name + ": type " + std::to_string(type) + " sizes ";
    list(sizes);
    tensors_ += " strides ";
    list(strides);
    if (offset) tensors_ += " offset " + std::to_string(offset);
  }

  aclScalar* make_scalar() {
    constexpr aclDataType kScalars[] = {ACL_DOUBLE, ACL_FLOAT, ACL_INT64, ACL_BOOL, ACL_COMPLEX64};
    char bytes[16] = {};
    const aclDataType type = random_.one_of(kScalars);
    const double number = values_.real();
    const float narrow = static_cast<float>(number);
    const int64_t whole = values_.integer();
    if (type == ACL_DOUBLE) memcpy(bytes, &number, 8);
    if (type == ACL_FLOAT || type == ACL_COMPLEX64) memcpy(bytes, &narrow, 4);
    if (type == ACL_INT64) memcpy(bytes, &whole, 8);
    return ACL(aclCreateScalar)(bytes, type);
  }

  uint64_t object(const std::string& type, const std::string& name, uint64_t length) {
    if (type == "Tensor") return keep<aclTensor>(make_tensor(name), ACL(aclDestroyTensor), Kind::tensor);
    if (type == "Scalar") return keep<aclScalar>(make_scalar(), ACL(aclDestroyScalar), Kind::scalar);
    if (type == "int[]") {
      int64_t numbers[8];
      const int64_t usual = random_.one_in(2) ? 1 : sizes_[0];
      const bool uniform = random_.one_in(3);  // a window of 1, or the size that there is
      for (int64_t& number : numbers)
        number = uniform ? usual : random_.one_in(3) ? values_.integer() : 1 + static_cast<int64_t>(random_.below(3));
      return keep<aclIntArray>(ACL(aclCreateIntArray)(numbers, length), ACL(aclDestroyIntArray), Kind::ints);
    }
    if (type == "bool[]") {
      const bool flags[8] = {true, true, false, true, true, false, true, true};
      return keep<aclBoolArray>(ACL(aclCreateBoolArray)(flags, length), ACL(aclDestroyBoolArray), Kind::bools);
    }
    if (type == "Tensor[]") {
      const aclTensor* tensors[8] = {};
      for (uint64_t i = 0; i < length; i++)
        tensors[i] =
            random_.one_in(30) ? reinterpret_cast<aclTensor*>(values_.handle(Kind::tensor)) : make_tensor(name);
      return keep<aclTensorList>(ACL(aclCreateTensorList)(tensors, length), ACL(aclDestroyTensorList), Kind::tensors);
    }
    const aclScalar* scalars[8] = {};
    for (uint64_t i = 0; i < length; i++) scalars[i] = make_scalar();
    return keep<aclScalarList>(ACL(aclCreateScalarList)(scalars, length), ACL(aclDestroyScalarList), Kind::scalars);
  }

  void add(Arguments& a, const Parameter& p) {
    std::string type = p.type;
    if (type.back() == '!') type.pop_back();
    const bool optional = type.back() == '?';
    if (optional) type.pop_back();
    if (type == "double" || type == "float") {
      double number = values_.real();
      const float narrow = static_cast<float>(number);
      if (type == "float") memcpy(&number, &narrow, sizeof narrow);
      return a.add_real(number);
    }
    if (type == "bool") return a.add(random_.below(2));
    if (type == "dtype") return a.add(random_.one_of(kTypes));
    if (type == "str") {
      constexpr const char* kWords[] = {"none", "mean", "sum", "bilinear", "ij,jk->ik", "", "BSND", "TND", "rint"};
      return a.add(random_.one_in(10) ? nullptr : random_.one_of(kWords));
    }
    if (type.find("int") == 0 && type.back() != ']') return a.add(static_cast<uint64_t>(values_.integer()));
    if (type == "uint64") return a.add(static_cast<uint64_t>(values_.integer()));
    if (optional && random_.one_in(2)) return a.add(uint64_t{0});
    const bool list = type.back() == ']';
    if (random_.one_in(25)) return a.add(values_.foreign(list ? Kind::ints : Kind::tensor));
    if (random_.one_in(25)) return a.add(uint64_t{0});
    a.add(object(type, p.name,
                 list ? (random_.one_in(3) ? random_.below(8)
                         : rank_ > 3       ? rank_ - 2
                                           : 1 + random_.below(3))
                      : 0));
  }

  Values& values_;
  Random& random_;
  uint64_t rank_;
  int64_t sizes_[8] = {1};
  aclDataType type_;
  std::string tensors_;
  uint64_t workspace_size_ = 0;
  aclOpExecutor* executor_ = nullptr;
  std::vector<std::pair<int (*)(void*), uint64_t>> made_;
};

}  // namespace

void call_operator(const Target& target, Values& values, Journal& journal) {
  Random& random = values.random;
  Call call(values);
  const std::string name = target.name + "GetWorkspaceSize";
  const Arguments arguments = call.phase_one(target);
  const bool planned = static_cast<int>(make_call(name.c_str(), target.one, arguments, journal, call.tensors())) == 0;
  aclOpExecutor* executor = call.executor();
  if (planned && executor) values.pool().put(Kind::executor, reinterpret_cast<uint64_t>(executor));
  if (random.one_in(12) || !planned) executor = reinterpret_cast<aclOpExecutor*>(values.handle(Kind::executor));
  if (planned && random.one_in(25)) {
    Arguments a;
    a.add(executor);
    make_call("aclDestroyAclOpExecutor", reinterpret_cast<void*>(ACL(aclDestroyAclOpExecutor)), a, journal);
  }
  make_call(target.name.c_str(), target.two, call.phase_two(executor), journal, call.tensors());
  if (random.one_in(15)) make_call(target.name.c_str(), target.two, call.phase_two(executor), journal, call.tensors());
}

}  // namespace fuzz
