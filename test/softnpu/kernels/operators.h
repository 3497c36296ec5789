// Device vectors of float and the operators that these tests call.
#pragma once

#include <cstring>
#include <vector>

#include "library.h"

extern "C" {
int aclnnAddGetWorkspaceSize(const aclTensor*, const aclTensor*, const aclScalar*, const aclTensor*, uint64_t*,
                             aclOpExecutor**);
int aclnnAdd(void*, uint64_t, aclOpExecutor*, aclrtStream);
int aclnnReduceSumGetWorkspaceSize(const aclTensor*, const aclIntArray*, bool, aclDataType, const aclTensor*, uint64_t*,
                                   aclOpExecutor**);
int aclnnReduceSum(void*, uint64_t, aclOpExecutor*, aclrtStream);
int aclnnNonzeroGetWorkspaceSize(const aclTensor*, const aclTensor*, uint64_t*, aclOpExecutor**);
int aclnnNonzero(void*, uint64_t, aclOpExecutor*, aclrtStream);
int aclnnInplaceUniformGetWorkspaceSize(const aclTensor*, double, double, int64_t, int64_t, uint64_t*, aclOpExecutor**);
int aclnnInplaceUniform(void*, uint64_t, aclOpExecutor*, aclrtStream);
int aclnnInplaceNormalGetWorkspaceSize(const aclTensor*, float, float, int64_t, int64_t, uint64_t*, aclOpExecutor**);
int aclnnInplaceNormal(void*, uint64_t, aclOpExecutor*, aclrtStream);
int aclnnAbsGetWorkspaceSize(const aclTensor*, const aclTensor*, uint64_t*, aclOpExecutor**);
int aclnnAbs(void*, uint64_t, aclOpExecutor*, aclrtStream);
int aclnnCatGetWorkspaceSize(const aclTensorList*, int64_t, const aclTensor*, uint64_t*, aclOpExecutor**);
int softnpuFailGetWorkspaceSize(const aclTensor*, const char*, uint64_t*, aclOpExecutor**);
int softnpuFail(void*, uint64_t, aclOpExecutor*, aclrtStream);
}

namespace test {

// A contiguous tensor on the device with its descriptor.
template <class T>
class DeviceTensor {
 public:
  DeviceTensor(std::vector<int64_t> sizes, aclDataType type, const std::vector<T>& values) : count_(values.size()) {
    EXPECT_OK(ACL(aclrtMalloc)(&memory_, std::max<size_t>(values.size(), 1) * sizeof(T), ACL_MEM_MALLOC_HUGE_FIRST));
    EXPECT_OK(ACL(aclrtMemcpy)(memory_, bytes(), values.data(), bytes(), ACL_MEMCPY_HOST_TO_DEVICE));
    std::vector<int64_t> strides(sizes.size(), 1);
    for (int d = static_cast<int>(sizes.size()) - 2; d >= 0; d--) strides[d] = strides[d + 1] * sizes[d + 1];
    const int64_t storage = static_cast<int64_t>(count_);
    handle = ACL(aclCreateTensor)(sizes.data(), sizes.size(), type, strides.data(), 0, format_of(sizes.size()),
                                  &storage, 1, memory_);
    EXPECT_NE(handle, nullptr);
  }
  ~DeviceTensor() {
    ACL(aclDestroyTensor)(handle);
    ACL(aclrtFree)(memory_);
  }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    EXPECT_OK(ACL(aclrtMemcpy)(values.data(), bytes(), memory_, bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
    return values;
  }
  void* memory() const { return memory_; }
  aclTensor* handle = nullptr;

 private:
  // What clients call a tensor of that rank.
  static aclFormat format_of(size_t rank) {
    constexpr aclFormat kFormats[] = {ACL_FORMAT_NCL, ACL_FORMAT_NCHW, ACL_FORMAT_NCDHW};
    return rank >= 3 && rank <= 5 ? kFormats[rank - 3] : ACL_FORMAT_ND;
  }
  size_t bytes() const { return count_ * sizeof(T); }
  size_t count_;
  void* memory_ = nullptr;
};

inline DeviceTensor<float> floats(const std::vector<float>& values) {
  return {{static_cast<int64_t>(values.size())}, ACL_FLOAT, values};
}

inline DeviceTensor<float> filled(std::vector<int64_t> sizes, float value = 0) {
  size_t count = 1;
  for (int64_t size : sizes) count *= size;
  return {sizes, ACL_FLOAT, std::vector<float>(count, value)};
}

inline DeviceTensor<int64_t> longs(std::vector<int64_t> sizes, const std::vector<int64_t>& values) {
  return {std::move(sizes), ACL_INT64, values};
}

// An array for one call.
class Ints {
 public:
  Ints(std::initializer_list<int64_t> values) : handle_(ACL(aclCreateIntArray)(values.begin(), values.size())) {}
  ~Ints() { ACL(aclDestroyIntArray)(handle_); }
  Ints(const Ints&) = delete;
  const aclIntArray* operator+() const { return handle_; }

 private:
  aclIntArray* handle_;
};

// Operators called by their names, with the arguments of abi/: const aclTensor*, int64_t, bool, double.
class Named : public OnDevice {
 protected:
  // What phase one says, which must refuse.
  template <class... Arguments>
  std::string refusal(const std::string& name, Arguments... arguments) {
    EXPECT_EQ(plan(name, arguments...), ACLNN_ERR_PARAM_INVALID) << name;
    return message();
  }
  // What the stream says of a task that phase one let pass.
  template <class... Arguments>
  std::string failure(const std::string& name, Arguments... arguments) {
    EXPECT_EQ(run(name, arguments...), ACL_ERROR_RT_AICORE_EXCEPTION) << name;
    return text_;
  }
  // Both phases, and the end of the task.
  template <class... Arguments>
  int run(const std::string& name, Arguments... arguments) {
    if (const int code = plan(name, arguments...)) return code;
    void* const memory = make_memory(workspace_ + 1);
    EXPECT_OK(symbol<decltype(aclnnAdd)>(name.c_str())(memory, workspace_, executor_, nullptr));
    const int code = ACL(aclrtSynchronizeStream)(nullptr);
    text_ = message();
    EXPECT_OK(ACL(aclrtFree)(memory));
    return code;
  }

 private:
  template <class... Arguments>
  int plan(const std::string& name, Arguments... arguments) {
    using Function = int(Arguments..., uint64_t*, aclOpExecutor**);
    return symbol<Function>((name + "GetWorkspaceSize").c_str())(arguments..., &workspace_, &executor_);
  }
  uint64_t workspace_ = 0;
  aclOpExecutor* executor_ = nullptr;
  std::string text_;
};

inline bool names(const std::string& text, const char* argument) {
  return text.find("'" + std::string(argument) + "'") != std::string::npos;
}

inline aclScalar* number(double value) { return ACL(aclCreateScalar)(&value, ACL_DOUBLE); }

// What aclnnAdd needs beside its tensors.
class WithStream : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    one_ = number(1);
    stream_ = make_stream();
  }
  void TearDown() override {
    ACL(aclrtDestroyStream)(stream_);
    ACL(aclDestroyScalar)(one_);
  }
  aclScalar* one_ = nullptr;
  aclrtStream stream_ = nullptr;
};

}  // namespace test
