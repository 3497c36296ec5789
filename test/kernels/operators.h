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
    handle =
        ACL(aclCreateTensor)(sizes.data(), sizes.size(), type, strides.data(), 0, ACL_FORMAT_ND, &storage, 1, memory_);
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
  size_t bytes() const { return count_ * sizeof(T); }
  size_t count_;
  void* memory_ = nullptr;
};

inline DeviceTensor<float> floats(const std::vector<float>& values) {
  return {{static_cast<int64_t>(values.size())}, ACL_FLOAT, values};
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
