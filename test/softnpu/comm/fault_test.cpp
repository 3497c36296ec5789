// What goes wrong between ranks, and what the others are told.
#include "ranks.h"

#include <sys/resource.h>

using test::check;
using test::Rank;
using test::Values;

namespace {

void all_reduce(Rank& r, size_t count, HcclDataType type = HCCL_DATA_TYPE_FP32) {
  Values<double> a(count, 1.0);
  check(HcclAllReduce(a, a, count, type, HCCL_REDUCE_SUM, r.comm, r.stream));
  r.synchronize();
}

// The end of a process would release its peers: both live until both have been heard.
void stay_with_the_error(Rank& r) {
  try {
    r.synchronize();
  } catch (const std::exception& error) {
    test::tell(error.what());
    test::ask();
  }
}

}  // namespace

SCENARIO(rank_1_is_killed) {
  all_reduce(r, 10);
  if (r.rank == 1) {
    test::tell("waiting");
    test::ask();
  }
  all_reduce(r, 10);
}

TEST(Fault, killed_rank_is_named_by_the_others) {
  test::World world("rank_1_is_killed", 3);
  ASSERT_EQ(world[1].hear(), "waiting");
  world[1].kill(SIGKILL);
  for (uint32_t rank : {0, 2}) {
    const std::string error = world[rank].hear();
    const size_t first = error.find("all_reduce(float32, 10 elements, sum) #2");
    EXPECT_NE(first, std::string::npos) << error;
    EXPECT_EQ(error.find("all_reduce", first + 1), std::string::npos) << "said twice: " << error;
    EXPECT_NE(error.find("rank 1's process has ended"), std::string::npos) << error;
  }
}

SCENARIO(rank_0_is_killed_in_the_middle) {
  Values<float> a(1 << 22, 1.f);
  if (r.rank == 0) test::tell("begin");
  for (;;) {
    check(HcclAllReduce(a, a, 1 << 22, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_MAX, r.comm, r.stream));
    r.synchronize();
  }
}

TEST(Fault, root_killed_in_the_middle_is_named_too) {
  test::World world("rank_0_is_killed_in_the_middle", 2);
  ASSERT_EQ(world[0].hear(), "begin");
  usleep(200000);
  world[0].kill(SIGKILL);
  EXPECT_NE(world[1].hear().find("rank 0's process has ended"), std::string::npos);
}

SCENARIO(rank_1_never_comes) {
  if (r.rank == 1) {
    test::ask();
    return;
  }
  all_reduce(r, 10);
}

TEST(Fault, late_rank_is_named_when_the_time_is_up) {
  test::World world("rank_1_never_comes", 3, {"HCCL_EXEC_TIMEOUT=1"});
  for (uint32_t rank : {0, 2}) {
    const std::string error = world[rank].hear();
    EXPECT_NE(error.find("rank 1 did not come within 1 s"), std::string::npos) << error;
  }
  world[1].say("go");
  EXPECT_EQ(world[1].hear(), "done");
}

SCENARIO(different_counts) { all_reduce(r, r.rank == 1 ? 11 : 10); }
SCENARIO(different_types) { all_reduce(r, 10, r.rank == 1 ? HCCL_DATA_TYPE_FP64 : HCCL_DATA_TYPE_FP32); }
SCENARIO(different_order) {
  Values<float> a(20, 1.f);
  if (r.rank == 1)
    check(HcclBroadcast(a, 10, HCCL_DATA_TYPE_FP32, 0, r.comm, r.stream));
  else
    check(HcclAllReduce(a, a, 10, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r.comm, r.stream));
  r.synchronize();
}

TEST(Fault, disagreement_is_told_to_all_with_what_each_called) {
  const std::pair<const char*, const char*> cases[] = {
      {"different_counts",
       "rank 0 all_reduce(float32, 10 elements, sum), rank 1 all_reduce(float32, 11 elements, sum)"},
      {"different_types", "rank 0 all_reduce(float32, 10 elements, sum), rank 1 all_reduce(float64, 10 elements, sum)"},
      {"different_order",
       "rank 0 all_reduce(float32, 10 elements, sum), rank 1 broadcast(float32, 10 elements, root 0)"}};
  for (const auto& [scenario, expected] : cases) {
    test::World world(scenario, 2);
    for (uint32_t rank : {0, 1}) {
      const std::string error = world[rank].hear();
      EXPECT_NE(error.find(expected), std::string::npos) << scenario << ": " << error;
    }
  }
}

SCENARIO(different_sizes_of_a_message) {
  Values<float> a(20, 1.f);
  if (r.rank == 0)
    check(HcclSend(a, 10, HCCL_DATA_TYPE_FP32, 1, r.comm, r.stream));
  else
    check(HcclRecv(a, 20, HCCL_DATA_TYPE_FP32, 0, r.comm, r.stream));
  stay_with_the_error(r);
}

