// Shapes and sizes that ATen would take for right: phase one refuses them, and says which argument it was.
#include "operators.h"

using test::filled;
using test::Ints;
using test::longs;
using test::names;

class Require : public test::Named {
 protected:
  static bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }
  const aclTensor* const none_ = nullptr;
};

TEST_F(Require, a_scale_does_not_lead_behind_the_image) {
  auto image = filled({1, 1, 3, 3}), large = filled({1, 1, 5, 5});
  const Ints to{5, 5}, from{1, 1, 3, 3};
  for (const char* name : {"aclnnUpsampleBilinear2dAA", "aclnnUpsampleBicubic2dAA", "softnpuUpsampleLanczos2dAA",
                           "aclnnUpsampleBilinear2d", "aclnnUpsampleBicubic2d"}) {
    EXPECT_PRED2(says, refusal(name, image.handle, +to, false, 1.7, 0.1, large.handle), "a scale of 0.1");
    EXPECT_OK(run(name, image.handle, +to, false, 1.7, 0.0, large.handle));
  }
  for (const char* name : {"aclnnUpsampleBilinear2dAABackward", "aclnnUpsampleBicubic2dAAGrad",
                           "softnpuUpsampleLanczos2dAABackward", "aclnnUpsampleBilinear2dBackward"}) {
    EXPECT_PRED2(says, refusal(name, large.handle, +to, +from, false, 1.7, 1e-320, image.handle), "a scale of");
    EXPECT_OK(run(name, large.handle, +to, +from, false, 1.7, 0.0, image.handle));
  }
  // Infinite steps: not even the first pixel has a place.
  auto pixel = filled({1, 1, 1, 1});
  const Ints one{1, 1};
  EXPECT_PRED2(says, refusal("aclnnUpsampleNearestExact2d", image.handle, +one, 1e-320, 0.5, pixel.handle),
               "a scale of");
}

TEST_F(Require, windows_fit_what_they_were_cut_from) {
  auto out = filled({5});
  const Ints sizes{5};
  const auto unfold = [&](std::vector<int64_t> windows, int64_t size, int64_t step) {
    auto grad = filled(std::move(windows));
    return refusal("aclnnUnfoldGrad", grad.handle, +sizes, int64_t{0}, size, step, out.handle);
  };
  EXPECT_PRED2(names, unfold({3, 2}, 3, 1), "grad_in");
  EXPECT_PRED2(names, unfold({4, 3}, 3, 1), "grad_in");
  EXPECT_PRED2(names, unfold({3, 6}, 6, 1), "size");
  EXPECT_PRED2(names, unfold({3, 3}, 3, 0), "step");
}

TEST_F(Require, half_a_spectrum_has_the_size_of_its_signal) {
  test::DeviceTensor<float> spectrum({3}, ACL_COMPLEX64, {1, 0, 1, 0, 1, 0});
  auto signal = filled({9});
  const Ints dim{0};
  EXPECT_PRED2(says, refusal("softnpuFftC2r", spectrum.handle, +dim, int64_t{0}, int64_t{9}, signal.handle),
               "last_dim_size");
}

TEST_F(Require, heads_of_attention_fit) {
  const auto attention = [&](std::vector<int64_t> key, std::vector<int64_t> value, int64_t heads, const char* layout) {
    auto q = filled({1, 4, 2, 8}), k = filled(std::move(key)), v = filled(std::move(value)), out = filled({1, 4, 2, 8});
    return refusal("aclnnFlashAttentionScore", q.handle, k.handle, v.handle, none_, none_, none_, none_,
                   static_cast<const aclIntArray*>(nullptr), 1.0, 1.0, int64_t{65536}, int64_t{65536}, heads, layout,
                   int64_t{0}, int64_t{0}, none_, none_, none_, out.handle);
  };
  EXPECT_PRED2(names, attention({1, 4, 2, 8}, {1, 4, 2, 8}, 0, "BNSD"), "head_num");
  EXPECT_PRED2(names, attention({1, 4, 2, 8}, {1, 4, 2, 8}, 4, "TND"), "input_layout");
  EXPECT_PRED2(says, attention({1, 3, 2, 8}, {1, 3, 2, 8}, 4, "BNSD"), "key's heads");
  EXPECT_PRED2(says, attention({1, 0, 2, 8}, {1, 0, 2, 8}, 4, "BNSD"), "key's heads");
  EXPECT_PRED2(says, attention({1, 4, 2, 7}, {1, 4, 2, 7}, 4, "BNSD"), "key has another");
  EXPECT_PRED2(says, attention({1, 4, 2, 8}, {1, 4, 1, 8}, 4, "BNSD"), "value has another");
}

