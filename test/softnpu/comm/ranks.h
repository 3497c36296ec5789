// Ranks of a communicator, as threads of this process or as processes of their own.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <sstream>
#include <thread>
#include <type_traits>

#include "child.h"
#include "device.h"

namespace test {

template <class T>
constexpr HcclDataType hccl_type() {
  if constexpr (std::is_same_v<T, float>) return HCCL_DATA_TYPE_FP32;
  if constexpr (std::is_same_v<T, double>) return HCCL_DATA_TYPE_FP64;
  if constexpr (std::is_same_v<T, int8_t>) return HCCL_DATA_TYPE_INT8;
  if constexpr (std::is_same_v<T, int32_t>) return HCCL_DATA_TYPE_INT32;
  if constexpr (std::is_same_v<T, int64_t>) return HCCL_DATA_TYPE_INT64;
  if constexpr (std::is_same_v<T, uint8_t>) return HCCL_DATA_TYPE_UINT8;
}

// Card memory with values of one type.
template <class T>
class Values {
 public:
  explicit Values(std::vector<T> values) : count_(values.size()) {
    if (count_ == 0) return;
    if (aclrtMalloc(&memory_, bytes(), ACL_MEM_MALLOC_HUGE_FIRST) != 0) throw std::runtime_error(message());
    if (aclrtMemcpy(memory_, bytes(), values.data(), bytes(), ACL_MEMCPY_HOST_TO_DEVICE) != 0)
      throw std::runtime_error(message());
  }
  Values(size_t count, T value) : Values(std::vector<T>(count, value)) {}
  ~Values() {
    if (memory_) aclrtFree(memory_);
  }
  Values(const Values&) = delete;

  operator void*() const { return memory_; }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    if (count_ != 0 && aclrtMemcpy(values.data(), bytes(), memory_, bytes(), ACL_MEMCPY_DEVICE_TO_HOST) != 0)
      throw std::runtime_error(message());
    return values;
  }

 private:
  size_t bytes() const { return count_ * sizeof(T); }
  size_t count_;
  void* memory_ = nullptr;
};

// What a rank sees of the world.
struct Rank {
  uint32_t rank, ranks;
  HcclComm comm;
  aclrtStream stream;

  // Of everything on the stream so far.
  void synchronize() const {
    if (aclrtSynchronizeStream(stream) != 0) throw std::runtime_error(message());
  }
};

inline void check(int code) {
  if (code != 0) throw std::runtime_error("code " + std::to_string(code) + " " + message());
}
template <class T>
void expect_equal(const std::vector<T>& got, const std::vector<T>& expected, const char* what) {
  for (size_t i = 0; i < expected.size(); ++i)
    if (got.size() != expected.size() || got[i] != expected[i])
      throw std::runtime_error(std::string(what) + ": element " + std::to_string(i) + " is " +
                               std::to_string(double(got.at(i))) + ", not " + std::to_string(double(expected[i])));
}

using Scenario = std::function<void(Rank&)>;
inline std::map<std::string, Scenario>& scenarios() {
  static std::map<std::string, Scenario> all;
  return all;
}
struct RegisterScenario {
  RegisterScenario(const char* name, Scenario scenario) { scenarios()[name] = std::move(scenario); }
};
// Runs in every rank; throws when something is not as it should be.
#define SCENARIO(name)                                                                  \
  static void scenario_##name(test::Rank& r);                                           \
  static const test::RegisterScenario register_scenario_##name(#name, scenario_##name); \
  static void scenario_##name([[maybe_unused]] test::Rank& r)

// Runs a scenario in threads; what each rank threw, empty for nothing.
inline std::vector<std::string> run_threads(const std::string& name, uint32_t ranks) {
  std::vector<int32_t> devices(ranks);
  std::iota(devices.begin(), devices.end(), 0);
  for (int device : devices) check(aclrtSetDevice(device));
  std::vector<HcclComm> comms(ranks);
  check(HcclCommInitAll(ranks, devices.data(), comms.data()));
  std::vector<std::string> errors(ranks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        check(aclrtSetDevice(static_cast<int>(rank)));
        Rank r{rank, ranks, comms[rank], nullptr};
        check(aclrtCreateStream(&r.stream));
        scenarios().at(name)(r);
        check(aclrtDestroyStream(r.stream));
      } catch (const std::exception& e) {
        errors[rank] = e.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (HcclComm comm : comms) check(HcclCommDestroy(comm));
  return errors;
}

// Processes that make a communicator together and run a scenario. hear() gives what they tell, then "done" or the
// error.
class World {
 public:
  World(const std::string& scenario, uint32_t ranks, const std::vector<std::string>& environment = {}) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      ranks_.push_back(std::make_unique<Child>("rank", environment));
      ranks_[rank]->say(scenario);
      ranks_[rank]->say(std::to_string(ranks));
      ranks_[rank]->say(std::to_string(rank));
    }
    const std::string info = ranks_[0]->hear();
    for (uint32_t rank = 1; rank < ranks; ++rank) ranks_[rank]->say(info);
  }
  Child& operator[](size_t rank) { return *ranks_[rank]; }
  size_t size() const { return ranks_.size(); }

 private:
  std::vector<std::unique_ptr<Child>> ranks_;
};

inline std::string hex(const HcclRootInfo& info) {
  std::string text;
  for (unsigned char c : info.internal) {
    char two[3];
    snprintf(two, sizeof two, "%02x", c);
    text += two;
  }
  return text;
}
inline HcclRootInfo unhex(const std::string& text) {
  HcclRootInfo info{};
  for (size_t i = 0; i + 1 < text.size() && i / 2 < sizeof info.internal; i += 2)
    info.internal[i / 2] = static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return info;
}

}  // namespace test
