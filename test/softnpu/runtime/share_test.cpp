#include "runtime/share.h"

#include "child.h"
#include "device.h"

using test::OnCard;

class Share : public OnCard {};

// Reads a key, imports it on device 0, adds one to the first byte, says what it found.
CHILD(import_key) {
  if (aclrtSetDevice(0) != 0) return 1;
  const std::string key = test::ask();
  void* memory = nullptr;
  const int code = aclrtIpcMemImportByKey(&memory, key.c_str(), 0);
  if (code != 0) {
    test::tell("code " + std::to_string(code));
    return 0;
  }
  unsigned char byte = 0;
  if (aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST) != 0) return 2;
  test::tell("byte " + std::to_string(byte));
  ++byte;
  if (aclrtMemcpy(memory, 1, &byte, 1, ACL_MEMCPY_HOST_TO_DEVICE) != 0) return 3;
  if (aclrtIpcMemClose(key.c_str()) != 0) return 4;
  test::tell("done");
  return 0;
}

TEST_F(Share, memory_crosses_processes_for_those_who_are_named) {
  void* memory = nullptr;
  ASSERT_OK(aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
  ASSERT_OK(aclrtMemset(memory, 1 << 20, 50, 1 << 20));
  char key[ACL_IPC_HANDLE_SIZE];
  ASSERT_OK(aclrtIpcMemGetExportKey(memory, 1 << 20, key, sizeof key, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT));
  {
    test::Child stranger("import_key");
    stranger.say(key);
    EXPECT_EQ(stranger.hear(), "code " + std::to_string(ACL_ERROR_RT_NO_PERMISSION));
  }
  test::Child friendly("import_key");
  int32_t pid = friendly.pid();
  ASSERT_OK(aclrtIpcMemSetImportPid(key, &pid, 1));
  friendly.say(key);
  EXPECT_EQ(friendly.hear(), "byte 50");
  EXPECT_EQ(friendly.hear(), "done");
  EXPECT_EQ(friendly.wait(), 0);
  unsigned char byte = 0;
  ASSERT_OK(aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(byte, 51);
  ASSERT_OK(aclrtIpcMemClose(key));
  ASSERT_OK(aclrtFree(memory));
}

CHILD(export_and_wait) {
  void* memory = nullptr;
  char key[ACL_IPC_HANDLE_SIZE];
  if (aclrtSetDevice(0) != 0 || aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST) != 0) return 1;
  if (aclrtMemset(memory, 4096, 9, 4096) != 0) return 2;
  if (aclrtIpcMemGetExportKey(memory, 4096, key, sizeof key, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION) != 0)
    return 3;
  test::tell(key);
  test::ask();
  return 0;
}

TEST_F(Share, outlives_its_exporter_while_mapped_and_not_afterwards) {
  test::Child child("export_and_wait");
  const std::string key = child.hear();
  void* memory = nullptr;
  ASSERT_OK(aclrtIpcMemImportByKey(&memory, key.c_str(), 0));
  child.kill(SIGKILL);
  child.wait();
  unsigned char byte = 0;
  ASSERT_OK(aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(byte, 9);
  ASSERT_OK(aclrtIpcMemClose(key.c_str()));
  EXPECT_EQ(aclrtIpcMemImportByKey(&memory, key.c_str(), 0), ACL_ERROR_RT_IPC_ERROR);
}
