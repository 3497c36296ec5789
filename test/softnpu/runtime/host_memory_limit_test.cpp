#include "runtime/host_memory_limit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using softnpu::read_host_memory;
namespace fs = std::filesystem;

class HostMemoryLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "softnpu_limits.XXXXXX";
    root_ = mkdtemp(name.data());
    write("/proc/meminfo", "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    600 kB\nBuffers: 1 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(HostMemoryLimit, without_groups_is_the_machine) {
  const auto memory = read_host_memory(root_);
  EXPECT_EQ(memory.limit, 1000u << 10);
  EXPECT_EQ(memory.available, 600u << 10);
}

TEST_F(HostMemoryLimit, group_of_version_2_counts_with_all_its_parents) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  write("/sys/fs/cgroup/a/memory.max", "500000\n");
  write("/sys/fs/cgroup/a/memory.current", "300000\n");
  write("/sys/fs/cgroup/a/memory.stat", "anon 200000\ninactive_file 100000\n");
  const auto memory = read_host_memory(root_);
  EXPECT_EQ(memory.limit, 500000u);
  EXPECT_EQ(memory.available, 300000u);  // page cache is given back
}

TEST_F(HostMemoryLimit, group_of_version_1_is_found_by_its_controller) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/c\n");
  write("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "400000\n");
  write("/sys/fs/cgroup/memory/c/memory.usage_in_bytes", "399000\n");
  write("/sys/fs/cgroup/memory/c/memory.stat", "cache 5\ntotal_inactive_file 0\n");
  const auto memory = read_host_memory(root_);
  EXPECT_EQ(memory.limit, 400000u);
  EXPECT_EQ(memory.available, 1000u);
}

TEST_F(HostMemoryLimit, container_root_has_its_limit_at_the_mount) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", "250000\n");
  write("/sys/fs/cgroup/memory.current", "260000\n");
  const auto memory = read_host_memory(root_);
  EXPECT_EQ(memory.limit, 250000u);
  EXPECT_EQ(memory.available, 0u);
}

TEST_F(HostMemoryLimit, limit_above_the_machine_is_none) {
  write("/proc/self/cgroup", "4:memory:/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(read_host_memory(root_).limit, 1000u << 10);
}

TEST(HostMemory, of_this_machine_makes_sense) {
  const auto memory = read_host_memory();
  EXPECT_GT(memory.limit, size_t{64} << 20);
  EXPECT_LE(memory.available, memory.limit);
}