TEST_F(Require, statistics_of_attention_have_its_rows) {
  auto t = filled({1, 4, 2, 8}), out = filled({1, 4, 2, 8}), few = filled({1, 4, 1, 8});
  EXPECT_PRED2(says,
               refusal("aclnnFlashAttentionScoreGrad", t.handle, t.handle, t.handle, t.handle, none_, none_, none_,
                       none_, few.handle, few.handle, none_, t.handle, static_cast<const aclIntArray*>(nullptr), 1.0,
                       1.0, int64_t{65536}, int64_t{65536}, int64_t{4}, "BNSD", int64_t{0}, int64_t{0}, out.handle,
                       out.handle, out.handle, none_),
               "softmax_max");
}

TEST_F(Require, a_gradient_has_the_shape_of_its_input) {
  auto x = filled({1}), none = filled({0}), out = filled({1});
  EXPECT_PRED2(names, refusal("aclnnGeluBackward", none.handle, x.handle, out.handle), "grad_output");
  EXPECT_PRED2(names, refusal("aclnnGeluBackwardV2", none.handle, x.handle, "none", out.handle), "grad_output");
}

TEST_F(Require, a_reduced_loss_has_one_gradient) {
  auto x = filled({2, 3}), none = filled({0}), out = filled({2, 3});
  auto classes = longs({2}, {0, 1}), labels = longs({2, 3}, {0, -1, 0, 1, -1, 0});
  const auto marks = filled({2, 3});
  aclScalar* const one = test::number(1);
  EXPECT_PRED2(names,
               refusal("softnpuMultiMarginLossBackward", none.handle, x.handle, classes.handle, one, one, none_,
                       int64_t{1}, out.handle),
               "grad_output");
  ACL(aclDestroyScalar)(one);
  EXPECT_PRED2(names,
               refusal("softnpuMultilabelMarginLossBackward", none.handle, x.handle, labels.handle, int64_t{1},
                       marks.handle, out.handle),
               "grad_output");
}

TEST_F(Require, every_step_of_a_factorisation_has_a_pivot) {
  auto lu = filled({2, 2}), p = filled({2, 2}), l = filled({2, 2}), u = filled({2, 2});
  test::DeviceTensor<int32_t> none({0}, ACL_INT32, {});
  EXPECT_PRED2(names, refusal("softnpuLuUnpack", lu.handle, none.handle, true, true, p.handle, l.handle, u.handle),
               "lu_pivots");
}

TEST_F(Require, distances_are_those_of_rows) {
  auto x = filled({3, 3, 0, 3}), out = filled({3});
  EXPECT_PRED2(names, refusal("aclnnPdist", x.handle, 2.0F, out.handle), "self");
}

TEST_F(Require, steps_are_as_many_as_the_output_has_numbers) {
  auto out = filled({3});
  aclScalar *const zero = test::number(0), *const one = test::number(1);
  EXPECT_PRED2(names, refusal("aclnnLinspace", zero, one, int64_t{4}, out.handle), "out");
  EXPECT_PRED2(names, refusal("aclnnLogSpace", zero, one, int64_t{4}, 10.0, out.handle), "out");
  ACL(aclDestroyScalar)(zero);
  ACL(aclDestroyScalar)(one);
}

TEST_F(Require, segments_lie_along_the_axis) {
  auto data = filled({2, 3}), out = filled({2, 3});
  auto lengths = longs({3}, {1, 1, 1}), none = longs({2, 0}, {});
  EXPECT_PRED2(names,
               refusal("softnpuSegmentReduce", data.handle, "sum", lengths.handle, none_, none_, int64_t{1}, false,
                       static_cast<const aclScalar*>(nullptr), out.handle),
               "lengths");
  EXPECT_PRED2(names,
               refusal("softnpuSegmentReduce", data.handle, "sum", none_, none_, none.handle, int64_t{1}, false,
                       static_cast<const aclScalar*>(nullptr), out.handle),
               "offsets");
  auto few = filled({1, 3});
  EXPECT_PRED2(names,
               refusal("softnpuSegmentReduceBackward", few.handle, few.handle, data.handle, "sum", none_,
                       lengths.handle, int64_t{0}, static_cast<const aclScalar*>(nullptr), out.handle),
               "output");
}

TEST_F(Require, offsets_of_bags_are_one_row) {
  auto weight = filled({4, 3}), out = filled({2, 3});
  auto rows = longs({2}, {0, 1}), offsets = longs({2, 0}, {}), sizes = longs({2}, {0, 0});
  EXPECT_PRED2(names,
               refusal("aclnnEmbeddingBag", weight.handle, rows.handle, offsets.handle, false, int64_t{0}, false, none_,
                       true, int64_t{-1}, out.handle, rows.handle, sizes.handle, sizes.handle),
               "offsets");
}

