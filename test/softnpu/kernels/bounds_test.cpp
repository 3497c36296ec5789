// Numbers in tensors that ATen would follow out of its memory: the task fails, and says which argument it was.
#include <utility>

#include "operators.h"

using test::Ints;
using test::longs;
using test::names;
using Tensor = test::DeviceTensor<float>;

class Bounds : public test::Named {
 protected:
  // A matrix of ones: LU factors of something.
  Tensor ones(std::vector<int64_t> sizes) { return test::filled(std::move(sizes), 1); }
  test::DeviceTensor<int32_t> pivots(const std::vector<int32_t>& values) {
    return {{static_cast<int64_t>(values.size())}, ACL_INT32, values};
  }
};

TEST_F(Bounds, pivots_name_rows) {
  auto lu = ones({2, 2}), b = ones({2, 1}), out = ones({2, 1}), p = ones({2, 2}), l = ones({2, 2}), u = ones({2, 2});
  for (const int32_t wrong : {0, 3, -1, INT32_MAX}) {
    auto rows = pivots({1, wrong});
    EXPECT_PRED2(names, failure("softnpuLuSolve", lu.handle, rows.handle, b.handle, true, false, out.handle), "pivots");
    EXPECT_PRED2(names, failure("softnpuLuUnpack", lu.handle, rows.handle, true, true, p.handle, l.handle, u.handle),
                 "lu_pivots");
  }
  auto rows = pivots({2, 2});
  ASSERT_OK(run("softnpuLuUnpack", lu.handle, rows.handle, true, true, p.handle, l.handle, u.handle));
  EXPECT_EQ(p.read(), (std::vector<float>{0, 1, 1, 0}));
}

TEST_F(Bounds, pivots_that_are_not_unpacked_may_be_anything) {
  auto lu = ones({2, 2}), p = test::filled({0}), l = ones({2, 2}), u = ones({2, 2});
  auto rows = pivots({0, 99});
  ASSERT_OK(run("softnpuLuUnpack", lu.handle, rows.handle, true, false, p.handle, l.handle, u.handle));
}

TEST_F(Bounds, negative_pivots_of_a_symmetric_matrix_come_in_pairs) {
  Tensor ld({2, 2}, ACL_FLOAT, {1, 0, 0, 1});
  auto b = ones({2, 1}), out = ones({2, 1});
  for (const auto& wrong : {std::vector<int32_t>{1, -2}, {-1, 2}, {0, 1}, {1, 3}, {-3, -3}}) {
    auto rows = pivots(wrong);
    EXPECT_PRED2(names, failure("softnpuLdlSolve", ld.handle, rows.handle, b.handle, false, out.handle), "pivots");
  }
  auto rows = pivots({-2, -2});
  EXPECT_OK(run("softnpuLdlSolve", ld.handle, rows.handle, b.handle, false, out.handle));
}

TEST_F(Bounds, indices_of_maxima_lie_in_the_image) {
  auto image = ones({1, 1, 2, 2}), grad = ones({1, 1, 1, 1}), out = ones({1, 1, 2, 2});
  auto volume = ones({1, 1, 2, 2, 2}), grad3 = ones({1, 1, 1, 1, 1}), out3 = ones({1, 1, 2, 2, 2});
  const Ints window2{2, 2}, window3{2, 2, 2}, none2{0, 0}, none3{0, 0, 0}, one2{1, 1}, one3{1, 1, 1};
  for (const int64_t wrong : {int64_t{-2}, int64_t{8}, int64_t{1} << 40}) {
    auto where = longs({1, 1, 1, 1}, {wrong}), where3 = longs({1, 1, 1, 1, 1}, {wrong});
    EXPECT_PRED2(names, failure("aclnnAdaptiveMaxPool2dBackward", grad.handle, image.handle, where.handle, out.handle),
                 "indices");
    EXPECT_PRED2(names,
                 failure("aclnnAdaptiveMaxPool3dBackward", grad3.handle, volume.handle, where3.handle, out3.handle),
                 "indices");
    EXPECT_PRED2(names,
                 failure("aclnnMaxPool2dWithIndicesBackward", grad.handle, image.handle, where.handle, +window2,
                         +window2, +none2, +one2, false, out.handle),
                 "indices");
    EXPECT_PRED2(names,
                 failure("aclnnMaxPool3dWithArgmaxBackward", grad3.handle, volume.handle, where3.handle, +window3,
                         +window3, +none3, +one3, false, out3.handle),
                 "indices");
  }
  auto where = longs({1, 1, 1, 1}, {3});
  ASSERT_OK(run("aclnnAdaptiveMaxPool2dBackward", grad.handle, image.handle, where.handle, out.handle));
  EXPECT_EQ(out.read(), (std::vector<float>{0, 0, 0, 1}));
}

