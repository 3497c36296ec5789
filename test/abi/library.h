// The library under test. ACL(aclrtMalloc)(...) calls the function it exports under that name.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "acl.h"
#include "aclnn.h"

namespace test {

// libascendcl.so, of ASCEND_TEST_LIBRARY or of the softnpu beside this program, and libnnopbase.so beside it, where
// CANN has the objects of operators' arguments.
inline const std::vector<void*>& libraries() {
  static const std::vector<void*> handles = [] {
    namespace fs = std::filesystem;
    const char* given = getenv("ASCEND_TEST_LIBRARY");
#ifdef NPU_TEST_LIBRARY  // tests of softnpu's operators
    const fs::path usual = NPU_TEST_LIBRARY;
#else
    const fs::path program = fs::read_symlink("/proc/self/exe");
    const fs::path usual = program.parent_path().parent_path() / "softnpu/lib64/libascendcl.so";
#endif
    const fs::path first = given ? given : usual;
    std::vector<void*> opened;
    for (const fs::path& file : {first, first.parent_path() / "libnnopbase.so"}) {
      opened.push_back(dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL));
      if (!opened.back()) fprintf(stderr, "%s\n", dlerror()), exit(1);
    }
    return opened;
  }();
  return handles;
}

template <class Function>
Function* symbol(const char* name) {
  for (void* library : libraries())
    if (void* address = dlsym(library, name)) return reinterpret_cast<Function*>(address);
  throw std::runtime_error(std::string("the library has no ") + name);
}

#define ACL(name) (test::symbol<decltype(name)>(#name))
#define ASSERT_OK(code) ASSERT_EQ(code, 0) << test::message()
#define EXPECT_OK(code) EXPECT_EQ(code, 0) << test::message()

inline std::string message() {
  const char* text = ACL(aclGetRecentErrMsg)();
  return text ? text : "";
}

inline uint32_t device_count() {
  uint32_t count = 0;
  return ACL(aclrtGetDeviceCount)(&count) == 0 ? count : 0;
}

// Tests on device 0, which is current in the test's thread.
class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "no device";
    ASSERT_OK(ACL(aclrtSetDevice)(0));
  }

  aclrtStream make_stream() {
    aclrtStream stream = nullptr;
    EXPECT_OK(ACL(aclrtCreateStreamWithConfig)(&stream, 0, 0));
    return stream;
  }

  void* make_memory(size_t bytes) {
    void* address = nullptr;
    EXPECT_OK(ACL(aclrtMalloc)(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    return address;
  }

  aclrtEvent make_event(uint32_t flags = ACL_EVENT_SYNC) {
    aclrtEvent event = nullptr;
    EXPECT_OK(ACL(aclrtCreateEventExWithFlag)(&event, flags));
    return event;
  }
};

// Holds up a stream until open() is called, and for ten seconds at most.
class Gate {
 public:
  explicit Gate(aclrtStream stream) { EXPECT_OK(ACL(aclrtLaunchHostFunc)(stream, &Gate::pass, new State(state_))); }
  ~Gate() { open(); }
  void open() {
    if (!open_) state_->gate.set_value();
    open_ = true;
  }
  // Whether the stream has come to the gate.
  bool reached() { return state_->arrived.get_future().wait_for(std::chrono::seconds(5)) == std::future_status::ready; }

 private:
  struct Shared {
    std::promise<void> gate, arrived;
  };
  using State = std::shared_ptr<Shared>;
  static void pass(void* data) {
    std::unique_ptr<State> state(static_cast<State*>(data));
    (*state)->arrived.set_value();
    (*state)->gate.get_future().wait_for(std::chrono::seconds(10));
  }
  State state_ = std::make_shared<Shared>();
  bool open_ = false;
};

}  // namespace test