TEST_F(Require, every_index_has_a_bag) {
  auto grad = filled({2, 3}), out = filled({4, 3}), weight = filled({4, 3}), each = filled({2});
  auto rows = longs({2}, {0, 1}), few = longs({1}, {0}), offsets = longs({2}, {0, 1});
  const auto backward = [&](const aclTensor* bags, const aclTensor* sizes) {
    return refusal("softnpuEmbeddingBagBackward", grad.handle, rows.handle, bags, sizes, rows.handle, int64_t{4}, false,
                   int64_t{0}, none_, int64_t{-1}, out.handle);
  };
  EXPECT_PRED2(names, backward(few.handle, rows.handle), "offset2bag");
  EXPECT_PRED2(names, backward(rows.handle, few.handle), "bag_size");
  EXPECT_PRED2(names,
               refusal("softnpuEmbeddingBagWeightsBackward", grad.handle, weight.handle, rows.handle, offsets.handle,
                       few.handle, int64_t{0}, int64_t{-1}, each.handle),
               "offset2bag");
}

TEST_F(Require, lengths_of_targets_are_not_negative) {
  auto log_probs = filled({3, 2, 2}, -1), loss = filled({2}), alpha = filled({2, 3, 5});
  auto targets = longs({4}, {1, 1, 1, 1});
  const Ints steps{3, 3}, lengths{-1, 2};
  EXPECT_PRED2(says,
               refusal("aclnnCtcLoss", log_probs.handle, targets.handle, +steps, +lengths, int64_t{0}, false,
                       loss.handle, alpha.handle),
               "target_lengths");
}

TEST_F(Require, parameters_fall_into_whole_rows) {
  auto step = filled({1});
  const auto adamp = [&](const Ints& sizes, const Ints& rows) {
    auto p = filled({6}), g = filled({6}), m = filled({6}), v = filled({6});
    return refusal("softnpuFusedAdamP", p.handle, g.handle, m.handle, v.handle, step.handle, +sizes, +rows, 0.1, 0.9,
                   0.99, 1e-8, 0.0, 0.1, 0.1, false);
  };
  EXPECT_PRED2(names, adamp({6}, {7}), "rows");
  EXPECT_PRED2(names, adamp({6}, {4}), "rows");
  EXPECT_PRED2(names, adamp({6}, {-1}), "rows");
  EXPECT_PRED2(names, adamp({6}, {1, 1}), "rows");
}

TEST_F(Require, a_number_by_itself_has_no_channels_with_scales) {
  auto x = filled({}, 1), gamma = filled({}, 1), scale = filled({3}, 1), rstd = filled({});
  test::DeviceTensor<int8_t> y({}, ACL_INT8, {0});
  EXPECT_PRED2(
      names,
      refusal("aclnnRmsNormQuant", x.handle, gamma.handle, gamma.handle, scale.handle, scale.handle, 1e-5, y.handle),
      "x");
  EXPECT_PRED2(names,
               refusal("aclnnRmsNormQuantV3", x.handle, gamma.handle, scale.handle, none_, none_, 1e-5, true, false,
                       y.handle, rstd.handle),
               "x");
  EXPECT_PRED2(names, refusal("aclnnQuantize", x.handle, scale.handle, none_, ACL_INT8, int64_t{0}, y.handle), "self");
}

TEST_F(Require, a_padded_tensor_has_the_sizes_of_its_padding) {
  auto self = filled({2, 3}, 1), out = filled({2, 4});
  aclScalar* const zero = test::number(0);
  const Ints right{1, 0}, huge{int64_t{1} << 33, 0}, negative{-1, 1}, odd{1}, many{1, 0, 0, 0, 0, 0},
      most{INT64_MAX, 0};
  for (const Ints* pad : {&huge, &negative})
    EXPECT_PRED2(names, refusal("aclnnConstantPadNd", self.handle, +*pad, zero, out.handle), "out");
  for (const Ints* pad : {&odd, &many, &most})
    EXPECT_PRED2(says, refusal("aclnnConstantPadNd", self.handle, +*pad, zero, out.handle), "pad ");
  ASSERT_OK(run("aclnnConstantPadNd", self.handle, +right, zero, out.handle));
  EXPECT_EQ(out.read(), (std::vector<float>{0, 1, 1, 1, 0, 1, 1, 1}));
  ACL(aclDestroyScalar)(zero);
}