TEST(Fault, message_of_another_size_is_refused_on_both_sides) {
  test::World world("different_sizes_of_a_message", 2);
  for (uint32_t rank : {0, 1})
    EXPECT_NE(world[rank].hear().find("rank 0 sends 40 bytes of float32, rank 1 expects 80 bytes of float32"),
              std::string::npos);
}

SCENARIO(different_types_of_a_message) {
  Values<float> a(10, 1.f);
  check(r.rank == 0 ? HcclSend(a, 10, HCCL_DATA_TYPE_FP32, 1, r.comm, r.stream)
                    : HcclRecv(a, 10, HCCL_DATA_TYPE_INT32, 0, r.comm, r.stream));
  stay_with_the_error(r);
}

TEST(Fault, message_of_another_type_is_refused_on_both_sides) {
  test::World world("different_types_of_a_message", 2);
  for (uint32_t rank : {0, 1})
    EXPECT_NE(world[rank].hear().find("rank 0 sends 40 bytes of float32, rank 1 expects 40 bytes of int32"),
              std::string::npos);
}

SCENARIO(rank_1_leaves_early) {
  if (r.rank == 1) return;
  all_reduce(r, 10);
}

TEST(Fault, rank_that_left_is_named) {
  test::World world("rank_1_leaves_early", 2);
  EXPECT_EQ(world[1].hear(), "done");
  const std::string error = world[0].hear();
  EXPECT_TRUE(error.find("rank 1 has destroyed its communicator") != std::string::npos) << error;
}

SCENARIO(destroyed_while_it_waits) {
  if (r.rank == 1) {
    test::ask();
    return;
  }
  Values<float> a(10, 1.f);
  check(HcclAllReduce(a, a, 10, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r.comm, r.stream));
  check(HcclCommDestroy(r.comm));
  const int code = aclrtSynchronizeStream(r.stream);
  if (code != ACL_ERROR_RT_STREAM_ABORT) throw std::runtime_error("code " + std::to_string(code));
  test::tell("ended");
  check(HcclGetRootInfo(nullptr) == HCCL_E_PTR ? 0 : 1);
  HcclResult error;
  if (HcclGetCommAsyncError(r.comm, &error) != HCCL_E_PARA) throw std::runtime_error("stale handle accepted");
  _exit(0);
}

TEST(Fault, destroying_ends_what_waits) {
  test::World world("destroyed_while_it_waits", 2);
  EXPECT_EQ(world[0].hear(), "ended");
  world[1].say("go");
  EXPECT_EQ(world[1].hear(), "done");
}

SCENARIO(error_is_kept) {
  if (r.rank == 1) _exit(0);
  try {
    all_reduce(r, 10);
  } catch (const std::exception&) {
  }
  HcclResult error = HCCL_SUCCESS;
  check(HcclGetCommAsyncError(r.comm, &error));
  if (error != HCCL_E_REMOTE) throw std::runtime_error("async error " + std::to_string(error));
  if (HcclCommResume(r.comm) != HCCL_E_REMOTE) throw std::runtime_error("resumed");
  all_reduce(r, 10);  // fails with the same words
}

TEST(Fault, asynchronous_error_stays_with_the_communicator) {
  test::World world("error_is_kept", 2);
  EXPECT_NE(world[0].hear().find("rank 1's process has ended"), std::string::npos);
}

SCENARIO(counts_that_do_not_fit) {
  Values<float> a(10, 1.f);
  constexpr uint64_t quarter = uint64_t{1} << 62;  // of 4 bytes each: 0 bytes, if nobody looks
  const auto refused = [&](HcclResult result) { check(result == HCCL_E_PARA ? 0 : 1); };
  refused(HcclAllReduce(a, a, quarter, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r.comm, r.stream));
  refused(HcclAllGather(a, a, uint64_t{1} << 63, HCCL_DATA_TYPE_INT8, r.comm, r.stream));
  refused(HcclSend(a, quarter, HCCL_DATA_TYPE_FP32, 1 - r.rank, r.comm, r.stream));
  const uint64_t counts[] = {1, 1}, offsets[] = {0, UINT64_MAX};
  refused(HcclAlltoAllV(a, counts, offsets, HCCL_DATA_TYPE_FP32, a, counts, offsets, HCCL_DATA_TYPE_FP32, r.comm,
                        r.stream));
  all_reduce(r, 10);  // the communicator has seen nothing of it
}

TEST(Fault, counts_that_do_not_fit_are_refused) {
  for (const std::string& error : test::run_threads("counts_that_do_not_fit", 2)) EXPECT_EQ(error, "");
}

// ---- While the ranks come together ----

class Rendezvous : public test::OnCard {};

