#include "library.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int code = ACL(aclInit)(nullptr);
  if (code != 0) {
    fprintf(stderr, "aclInit: %d %s\n", code, test::message().c_str());
    return 1;
  }
  const int result = RUN_ALL_TESTS();
  ACL(aclFinalize)();
  return result;
}
