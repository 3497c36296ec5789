#include "runtime/records.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>

#include "child.h"

using softnpu::Record;
using softnpu::Records;
namespace fs = std::filesystem;

class RecordsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "softnpu_records.XXXXXX";
    parent_ = mkdtemp(name.data());
    folder_ = parent_ + "/records";
  }
  void TearDown() override { fs::remove_all(parent_); }
  size_t files() {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string parent_, folder_;
};

CHILD(hold_record) {
  Records records(getenv("RECORD_FOLDER"));
  records.own().used[3] = 1000;
  records.own().pending = 7;
  test::tell("ready");
  test::ask();
  return 0;
}

CHILD(open_records_twice) {
  for (int i = 0; i < 2; ++i)
    if (Records(getenv("RECORD_FOLDER")).shared()) return 1;
  return 0;
}

CHILD(open_records_under_a_limit) {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_FSIZE, &none);
  Records records(getenv("RECORD_FOLDER"));
  records.own().used[0] = 5;
  return records.own_name().empty() ? 0 : 1;
}

TEST_F(RecordsTest, folder_is_private) {
  Records records(folder_);
  struct stat status;
  ASSERT_EQ(stat(folder_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_TRUE(records.shared());
}

TEST_F(RecordsTest, folder_that_others_may_enter_is_not_used) {
  fs::create_directory(folder_);
  chmod(folder_.c_str(), 0755);
  Records records(folder_);
  EXPECT_FALSE(records.shared());
  records.own().used[0] = 5;  // counts for itself all the same
}

TEST_F(RecordsTest, folder_of_somebody_else_is_reported_once) {
  fs::create_directory(folder_);
  chmod(folder_.c_str(), 0755);
  test::Child child("open_records_twice", {"RECORD_FOLDER=" + folder_});
  EXPECT_EQ(child.wait(), 0);
  const std::string text = child.errors();
  const size_t first = text.find("belongs to another user or is open to others");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("softnpu:", first + 1), std::string::npos) << text;
}

// A file may have a length and no room on the disk: a write through its mapping would end the process.
TEST_F(RecordsTest, file_that_gets_no_room_is_not_used) {
  test::Child child("open_records_under_a_limit", {"RECORD_FOLDER=" + folder_});
  EXPECT_EQ(child.wait(), 0);
  EXPECT_NE(child.errors().find("has no room"), std::string::npos);
}

TEST_F(RecordsTest, symbolic_link_is_not_followed) {
  fs::create_directory(parent_ + "/elsewhere");
  fs::create_directory_symlink(parent_ + "/elsewhere", folder_);
  EXPECT_FALSE(Records(folder_).shared());
}

TEST_F(RecordsTest, sums_living_processes_and_removes_dead_ones) {
  Records records(folder_);
  const std::string variable = "RECORD_FOLDER=" + folder_;
  test::Child first("hold_record", {variable}), second("hold_record", {variable});
  ASSERT_EQ(first.hear(), "ready");
  ASSERT_EQ(second.hear(), "ready");
  {
    Records::Lock lock(records);
    Record sum = records.own();
    records.add_others(&sum);
    EXPECT_EQ(sum.used[3], 2000u);
    EXPECT_EQ(sum.pending, 14u);
  }
  EXPECT_EQ(files(), 4u);  // lock and three records
  first.kill(SIGKILL);
  first.wait();
  Records::Lock lock(records);
  Record sum = records.own();
  records.add_others(&sum);
  EXPECT_EQ(sum.used[3], 1000u);
  EXPECT_EQ(files(), 3u);
}

TEST_F(RecordsTest, record_of_another_layout_is_left_alone) {
  Records records(folder_);
  const std::string variable = "RECORD_FOLDER=" + folder_;
  test::Child child("hold_record", {variable});
  ASSERT_EQ(child.hear(), "ready");
  for (const auto& item : fs::directory_iterator(folder_)) {
    const std::string name = item.path().filename();
    if (name.find("use-" + std::to_string(child.pid())) != 0) continue;
    EXPECT_TRUE(records.is_live(name.c_str()));
    const int fd = open(item.path().c_str(), O_WRONLY);
    ASSERT_EQ(pwrite(fd, "another!", 8, 0), 8);
    close(fd);
  }
  Records::Lock lock(records);
  Record sum = records.own();
  records.add_others(&sum);
  EXPECT_EQ(sum.used[3], 0u);
}