TEST_F(Rendezvous, names_the_ranks_that_do_not_come) {
  test::Child rank("rank", {"HCCL_CONNECT_TIMEOUT=1"});
  for (const char* line : {"all_collectives", "3", "0"}) rank.say(line);
  rank.hear();
  EXPECT_NE(rank.hear().find("ranks 1, 2 of 3 did not come within 1 s"), std::string::npos);
}

TEST_F(Rendezvous, refuses_who_does_not_know_the_secret) {
  HcclRootInfo info{};
  ASSERT_EQ(HcclGetRootInfo(&info), HCCL_SUCCESS);
  info.internal[30] ^= 1;
  HcclComm comm = nullptr;
  EXPECT_EQ(HcclCommInitRootInfo(2, &info, 1, &comm), HCCL_E_UNAVAIL);
  EXPECT_NE(test::message().find("secret"), std::string::npos);
  memset(&info, 0, sizeof info);
  EXPECT_EQ(HcclCommInitRootInfo(2, &info, 1, &comm), HCCL_E_PARA);
}

TEST_F(Rendezvous, stale_root_info_fails_at_once) {
  test::Child founder("rank");
  for (const char* line : {"all_collectives", "2", "0"}) founder.say(line);
  const HcclRootInfo info = test::unhex(founder.hear());
  founder.kill(SIGKILL);
  founder.wait();
  HcclComm comm = nullptr;
  EXPECT_EQ(HcclCommInitRootInfo(2, &info, 1, &comm), HCCL_E_REMOTE);
  EXPECT_NE(test::message().find("nobody listens"), std::string::npos);
}

TEST_F(Rendezvous, rank_that_dies_on_the_way_is_named) {
  HcclRootInfo info{};
  ASSERT_EQ(HcclGetRootInfo(&info), HCCL_SUCCESS);
  test::Child other("rank");
  for (const char* line : {"all_collectives", "3", "1"}) other.say(line);
  other.say(test::hex(info));
  HcclComm comm = nullptr;
  int code = HCCL_SUCCESS;
  std::string text;
  std::thread joining([&] {
    check(aclrtSetDevice(0));
    code = HcclCommInitRootInfo(3, &info, 0, &comm);
    text = test::message();
  });
  sleep(1);
  other.kill(SIGKILL);
  joining.join();
  EXPECT_EQ(code, HCCL_E_REMOTE);
  EXPECT_NE(text.find("rank 1 went away"), std::string::npos) << text;
}

TEST_F(Rendezvous, contradictions_are_refused) {
  HcclRootInfo info{};
  ASSERT_EQ(HcclGetRootInfo(&info), HCCL_SUCCESS);
  HcclComm comm = nullptr;
  EXPECT_EQ(HcclCommInitRootInfo(2, &info, 2, &comm), HCCL_E_PARA);
  EXPECT_EQ(HcclCommInitRootInfo(0, &info, 0, &comm), HCCL_E_PARA);
  EXPECT_EQ(HcclCommInitRootInfo(2, nullptr, 0, &comm), HCCL_E_PTR);
  EXPECT_EQ(HcclCommInitRootInfo(2, &info, 0, nullptr), HCCL_E_PTR);
}

// With few descriptors left a rank cannot hold those of its peers: all ranks fail, and say which one it was.
SCENARIO(nothing) {}
CHILD(rank_with_few_descriptors) {
  check(aclrtSetDevice(0));
  int highest = dup(0);
  close(highest);
  const rlimit limit{static_cast<rlim_t>(highest + 3), static_cast<rlim_t>(highest + 3)};
  setrlimit(RLIMIT_NOFILE, &limit);
  const HcclRootInfo info = test::unhex(test::ask());
  HcclComm comm = nullptr;
  const int code = HcclCommInitRootInfo(2, &info, 1, &comm);
  test::tell(std::to_string(code) + " " + test::message());
  return 0;
}

TEST_F(Rendezvous, descriptor_limit_is_named_by_all) {
  test::Child first("rank"), second("rank_with_few_descriptors");
  for (const char* line : {"nothing", "2", "0"}) first.say(line);
  second.say(first.hear());
  const std::string own = second.hear(), others = first.hear();
  EXPECT_NE(own.find("ulimit -n"), std::string::npos) << own;
  EXPECT_NE(others.find("rank 1"), std::string::npos) << others;
}

TEST_F(Rendezvous, rounds_leave_nothing_behind) {
  const auto descriptors = [] {
    int count = 0;
    for (int fd = 0; fd < 1024; ++fd) count += fcntl(fd, F_GETFD) >= 0;
    return count;
  };
  int before = 0;
  for (int round = 0; round < 30; ++round) {
    for (const std::string& error : test::run_threads("nothing", 2)) EXPECT_EQ(error, "");
    usleep(2000);  // the root's thread closes its socket after the last word
    if (round == 2) before = descriptors();
  }
  EXPECT_LE(descriptors(), before + 2);
}