TEST_F(Bounds, rows_of_an_embedding_exist) {
  auto grad = ones({2, 3}), out = ones({4, 3});
  for (const int64_t wrong : {int64_t{-1}, int64_t{4}, int64_t{1} << 40}) {
    auto rows = longs({2}, {0, wrong});
    EXPECT_PRED2(
        names,
        failure("aclnnEmbeddingDenseBackward", grad.handle, rows.handle, int64_t{4}, int64_t{-1}, true, out.handle),
        "indices");
  }
}

TEST_F(Bounds, bags_of_an_embedding_exist) {
  auto grad = ones({2, 3}), out = ones({4, 3}), weight = ones({4, 3}), each = ones({2});
  auto sizes = longs({2}, {1, 1}), largest = longs({2}, {0, 0}), offsets = longs({2}, {0, 1});
  const auto backward = [&](const aclTensor* rows, const aclTensor* bags) {
    return failure("softnpuEmbeddingBagBackward", static_cast<const aclTensor*>(grad.handle), rows, bags,
                   static_cast<const aclTensor*>(sizes.handle), static_cast<const aclTensor*>(largest.handle),
                   int64_t{4}, false, int64_t{0}, static_cast<const aclTensor*>(nullptr), int64_t{-1}, out.handle);
  };
  const auto weights = [&](const aclTensor* rows, const aclTensor* bags) {
    return failure("softnpuEmbeddingBagWeightsBackward", grad.handle, weight.handle, rows, offsets.handle, bags,
                   int64_t{0}, int64_t{-1}, each.handle);
  };
  auto right = longs({2}, {0, 1});
  for (const int64_t wrong : {int64_t{-1}, int64_t{4}, int64_t{1} << 40}) {
    auto numbers = longs({2}, {0, wrong});
    EXPECT_PRED2(names, backward(numbers.handle, right.handle), "indices");
    EXPECT_PRED2(names, backward(right.handle, numbers.handle), "offset2bag");
    EXPECT_PRED2(names, weights(numbers.handle, right.handle), "indices");
    EXPECT_PRED2(names, weights(right.handle, numbers.handle), "offset2bag");
  }
}

TEST_F(Bounds, targets_are_classes_as_far_as_their_lengths_go) {
  auto log_probs = test::filled({3, 1, 2}, -1), loss = ones({1}), alpha = test::filled({1, 3, 3});
  const Ints steps{3}, length{1};
  for (const int64_t wrong : {int64_t{-1}, int64_t{2}, int64_t{1} << 40}) {
    auto targets = longs({1, 2}, {wrong, 1}), padded = longs({1, 2}, {1, wrong});
    EXPECT_PRED2(names,
                 failure("aclnnCtcLoss", log_probs.handle, targets.handle, +steps, +length, int64_t{0}, false,
                         loss.handle, alpha.handle),
                 "targets");
    EXPECT_OK(run("aclnnCtcLoss", log_probs.handle, padded.handle, +steps, +length, int64_t{0}, false, loss.handle,
                  alpha.handle));
  }
}

TEST_F(Bounds, segments_end_with_the_data) {
  auto data = ones({3}), out = ones({2});
  const auto reduce = [&](const aclTensor* lengths, const aclTensor* offsets) {
    return failure("softnpuSegmentReduce", data.handle, "sum", lengths, static_cast<const aclTensor*>(nullptr), offsets,
                   int64_t{0}, true, static_cast<const aclScalar*>(nullptr), out.handle);
  };
  for (const auto& wrong : {std::vector<int64_t>{2, 2}, {-1, 4}, {0, int64_t{1} << 40}})
    EXPECT_PRED2(names, reduce(longs({2}, wrong).handle, nullptr), "lengths");
  for (const auto& wrong : {std::vector<int64_t>{0, 4, 3}, {0, 2, 1}, {-1, 2, 3}, {0, 1, int64_t{1} << 40}})
    EXPECT_PRED2(names, reduce(nullptr, longs({3}, wrong).handle), "offsets");
}

