#include "runtime/config.h"

#include "child.h"
#include "entry/entry.h"
#include "runtime/soc.h"

using softnpu::parse_bytes;
using softnpu::parse_visible_devices;
using Cards = std::vector<int>;

TEST(VisibleDevices, follow_the_text_up_to_the_first_entry_that_is_no_card) {
  EXPECT_EQ(parse_visible_devices(nullptr, 4), (Cards{0, 1, 2, 3}));
  EXPECT_EQ(parse_visible_devices("0,1,2,3", 8), (Cards{0, 1, 2, 3}));
  EXPECT_EQ(parse_visible_devices("3,1", 8), (Cards{3, 1}));
  EXPECT_EQ(parse_visible_devices(" 3 , 1 ", 8), (Cards{3, 1}));
  EXPECT_EQ(parse_visible_devices("", 8), Cards{});
  EXPECT_EQ(parse_visible_devices("x", 8), Cards{});
  EXPECT_EQ(parse_visible_devices("0,x,1", 8), Cards{0});
  EXPECT_EQ(parse_visible_devices("0,,1", 8), Cards{0});
  EXPECT_EQ(parse_visible_devices("1,9,2", 8), Cards{1});
  EXPECT_EQ(parse_visible_devices("-1,2", 8), Cards{});
  EXPECT_EQ(parse_visible_devices("2,2,3", 8), Cards{2});
}

TEST(Bytes, are_numbers_with_binary_units) {
  size_t bytes = 0;
  EXPECT_TRUE(parse_bytes("512M", &bytes));
  EXPECT_EQ(bytes, size_t{512} << 20);
  EXPECT_TRUE(parse_bytes("2GiB", &bytes));
  EXPECT_EQ(bytes, size_t{2} << 30);
  EXPECT_TRUE(parse_bytes("3KB", &bytes));
  EXPECT_EQ(bytes, 3072u);
  EXPECT_TRUE(parse_bytes("1048576", &bytes));
  EXPECT_EQ(bytes, 1048576u);
  for (const char* wrong : {"", "M", "-1M", "1.5G", "12X", "1MM", "5B", "99999999999999T"})
    EXPECT_FALSE(parse_bytes(wrong, &bytes)) << wrong;
}

CHILD(report_configuration) {
  uint32_t count = 0;
  const int code = aclInit(nullptr);
  const char* text = aclGetRecentErrMsg();
  test::tell(std::to_string(code) + " " + (text ? text : ""));
  aclrtGetDeviceCount(&count);
  const char* soc = aclrtGetSocName();
  test::tell(std::to_string(count) + " " + (soc ? soc : "none") + " " + std::to_string(softnpu::config().threads));
  return 0;
}

namespace {

std::pair<std::string, std::string> report(const std::vector<std::string>& environment) {
  test::Child child("report_configuration", environment);
  const std::string init = child.hear(), rest = child.hear();
  EXPECT_EQ(child.wait(), 0);
  return {init, rest};
}

}  // namespace

TEST(Config, variables_reach_their_places) {
  const auto [init, rest] = report({"SOFTNPU_SOC=Ascend910A", "SOFTNPU_DEVICES=3", "SOFTNPU_THREADS=5"});
  EXPECT_EQ(init, "0 ");
  EXPECT_EQ(rest, "3 Ascend910A 5");
}

TEST(Config, omp_num_threads_is_the_default_for_threads) {
  EXPECT_EQ(report({"OMP_NUM_THREADS=3,2", "SOFTNPU_DEVICES=1", "SOFTNPU_SOC=Ascend910B1"}).second, "1 Ascend910B1 3");
}

TEST(Config, unknown_soc_is_an_error_that_lists_the_names) {
  const auto [init, rest] = report({"SOFTNPU_SOC=Ascend999"});
  EXPECT_NE(init.find("Ascend999"), std::string::npos) << init;
  EXPECT_NE(init.find("Ascend910B1"), std::string::npos) << init;
  EXPECT_EQ(rest.substr(0, 6), "0 none");
}

TEST(Config, nonsense_names_its_variable) {
  for (const char* variable :
       {"SOFTNPU_DEVICES=many", "SOFTNPU_DEVICES=65", "SOFTNPU_MEMORY=lots", "SOFTNPU_ASYNC=2", "SOFTNPU_THREADS=0",
        "SOFTNPU_WORKSPACE=some", "SOFTNPU_STRICT=yes", "SOFTNPU_STRICT=2", "SOFTNPU_HOSTILE=yes", "SOFTNPU_HOSTILE=-1",
        "SOFTNPU_FAULT=fire@launch=1", "SOFTNPU_POOL=a/b", "SOFTNPU_POOL=a b"}) {
    const std::string init = report({variable}).first, name(variable, strchr(variable, '='));
    EXPECT_NE(init.substr(0, 2), "0 ");
    EXPECT_NE(init.find(name), std::string::npos) << init;
  }
}

TEST(Config, a_fault_that_makes_no_sense_is_told_the_accepted_forms) {
  const std::string init = report({"SOFTNPU_FAULT=ecc@100"}).first;
  for (const char* part : {"SOFTNPU_FAULT='ecc@100' makes no sense", "KIND@PLACE=N", "ecc, timeout, lost or link",
                           "slow@collective", "oom@allocation", "'ecc@launch=100:card=1'"})
    EXPECT_NE(init.find(part), std::string::npos) << part << " is not in: " << init;
}

TEST(Config, visible_devices_renumber_cards) {
  EXPECT_EQ(report({"ASCEND_RT_VISIBLE_DEVICES=3,1"}).second.substr(0, 2), "2 ");
  EXPECT_EQ(report({"ASCEND_RT_VISIBLE_DEVICES="}).second.substr(0, 2), "0 ");
}
