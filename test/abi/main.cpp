#include <filesystem>

#include "library.h"

// Cards are shared by all processes of a user; a folder for records of its own gives the test cards of its own.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::string folder = std::filesystem::temp_directory_path() / "abi_test.XXXXXX";
  if (mkdtemp(folder.data())) setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  const int code = ACL(aclInit)(nullptr);
  if (code != 0) {
    fprintf(stderr, "aclInit: %d %s\n", code, test::message().c_str());
    return 1;
  }
  const int result = RUN_ALL_TESTS();
  ACL(aclFinalize)();
  std::filesystem::remove_all(folder);
  return result;
}
