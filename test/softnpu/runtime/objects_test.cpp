#include "runtime/objects.h"

#include <gtest/gtest.h>

#include "runtime/error.h"

using namespace softnpu;

TEST(Objects, missing_strides_are_those_of_a_dense_tensor) {
  const int64_t sizes[] = {2, 3, 4};
  aclTensor* tensor = create_tensor(sizes, 3, ACL_FLOAT, nullptr, 5, ACL_FORMAT_ND, nullptr, 0, nullptr);
  EXPECT_EQ(tensor->strides, (std::vector<int64_t>{12, 4, 1}));
  EXPECT_EQ(tensor->storage_elements, 24);
  EXPECT_EQ(tensor->offset, 5);
  destroy(tensor);
}

TEST(Objects, scalar_keeps_its_bytes) {
  const double value = 2.5;
  aclScalar* scalar = create_scalar(&value, ACL_DOUBLE);
  EXPECT_EQ(*reinterpret_cast<double*>(scalar->value), 2.5);
  destroy(scalar);
}

TEST(Objects, live_means_live_and_of_that_kind) {
  const int64_t numbers[] = {1, 2};
  aclIntArray* array = create_int_array(numbers, 2);
  EXPECT_TRUE(Held<aclIntArray>(array));
  EXPECT_FALSE(Held<aclBoolArray>(reinterpret_cast<aclBoolArray*>(array)));
  EXPECT_FALSE(Held<aclIntArray>(reinterpret_cast<const aclIntArray*>(numbers)));
  EXPECT_FALSE(Held<aclIntArray>(nullptr));
  EXPECT_FALSE(Held<aclIntArray>(reinterpret_cast<const aclIntArray*>(8)));
  destroy(array);
  EXPECT_FALSE(Held<aclIntArray>(array));
}

TEST(Objects, list_of_something_else_is_refused) {
  const int64_t numbers[] = {1};
  aclIntArray* array = create_int_array(numbers, 1);
  const aclTensor* wrong[] = {reinterpret_cast<aclTensor*>(array)};
  EXPECT_THROW(create_tensor_list(wrong, 1), Failure);
  destroy(array);
}

TEST(Objects, list_outlives_an_element_and_leaves_its_place_to_others) {
  const int64_t size = 1;
  const auto make = [&] { return create_tensor(&size, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr); };
  aclTensor* element = make();
  aclTensorList* list = create_tensor_list(&element, 1);
  destroy(element);
  std::vector<aclTensor*> others;  // one of them gets the element's place
  for (int i = 0; i < 200; ++i) others.push_back(make());
  destroy(list);
  for (aclTensor* other : others) EXPECT_NO_THROW(destroy(other));
}

TEST(Objects, sizes_of_types) {
  EXPECT_EQ(item_size(ACL_BF16), 2u);
  EXPECT_EQ(item_size(ACL_COMPLEX128), 16u);
  EXPECT_EQ(item_size(ACL_BOOL), 1u);
  EXPECT_EQ(item_size(ACL_INT4), 0u);
  EXPECT_EQ(item_size(static_cast<aclDataType>(999)), 0u);
}
