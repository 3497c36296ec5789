// SOFTNPU_FAULT: what may be written, and that each fault comes where it was asked for, once, with its own words.
#include "runtime/planned_faults.h"

#include "child.h"
#include "device.h"

using namespace softnpu;

namespace {

std::vector<PlannedFault> parsed(const std::string& text) {
  std::vector<PlannedFault> faults;
  EXPECT_TRUE(parse_faults(text, &faults)) << text;
  return faults;
}

}  // namespace

TEST(PlannedFaults, are_entries_separated_by_commas) {
  const auto faults = parsed("ecc@launch=100:card=1,slow@collective=2:ms=20,oom@allocation=3");
  ASSERT_EQ(faults.size(), 3u);
  EXPECT_EQ(faults[0].kind, PlannedFault::Kind::ecc);
  EXPECT_EQ(faults[0].number, 100u);
  EXPECT_EQ(faults[0].card, 1);
  EXPECT_EQ(faults[0].text, "ecc@launch=100:card=1");
  EXPECT_EQ(faults[1].place, PlannedFault::Place::collective);
  EXPECT_EQ(faults[1].milliseconds, 20);
  EXPECT_EQ(faults[1].card, -1);
  EXPECT_EQ(faults[2].place, PlannedFault::Place::allocation);
}

TEST(PlannedFaults, that_make_no_sense_are_refused) {
  for (const char* wrong : {"",
                            ",",
                            "ecc",
                            "ecc@launch",
                            "ecc@launch=",
                            "ecc@launch=0",
                            "ecc@launch=-1",
                            "ecc@launch=1x",
                            "ecc@launch=1,",
                            "ecc@launch=1:",
                            "ecc@launch=1:card=64",
                            "ecc@launch=1:card=",
                            "ecc@launch=1:ms=5",
                            "ecc@launch=1:size=5",
                            "ecc@allocation=1",
                            "oom@launch=1",
                            "slow@launch=1",
                            "slow@collective=1:ms=0",
                            "fire@launch=1",
                            "lost@launch=9999999999999",
                            "ecc@launch=1 ",
                            "ecc@launch=1;lost@launch=2"}) {
    std::vector<PlannedFault> faults;
    EXPECT_FALSE(parse_faults(wrong, &faults)) << wrong;
  }
}

// A launch is 4 bytes set to zero; says the code of each synchronise and the message of each failure.
CHILD(launch_three_times) {
  EXPECT_OK(aclrtSetDevice(0));
  void* memory = nullptr;
  EXPECT_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(aclrtMemsetAsync(memory, 4096, 0, 4, nullptr));
    const int code = aclrtSynchronizeDevice();
    test::tell(std::to_string(code));
    if (code) test::tell(test::message());
  }
  aclrtMemUceInfo faulty[1];
  size_t count = 0;
  EXPECT_OK(aclrtGetMemUceInfo(0, faulty, 1, &count));
  test::tell(count == 1 && faulty[0].addr == memory && faulty[0].len == 4 ? "this memory" : "no memory");
  return 0;
}

namespace {

struct Case {
  const char* fault;
  std::vector<std::string> lines;  // parts of them
};

std::vector<Case> launch_cases() {
  return {
      {"ecc@launch=2",
       {"0", "507054", "card 0 has a multi-bit error in its memory at aclrtMemsetAsync (SOFTNPU_FAULT=ecc@launch=2)",
        "0", "this memory"}},
      {"timeout@launch=2",
       {"0", "507014", "aclrtMemsetAsync did not end in time on card 0 (SOFTNPU_FAULT=timeout@launch=2)", "0",
        "no memory"}},
      {"lost@launch=2",
       {"0", "507010", "card 0 was lost at aclrtMemsetAsync (SOFTNPU_FAULT=lost@launch=2)", "507010", "card 0 was lost",
        "no memory"}},
      {"link@launch=1:card=0,timeout@launch=3",
       {"507056", "card 0 lost its link to other cards at aclrtMemsetAsync (SOFTNPU_FAULT=link@launch=1:card=0)", "0",
        "507014", "SOFTNPU_FAULT=timeout@launch=3", "no memory"}},
      {"ecc@launch=2:card=1", {"0", "0", "0", "no memory"}},
      {"ecc@collective=1", {"0", "0", "0", "no memory"}},
  };
}

}  // namespace

TEST(PlannedFaults, come_at_their_launch) {
  for (const Case& expected : launch_cases()) {
    test::Child child("launch_three_times", {std::string("SOFTNPU_FAULT=") + expected.fault});
    for (const std::string& part : expected.lines) {
      const std::string line = child.hear();
      EXPECT_NE(line.find(part), std::string::npos) << expected.fault << ": " << part << " is not in: " << line;
    }
    EXPECT_EQ(child.wait(), 0) << child.errors();
  }
}

CHILD(allocate_and_free) {
  EXPECT_OK(aclrtSetDevice(0));
  for (const size_t pages : {2, 4, 2, 4, 1, 8}) {
    void* memory = nullptr;
    const int code = aclrtMalloc(&memory, pages << 12, ACL_MEM_MALLOC_HUGE_FIRST);
    test::tell(std::to_string(code) + (code ? " " + test::message() : ""));
    if (memory) {
      EXPECT_OK(aclrtFree(memory));
    }
  }
  return 0;
}

TEST(PlannedFaults, an_allocation_fails_and_so_do_those_that_are_as_large) {
  test::Child child("allocate_and_free", {"SOFTNPU_FAULT=oom@allocation=2", "SOFTNPU_STRICT=0"});
  for (const char* expected : {"0", "207001", "0", "207001", "0", "207001"}) {
    const std::string line = child.hear();
    EXPECT_EQ(line.substr(0, line.find(' ')), expected) << line;
    if (line == "0") continue;
    for (const char* part :
         {"card 0 is out of memory", "allocation 2 was the first not to get", "(SOFTNPU_FAULT=oom@allocation=2)"})
      EXPECT_NE(line.find(part), std::string::npos) << part << " is not in: " << line;
  }
  EXPECT_EQ(child.wait(), 0) << child.errors();
}