TEST_F(Bounds, offsets_of_bags_never_fall) {
  auto weight = ones({4, 3}), out = ones({3, 3});
  auto rows = longs({2}, {0, 1}), sizes = longs({3}, {0, 0, 0});
  for (const auto& wrong : {std::vector<int64_t>{0, 3, 2}, {0, -1, 2}, {0, int64_t{1} << 40, 2}})
    EXPECT_PRED2(names,
                 failure("aclnnEmbeddingBag", weight.handle, rows.handle, longs({3}, wrong).handle, false, int64_t{1},
                         false, static_cast<const aclTensor*>(nullptr), false, int64_t{-1}, out.handle, rows.handle,
                         sizes.handle, sizes.handle),
                 "offsets");
}

TEST_F(Bounds, parameters_of_an_optimiser_lie_in_its_buffer) {
  auto p = ones({5}), g = ones({5}), m = ones({5}), v = ones({5});
  const Ints sizes{1000000, -999995};
  const auto text =
      failure("softnpuFusedLamb", p.handle, g.handle, m.handle, v.handle, +sizes, 0.1, 0.9, 0.99, 1e-8, 0.0, true);
  EXPECT_NE(text.find("sizes"), std::string::npos) << text;
}

TEST_F(Bounds, a_list_of_results_is_as_long_as_they_are_many) {
  auto x = ones({2, 1}), a = test::filled({3}), b = test::filled({3});
  const aclTensor* two[] = {std::exchange(a.handle, nullptr), std::exchange(b.handle, nullptr)};
  aclTensorList* const out = ACL(aclCreateTensorList)(two, 2);
  aclScalarList* const everything = ACL(aclCreateScalarList)(nullptr, 0);
  const Ints bins{2};
  const auto text =
      failure("softnpuHistogramddEdges", x.handle, +bins, everything, static_cast<aclTensor*>(nullptr), false, out);
  EXPECT_NE(text.find("out has 2 tensors"), std::string::npos) << text;
  ACL(aclDestroyTensorList)(out);
  ACL(aclDestroyScalarList)(everything);
}

TEST_F(Bounds, nothing_is_repeated_less_than_never) {
  auto repeats = longs({2}, {1000000, -999995}), out = longs({5}, {0, 0, 0, 0, 0});
  EXPECT_PRED2(names, failure("aclnnRepeatInterleaveTensor", repeats.handle, int64_t{5}, out.handle), "repeats");
}

TEST_F(Bounds, compressed_rows_fit_what_they_index) {
  auto columns = longs({3}, {0, 1, 1}), out = longs({2, 3}, {0, 0, 0, 0, 0, 0});
  for (const auto& wrong : {std::vector<int64_t>{0, 4, 3}, {0, 2, 1}, {-1, 2, 3}, {0, 1, int64_t{1} << 40}}) {
    auto rows = longs({3}, wrong);
    EXPECT_PRED2(names, failure("softnpuCsrToCoo", rows.handle, columns.handle, false, out.handle), "crow_indices");
  }
  auto rows = longs({3}, {0, 2, 3});
  ASSERT_OK(run("softnpuCsrToCoo", rows.handle, columns.handle, false, out.handle));
  EXPECT_EQ(out.read(), (std::vector<int64_t>{0, 0, 1, 0, 1, 1}));
  for (const int64_t wrong : {int64_t{-1}, int64_t{2}, int64_t{1} << 40}) {
    auto numbers = longs({2}, {0, wrong}), compressed = longs({3}, {0, 0, 0});
    EXPECT_PRED2(names, failure("softnpuCooToCsr", numbers.handle, int64_t{2}, compressed.handle), "self");
  }
}

TEST_F(Bounds, a_recurrence_ends) {
  auto x = test::floats({0.5F}), out = test::floats({0.F}), degree = test::floats({1e30F});
  for (const char* name : {"softnpuLegendrePolynomialP", "softnpuLaguerrePolynomialL"})
    EXPECT_PRED2(names, failure(name, x.handle, degree.handle, out.handle), "other");
}
