#include "runtime/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

using namespace softnpu;

namespace {

class HugePages : public testing::Test {
 protected:
  HugePages() : fd_(memfd_create("test", MFD_CLOEXEC)) { EXPECT_EQ(ftruncate(fd_, 8 * kHugePage), 0); }
  ~HugePages() override { close(fd_); }
  size_t committed() const {
    struct stat s{};
    EXPECT_EQ(fstat(fd_, &s), 0);
    return static_cast<size_t>(s.st_blocks) * 512;
  }
  int fd_;
};

TEST_F(HugePages, only_whole_blocks_inside_the_range_are_committed) {
  commit_huge_pages(fd_, kHugePage / 2, 3 * kHugePage);  // holds two whole blocks
  EXPECT_GT(committed(), 0u);
  EXPECT_LE(committed(), 2 * kHugePage);
}

TEST_F(HugePages, a_range_without_a_whole_block_stays_empty) {
  commit_huge_pages(fd_, 4096, 2 * kHugePage - 8192);
  EXPECT_EQ(committed(), 0u);
}

TEST_F(HugePages, new_memory_is_zero_and_can_be_returned) {
  commit_huge_pages(fd_, 0, 4 * kHugePage);
  auto* memory = static_cast<char*>(mmap(nullptr, 4 * kHugePage, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_TRUE(std::all_of(memory, memory + 4 * kHugePage, [](char c) { return c == 0; }));
  munmap(memory, 4 * kHugePage);
  ASSERT_EQ(ftruncate(fd_, 0), 0);
  EXPECT_EQ(committed(), 0u);
}

}  // namespace
