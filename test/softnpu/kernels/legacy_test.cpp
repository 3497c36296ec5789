// Operators of the interface before aclnn: results, host constants, private formats, attributes, and what is refused.
#include <cstring>

#include "operators.h"

namespace {

class Legacy : public test::OnDevice {
 protected:
  struct Memory {
    void* data;
    aclTensorDesc* desc;
    aclDataBuffer* buffer;
    size_t bytes;
  };

  void SetUp() override {
    OnDevice::SetUp();
    attributes_ = ACL(aclopCreateAttr)();
  }
  void TearDown() override {
    ACL(aclopDestroyAttr)(attributes_);
    for (const Memory& each : made_) {
      ACL(aclDestroyTensorDesc)(each.desc);
      ACL(aclDestroyDataBuffer)(each.buffer);
      if (each.data) ACL(aclrtFree)(each.data);
    }
  }

  Memory on_card(std::vector<int64_t> dims, const std::vector<float>& values, aclFormat format = ACL_FORMAT_ND) {
    const size_t bytes = values.size() * sizeof(float);
    void* data = make_memory(bytes);
    EXPECT_OK(ACL(aclrtMemcpy)(data, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    aclTensorDesc* desc = ACL(aclCreateTensorDesc)(ACL_FLOAT, static_cast<int>(dims.size()), dims.data(), format);
    made_.push_back({data, desc, ACL(aclCreateDataBuffer)(data, bytes), bytes});
    return made_.back();
  }

  Memory constant(const std::vector<int64_t>& values) {
    const int64_t count = static_cast<int64_t>(values.size());
    aclTensorDesc* desc = ACL(aclCreateTensorDesc)(ACL_INT64, 1, &count, ACL_FORMAT_ND);
    EXPECT_OK(ACL(aclSetTensorPlaceMent)(desc, ACL_MEMTYPE_HOST));
    aclDataBuffer* buffer =
        ACL(aclCreateDataBuffer)(const_cast<int64_t*>(values.data()), values.size() * sizeof(int64_t));
    made_.push_back({nullptr, desc, buffer, 0});
    return made_.back();
  }

  Memory none() {
    aclTensorDesc* desc = ACL(aclCreateTensorDesc)(ACL_DT_UNDEFINED, 0, nullptr, ACL_FORMAT_UNDEFINED);
    made_.push_back({nullptr, desc, ACL(aclCreateDataBuffer)(nullptr, 0), 0});
    return made_.back();
  }

  aclError run(const char* type, const std::vector<Memory>& inputs, const std::vector<Memory>& outputs) {
    std::vector<const aclTensorDesc*> in, out;
    std::vector<const aclDataBuffer*> in_buffers;
    std::vector<aclDataBuffer*> out_buffers;
    for (const Memory& each : inputs) in.push_back(each.desc), in_buffers.push_back(each.buffer);
    for (const Memory& each : outputs) out.push_back(each.desc), out_buffers.push_back(each.buffer);
    return ACL(aclopCompileAndExecute)(type, static_cast<int>(in.size()), in.data(), in_buffers.data(),
                                       static_cast<int>(out.size()), out.data(), out_buffers.data(), attributes_,
                                       ACL_ENGINE_SYS, ACL_COMPILE_SYS, nullptr, nullptr);
  }

  std::vector<float> read(const Memory& memory) {
    std::vector<float> values(memory.bytes / sizeof(float));
    EXPECT_OK(ACL(aclrtSynchronizeDevice)());
    EXPECT_OK(ACL(aclrtMemcpy)(values.data(), memory.bytes, memory.data, memory.bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    return values;
  }

  aclopAttr* attributes_ = nullptr;
  std::vector<Memory> made_;
};

bool says(const char* part) { return test::message().find(part) != std::string::npos; }

}  // namespace

TEST_F(Legacy, an_operator_computes) {
  auto a = on_card({3}, {1, 2, 3}), b = on_card({3}, {4, 5, 6}), out = on_card({3}, {0, 0, 0});
  ASSERT_OK(run("Mul", {a, b}, {out}));
  EXPECT_EQ(read(out), (std::vector<float>{4, 10, 18}));
}

TEST_F(Legacy, attributes_are_read) {
  auto x = on_card({2, 3}, {1, 2, 3, 4, 5, 6}), out = on_card({3, 2}, {0, 0, 0, 0, 0, 0});
  const int64_t perm[] = {1, 0}, shape[] = {2, 3};
  ASSERT_OK(ACL(aclopSetAttrListInt)(attributes_, "perm", 2, perm));
  ASSERT_OK(ACL(aclopSetAttrListInt)(attributes_, "shape", 2, shape));
  ASSERT_OK(ACL(aclopSetAttrBool)(attributes_, "transpose_first", 0));
  ASSERT_OK(run("ConfusionTransposeD", {x}, {out}));
  EXPECT_EQ(read(out), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST_F(Legacy, the_last_value_of_an_attribute_counts) {
  auto x = on_card({2}, {1, 2}), out = on_card({2}, {0, 0});
  ASSERT_OK(ACL(aclopSetAttrFloat)(attributes_, "value", 3));
  ASSERT_OK(ACL(aclopSetAttrFloat)(attributes_, "value", 5));
  ASSERT_OK(run("Muls", {x}, {out}));
  EXPECT_EQ(read(out), (std::vector<float>{5, 10}));
}

TEST_F(Legacy, constants_are_read_before_the_call_returns) {
  auto x = on_card({2, 3}, {1, 2, 3, 4, 5, 6}), out = on_card({1, 2}, {0, 0});
  std::vector<int64_t> offsets{1, 1}, size{1, -1};
  aclrtStream stream = make_stream();
  {
    auto first = constant(offsets), second = constant(size);
    ASSERT_OK(run("Slice", {x, first, second}, {out}));
    offsets = {0, 0};
  }
  EXPECT_EQ(read(out), (std::vector<float>{5, 6}));
  ASSERT_OK(ACL(aclrtDestroyStream)(stream));
}

TEST_F(Legacy, descriptors_may_end_before_the_task_runs) {
  auto a = on_card({2}, {1, 2}), out = on_card({2}, {0, 0});
  ASSERT_OK(run("Identity", {a}, {out}));
  ASSERT_OK(ACL(aclDestroyDataBuffer)(a.buffer));
  EXPECT_EQ(read(out), (std::vector<float>{1, 2}));
}

TEST_F(Legacy, blocks_of_a_private_format_are_read_and_written) {
  std::vector<float> blocks(2 * 16 * 8);
  for (int column = 0; column < 9; column++)
    for (int row = 0; row < 2; row++) blocks[column / 8 * 128 + row * 8 + column % 8] = 10.f * row + column;
  auto x = on_card({2, 9}, blocks), two = on_card({}, {2}), out = on_card({2, 9}, std::vector<float>(256, -1));
  const int64_t stored[] = {2, 1, 16, 8};
  for (aclTensorDesc* desc : {x.desc, out.desc}) {
    ASSERT_OK(ACL(aclSetTensorFormat)(desc, ACL_FORMAT_FRACTAL_NZ));
    ASSERT_OK(ACL(aclSetTensorShape)(desc, 4, stored));
  }
  ASSERT_OK(run("Mul", {x, two}, {out}));
  const auto result = read(out);
  EXPECT_EQ(result[8 + 3], 26.f);    // row 1, column 3
  EXPECT_EQ(result[128 + 8], 36.f);  // row 1, column 8
  EXPECT_EQ(result[129], 0.f);       // behind the last column
}

TEST_F(Legacy, an_operator_that_is_not_there_is_named) {
  auto x = on_card({1}, {1});
  EXPECT_EQ(run("NoSuchOperator", {x}, {x}), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  EXPECT_TRUE(says("NoSuchOperator")) << test::message();
}

TEST_F(Legacy, an_attribute_that_an_operator_does_not_know_is_named) {
  auto x = on_card({1}, {1}), out = on_card({1}, {0});
  ASSERT_OK(ACL(aclopSetAttrInt)(attributes_, "axis", 0));
  EXPECT_EQ(run("Relu", {x}, {out}), ACL_ERROR_INVALID_PARAM);
  EXPECT_TRUE(says("Relu has no attribute 'axis'")) << test::message();
}

TEST_F(Legacy, an_attribute_of_another_kind_is_named) {
  auto x = on_card({1}, {1}), out = on_card({1}, {0});
  ASSERT_OK(ACL(aclopSetAttrInt)(attributes_, "value", 2));
  EXPECT_EQ(run("Muls", {x}, {out}), ACL_ERROR_INVALID_PARAM);
  EXPECT_TRUE(says("'value' is of another type")) << test::message();
}

TEST_F(Legacy, an_attribute_that_is_missing_is_named) {
  auto x = on_card({1}, {1}), out = on_card({1}, {0});
  EXPECT_EQ(run("Muls", {x}, {out}), ACL_ERROR_INVALID_PARAM);
  EXPECT_TRUE(says("needs attribute 'value'")) << test::message();
}

TEST_F(Legacy, counts_are_the_operators) {
  auto x = on_card({1}, {1}), out = on_card({1}, {0});
  EXPECT_EQ(run("Mul", {x, x, x}, {out}), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(run("Mul", {x}, {out}), ACL_ERROR_INVALID_PARAM);
  EXPECT_TRUE(says("'x2' is missing")) << test::message();
  EXPECT_EQ(run("Mul", {x, x}, {}), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(run("Mul", {x, none()}, {out}), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(read(out), (std::vector<float>{0}));
}

TEST_F(Legacy, a_buffer_holds_what_its_descriptor_says) {
  auto x = on_card({1}, {1}), out = on_card({4}, {0, 0, 0, 0});
  const int64_t four = 4;
  aclTensorDesc* larger = ACL(aclCreateTensorDesc)(ACL_FLOAT, 1, &four, ACL_FORMAT_ND);
  auto lying = x;
  lying.desc = larger;
  EXPECT_EQ(run("Relu", {lying}, {out}), ACL_ERROR_INVALID_PARAM);
  EXPECT_TRUE(says("its buffer 4 bytes")) << test::message();
  ACL(aclDestroyTensorDesc)(larger);
}

TEST_F(Legacy, memory_that_is_not_the_cards_is_refused) {
  float number = 1;
  const int64_t one = 1;
  auto out = on_card({1}, {0});
  made_.push_back({nullptr, ACL(aclCreateTensorDesc)(ACL_FLOAT, 1, &one, ACL_FORMAT_ND),
                   ACL(aclCreateDataBuffer)(&number, sizeof number), 0});
  EXPECT_EQ(run("Relu", {made_.back()}, {out}), ACL_ERROR_INVALID_PARAM);
}

TEST_F(Legacy, shapes_that_do_not_fit_are_refused) {
  auto a = on_card({2}, {1, 2}), b = on_card({3}, {1, 2, 3}), out = on_card({3}, {0, 0, 0});
  EXPECT_EQ(run("Mul", {a, b}, {out}), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(run("Relu", {a}, {out}), ACL_ERROR_INVALID_PARAM);
}

TEST_F(Legacy, an_optional_input_may_be_left_out) {
  auto x = on_card({1, 2}, {1, 2}), w = on_card({2, 1}, {3, 4}), out = on_card({1, 1}, {0});
  ASSERT_OK(run("MatMul", {x, w}, {out}));
  EXPECT_EQ(read(out), (std::vector<float>{11}));
  auto bias = on_card({1}, {5});
  ASSERT_OK(run("MatMul", {x, w, bias}, {out}));
  EXPECT_EQ(read(out), (std::vector<float>{16}));
}

TEST_F(Legacy, names_of_inputs_are_looked_at) {
  auto x = on_card({1, 2}, {1, 2}), w = on_card({2, 1}, {3, 4}), out = on_card({1, 1}, {0});
  ACL(aclSetTensorDescName)(w.desc, "x2");
  ASSERT_OK(run("MatMul", {x, w}, {out}));
  EXPECT_EQ(read(out), (std::vector<float>{11}));
  ACL(aclSetTensorDescName)(w.desc, "x3");
  EXPECT_EQ(run("MatMul", {x, w}, {out}), ACL_ERROR_INVALID_PARAM);
  EXPECT_TRUE(says("no input 'x3'")) << test::message();
}
