#include "runtime/soc.h"

#include <gtest/gtest.h>

using softnpu::find_soc;

TEST(Soc, every_hardware_row_has_a_chip) {
  for (const char* product : {"Atlas training: 800", "300T", "800T A2", "900 A2 PoD", "200T A2 Box16", "800T A3",
                              "900 A3 SuperPoD", "inference: 800I A2"}) {
    bool found = false;
    const std::string names = softnpu::soc_names() + ",";
    for (size_t begin = 0, end; (end = names.find(',', begin)) != std::string::npos; begin = end + 2)
      found |= std::string(find_soc(names.substr(begin, end - begin))->hardware).find(product) != std::string::npos;
    EXPECT_TRUE(found) << product;
  }
}

TEST(Soc, first_generation_has_no_bfloat16) {
  EXPECT_FALSE(find_soc("Ascend910A")->bf16);
  EXPECT_FALSE(find_soc("Ascend910ProB")->bf16);
  EXPECT_TRUE(find_soc("Ascend910B1")->bf16);
  EXPECT_TRUE(find_soc("Ascend910_9391")->bf16);
}

TEST(Soc, unknown_name_is_null) {
  EXPECT_EQ(find_soc("Ascend910"), nullptr);
  EXPECT_EQ(find_soc(""), nullptr);
  EXPECT_NE(find_soc(softnpu::kDefaultSoc), nullptr);
}
