// Operator argument objects.
#include <atomic>
#include <vector>

#include "library.h"

TEST(Object, view_shape_is_what_the_tensor_was_made_with) {
  const int64_t sizes[] = {2, 3, 4}, strides[] = {12, 4, 1}, storage[] = {24};
  aclTensor* tensor = ACL(aclCreateTensor)(sizes, 3, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, storage, 1, nullptr);
  ASSERT_NE(tensor, nullptr) << test::message();
  int64_t* shape = nullptr;
  uint64_t rank = 0;
  ASSERT_OK(ACL(aclGetViewShape)(tensor, &shape, &rank));
  EXPECT_EQ(std::vector<int64_t>(shape, shape + rank), (std::vector<int64_t>{2, 3, 4}));
  delete[] shape;
  ASSERT_OK(ACL(aclDestroyTensor)(tensor));
}

TEST(Object, tensor_without_dimensions_is_a_scalar) {
  aclTensor* tensor = ACL(aclCreateTensor)(nullptr, 0, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr);
  ASSERT_NE(tensor, nullptr);
  int64_t* shape = nullptr;
  uint64_t rank = 9;
  ASSERT_OK(ACL(aclGetViewShape)(tensor, &shape, &rank));
  EXPECT_EQ(rank, 0u);
  delete[] shape;
  ASSERT_OK(ACL(aclDestroyTensor)(tensor));
}

TEST(Object, wrong_arguments_give_null_and_a_message) {
  const int64_t negative[] = {2, -1}, huge[] = {INT64_MAX, 2};
  EXPECT_EQ(ACL(aclCreateTensor)(negative, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, negative, 2, nullptr), nullptr);
  EXPECT_NE(test::message(), "");
  EXPECT_EQ(ACL(aclCreateTensor)(huge, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr), nullptr);
  EXPECT_EQ(ACL(aclCreateTensor)(nullptr, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr), nullptr);
  EXPECT_EQ(ACL(aclCreateScalar)(nullptr, ACL_FLOAT), nullptr);
  float value = 1;
  EXPECT_EQ(ACL(aclCreateScalar)(&value, ACL_STRING), nullptr);
  EXPECT_EQ(ACL(aclCreateIntArray)(nullptr, 3), nullptr);
  EXPECT_EQ(ACL(aclCreateBoolArray)(nullptr, 3), nullptr);
  EXPECT_EQ(ACL(aclCreateTensorList)(nullptr, 3), nullptr);
}

TEST(Object, lists_own_their_elements) {
  const int64_t sizes[] = {2};
  aclTensor* tensor = ACL(aclCreateTensor)(sizes, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, sizes, 1, nullptr);
  const aclTensor* elements[] = {tensor, nullptr};
  aclTensorList* list = ACL(aclCreateTensorList)(elements, 2);
  ASSERT_NE(list, nullptr) << test::message();
  ASSERT_OK(ACL(aclDestroyTensorList)(list));
  EXPECT_NE(ACL(aclDestroyTensor)(tensor), 0);  // went with the list
  float value = 1;
  aclScalar* scalar = ACL(aclCreateScalar)(&value, ACL_FLOAT);
  aclScalarList* scalars = ACL(aclCreateScalarList)(&scalar, 1);
  ASSERT_OK(ACL(aclDestroyScalarList)(scalars));
  EXPECT_NE(ACL(aclDestroyScalar)(scalar), 0);
}

TEST(Object, null_can_be_destroyed) {
  EXPECT_OK(ACL(aclDestroyTensor)(nullptr));
  EXPECT_OK(ACL(aclDestroyScalar)(nullptr));
  EXPECT_OK(ACL(aclDestroyIntArray)(nullptr));
  EXPECT_OK(ACL(aclDestroyBoolArray)(nullptr));
  EXPECT_OK(ACL(aclDestroyTensorList)(nullptr));
  EXPECT_OK(ACL(aclDestroyScalarList)(nullptr));
}

TEST(Object, stale_and_foreign_ones_are_refused) {
  int64_t numbers[] = {1, 2, 3};
  bool flags[] = {true};
  aclIntArray* ints = ACL(aclCreateIntArray)(numbers, 3);
  aclBoolArray* bools = ACL(aclCreateBoolArray)(flags, 1);
  ASSERT_OK(ACL(aclDestroyIntArray)(ints));
  ASSERT_OK(ACL(aclDestroyBoolArray)(bools));
  EXPECT_NE(ACL(aclDestroyIntArray)(ints), 0);
  EXPECT_NE(ACL(aclDestroyBoolArray)(bools), 0);
  EXPECT_NE(ACL(aclDestroyIntArray)(reinterpret_cast<aclIntArray*>(numbers)), 0);
  EXPECT_NE(ACL(aclDestroyTensor)(reinterpret_cast<aclTensor*>(0x1234)), 0);
  int64_t* shape = nullptr;
  uint64_t rank = 0;
  EXPECT_NE(ACL(aclGetViewShape)(reinterpret_cast<aclTensor*>(numbers), &shape, &rank), 0);
  EXPECT_NE(ACL(aclGetViewShape)(nullptr, &shape, &rank), 0);
}

TEST(Object, old_style_descriptors_keep_what_they_are_told) {
  const int64_t dims[] = {4, 5};
  aclTensorDesc* desc = ACL(aclCreateTensorDesc)(ACL_FLOAT16, 2, dims, ACL_FORMAT_NCHW);
  ASSERT_NE(desc, nullptr);
  EXPECT_EQ(ACL(aclGetTensorDescType)(desc), ACL_FLOAT16);
  EXPECT_EQ(ACL(aclGetTensorDescFormat)(desc), ACL_FORMAT_NCHW);
  EXPECT_EQ(ACL(aclGetTensorDescNumDims)(desc), 2u);
  int64_t size = 0;
  ASSERT_OK(ACL(aclGetTensorDescDimV2)(desc, 1, &size));
  EXPECT_EQ(size, 5);
  EXPECT_EQ(ACL(aclGetTensorDescDimV2)(desc, 2, &size), ACL_ERROR_INVALID_PARAM);
  ACL(aclDestroyTensorDesc)(desc);
  EXPECT_EQ(ACL(aclGetTensorDescType)(desc), ACL_DT_UNDEFINED);
  EXPECT_EQ(ACL(aclSetTensorFormat)(desc, ACL_FORMAT_ND), ACL_ERROR_INVALID_PARAM);
}

TEST(Object, refused_descriptions_leave_room_for_others) {
  const int64_t size = 1;
  for (int i = 0; i < 70000; ++i) ASSERT_EQ(ACL(aclCreateTensorDesc)(ACL_FLOAT, -1, &size, ACL_FORMAT_ND), nullptr);
  aclTensorDesc* desc = ACL(aclCreateTensorDesc)(ACL_FLOAT, 1, &size, ACL_FORMAT_ND);
  ASSERT_NE(desc, nullptr) << test::message();
  ACL(aclDestroyTensorDesc)(desc);
}

TEST(Object, of_two_threads_one_destroys_a_tensor) {
  const int64_t size = 1;
  for (int round = 0; round < 2000; ++round) {
    aclTensor* tensor = ACL(aclCreateTensor)(&size, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &size, 1, nullptr);
    std::atomic<int> ready{0}, destroyed{0};
    const auto race = [&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      if (ACL(aclDestroyTensor)(tensor) == 0) ++destroyed;
    };
    std::thread other(race);
    race();
    other.join();
    ASSERT_EQ(destroyed, 1);
  }
}
