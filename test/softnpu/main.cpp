#include <filesystem>

#include "child.h"

// The folder for records is the test's own (its children inherit it), so that other processes' cards do not matter.
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (strncmp(argv[i], "--child=", 8) == 0) return test::children().at(argv[i] + 8)();
  ::testing::InitGoogleTest(&argc, argv);
  std::string folder = std::filesystem::temp_directory_path() / "softnpu_test.XXXXXX";
  if (mkdtemp(folder.data())) setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  const int result = RUN_ALL_TESTS();
  std::filesystem::remove_all(folder);
  return result;
}
