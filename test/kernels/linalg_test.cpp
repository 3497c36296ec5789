// Factorisations into outputs of any layout.
#include "operators.h"

class Linalg : public test::Named {};

TEST_F(Linalg, lu_writes_the_strides_of_its_outputs) {
  test::DeviceTensor<float> a({2, 2}, ACL_FLOAT, {2, 4, 4, 4});
  auto p = test::filled({2, 2}), l = test::filled({2, 2}), u = test::filled({2, 2});
  const int64_t sizes[] = {2, 2}, columns_first[] = {1, 2}, storage = 4;
  const auto transposed = [&](const test::DeviceTensor<float>& t) {
    return ACL(aclCreateTensor)(sizes, 2, ACL_FLOAT, columns_first, 0, ACL_FORMAT_ND, &storage, 1, t.memory());
  };
  aclTensor *const lower = transposed(l), *const upper = transposed(u);
  ASSERT_OK(run("softnpuLu", a.handle, true, p.handle, lower, upper));
  EXPECT_EQ(p.read(), (std::vector<float>{0, 1, 1, 0}));
  EXPECT_EQ(l.read(), (std::vector<float>{1, 0.5, 0, 1}));
  EXPECT_EQ(u.read(), (std::vector<float>{4, 0, 4, 2}));
  ACL(aclDestroyTensor)(lower);
  ACL(aclDestroyTensor)(upper);
}
