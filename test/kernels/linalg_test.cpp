// Factorisations into outputs of any layout.
#include "operators.h"

class Linalg : public test::Named {};

TEST_F(Linalg, lu_writes_no_further_than_its_outputs_reach) {
  auto a = test::filled({3, 3, 3, 3}, 1), p = test::filled({3, 3, 3, 3}), u = test::filled({3, 3, 3, 3});
  auto memory = test::filled({81}, 7);
  const int64_t sizes[] = {3, 3, 3, 3}, strides[] = {2, 9, 3, 1}, reach = 31;
  aclTensor* const l = ACL(aclCreateTensor)(sizes, 4, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, &reach, 1, memory.memory());
  ASSERT_OK(run("softnpuLu", a.handle, true, p.handle, l, u.handle));
  const auto values = memory.read();
  EXPECT_EQ(std::vector<float>(values.begin() + reach, values.end()), std::vector<float>(81 - reach, 7));
  ACL(aclDestroyTensor)(l);
}
