// Every collective against results computed on the host, in threads and in processes.
#include <cmath>

#include "ranks.h"

using test::check;
using test::expect_equal;
using test::Rank;
using test::Values;

namespace {

// Distinct for each rank and element, small enough for int8.
template <class T>
T value(uint32_t rank, size_t i) {
  return static_cast<T>(1 + (rank * 3 + i) % 5);
}
template <class T>
std::vector<T> values(uint32_t rank, size_t count) {
  std::vector<T> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = value<T>(rank, i);
  return all;
}

template <class T>
T apply(HcclReduceOp op, T a, T b) {
  switch (op) {
    case HCCL_REDUCE_SUM:
      return static_cast<T>(a + b);
    case HCCL_REDUCE_PROD:
      return static_cast<T>(a * b);
    case HCCL_REDUCE_MAX:
      return std::max(a, b);
    default:
      return std::min(a, b);
  }
}
template <class T>
std::vector<T> reduced(HcclReduceOp op, uint32_t ranks, size_t count) {
  std::vector<T> result = values<T>(0, count);
  for (uint32_t rank = 1; rank < ranks; ++rank)
    for (size_t i = 0; i < count; ++i) result[i] = apply(op, result[i], value<T>(rank, i));
  return result;
}

template <class T>
void reductions(Rank& r, size_t count) {
  for (HcclReduceOp op : {HCCL_REDUCE_SUM, HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN}) {
    const std::vector<T> expected = reduced<T>(op, r.ranks, count);
    Values<T> send(values<T>(r.rank, count)), recv(count, T{}), in_place(values<T>(r.rank, count));
    check(HcclAllReduce(send, recv, count, test::hccl_type<T>(), op, r.comm, r.stream));
    check(HcclAllReduce(in_place, in_place, count, test::hccl_type<T>(), op, r.comm, r.stream));
    r.synchronize();
    expect_equal(recv.host(), expected, "all_reduce");
    expect_equal(in_place.host(), expected, "all_reduce in place");
    expect_equal(send.host(), values<T>(r.rank, count), "input of all_reduce");

    Values<T> at_root(count, T{7});
    check(HcclReduce(send, at_root, count, test::hccl_type<T>(), op, r.ranks - 1, r.comm, r.stream));
    r.synchronize();
    expect_equal(at_root.host(), r.rank == r.ranks - 1 ? expected : std::vector<T>(count, T{7}), "reduce");

    const size_t all = count * r.ranks;
    const std::vector<T> everything = reduced<T>(op, r.ranks, all);
    Values<T> wide(values<T>(r.rank, all)), part(count, T{});
    check(HcclReduceScatter(wide, part, count, test::hccl_type<T>(), op, r.comm, r.stream));
    r.synchronize();
    expect_equal(part.host(), {everything.begin() + r.rank * count, everything.begin() + (r.rank + 1) * count},
                 "reduce_scatter");
  }
}

template <class T>
void copies(Rank& r, size_t count) {
  const HcclDataType type = test::hccl_type<T>();
  Values<T> broadcast(values<T>(r.rank, count)), mine(values<T>(r.rank, count)), gathered(count * r.ranks, T{});
  check(HcclBroadcast(broadcast, count, type, r.ranks - 1, r.comm, r.stream));
  check(HcclAllGather(mine, gathered, count, type, r.comm, r.stream));
  Values<T> wide(values<T>(r.rank, count * r.ranks)), scattered(count, T{}), exchanged(count * r.ranks, T{});
  check(HcclScatter(wide, scattered, count, type, 0, r.comm, r.stream));
  check(HcclAlltoAll(wide, count, type, exchanged, count, type, r.comm, r.stream));
  r.synchronize();
  expect_equal(broadcast.host(), values<T>(r.ranks - 1, count), "broadcast");
  std::vector<T> all, pieces;
  const auto part_of = [&](uint32_t owner, uint32_t index) {
    const std::vector<T> whole = values<T>(owner, count * r.ranks);
    return std::vector<T>(whole.begin() + index * count, whole.begin() + (index + 1) * count);
  };
  for (uint32_t rank = 0; rank < r.ranks; ++rank) {
    for (T x : values<T>(rank, count)) all.push_back(x);
    for (T x : part_of(rank, r.rank)) pieces.push_back(x);
  }
  expect_equal(gathered.host(), all, "all_gather");
  expect_equal(scattered.host(), part_of(0, r.rank), "scatter");
  expect_equal(exchanged.host(), pieces, "all_to_all");
}

// Rank i has i + 1 elements for each; rank i sends i + j elements to rank j.
void uneven(Rank& r) {
  const uint32_t n = r.ranks;
  std::vector<uint64_t> counts(n), offsets(n), to(n), to_at(n), from(n), from_at(n);
  uint64_t total = 0, sent = 0, received = 0;
  std::vector<float> all;
  for (uint32_t rank = 0; rank < n; ++rank) {
    counts[rank] = rank + 1;
    offsets[rank] = total;
    total += counts[rank];
    for (float x : values<float>(rank, counts[rank])) all.push_back(x);
    to[rank] = from[rank] = rank + r.rank;
    to_at[rank] = sent;
    from_at[rank] = received;
    sent += to[rank];
    received += from[rank];
  }
  Values<float> mine(values<float>(r.rank, r.rank + 1)), gathered(total, 0.f);
  check(
      HcclAllGatherV(mine, r.rank + 1, gathered, counts.data(), offsets.data(), HCCL_DATA_TYPE_FP32, r.comm, r.stream));
  Values<float> wide(values<float>(r.rank, total)), part(r.rank + 1, 0.f);
  check(HcclReduceScatterV(wide, counts.data(), offsets.data(), part, r.rank + 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM,
                           r.comm, r.stream));
  Values<float> outgoing(sent, static_cast<float>(r.rank)), incoming(received, -1.f);
  check(HcclAlltoAllV(outgoing, to.data(), to_at.data(), HCCL_DATA_TYPE_FP32, incoming, from.data(), from_at.data(),
                      HCCL_DATA_TYPE_FP32, r.comm, r.stream));
  r.synchronize();
  expect_equal(gathered.host(), all, "all_gather_v");
  const std::vector<float> sums = reduced<float>(HCCL_REDUCE_SUM, n, total);
  expect_equal(part.host(), {sums.begin() + offsets[r.rank], sums.begin() + offsets[r.rank] + r.rank + 1},
               "reduce_scatter_v");
  std::vector<float> expected;
  for (uint32_t rank = 0; rank < n; ++rank) expected.insert(expected.end(), from[rank], static_cast<float>(rank));
  expect_equal(incoming.host(), expected, "all_to_all_v");
}

}  // namespace

SCENARIO(all_collectives) {
  for (size_t count : {size_t{0}, size_t{1}, size_t{17}, size_t{300001}}) {
    reductions<float>(r, count);
    copies<float>(r, count);
  }
  reductions<double>(r, 1001);
  reductions<int8_t>(r, 33);
  reductions<uint8_t>(r, 33);
  reductions<int32_t>(r, 1001);
  reductions<int64_t>(r, 100000);
  copies<int8_t>(r, 1000003);
  uneven(r);
}

// Two neighbours at a time, then everything at once in a batch, then more than fit between two ranks, in a group.
SCENARIO(transfers) {
  const uint32_t next = (r.rank + 1) % r.ranks, previous = (r.rank + r.ranks - 1) % r.ranks;
  Values<float> mine(1000, static_cast<float>(r.rank)), other(1000, -1.f);
  if (r.rank % 2 == 0) {
    check(HcclSend(mine, 1000, HCCL_DATA_TYPE_FP32, r.rank + 1, r.comm, r.stream));
  } else {
    check(HcclRecv(other, 1000, HCCL_DATA_TYPE_FP32, r.rank - 1, r.comm, r.stream));
    r.synchronize();
    expect_equal(other.host(), std::vector<float>(1000, static_cast<float>(r.rank - 1)), "recv");
  }
  HcclSendRecvItem items[] = {{HCCL_SEND, mine, 1000, HCCL_DATA_TYPE_FP32, next},
                              {HCCL_RECV, other, 1000, HCCL_DATA_TYPE_FP32, previous}};
  check(HcclBatchSendRecv(items, 2, r.comm, r.stream));
  r.synchronize();
  expect_equal(other.host(), std::vector<float>(1000, static_cast<float>(previous)), "batch");

  std::vector<std::unique_ptr<Values<int32_t>>> out, in;
  check(HcclGroupStart());
  for (int i = 0; i < 20; ++i) {
    out.push_back(std::make_unique<Values<int32_t>>(100, static_cast<int32_t>(r.rank * 100 + i)));
    in.push_back(std::make_unique<Values<int32_t>>(100, -1));
    check(HcclSend(*out[i], 100, HCCL_DATA_TYPE_INT32, next, r.comm, r.stream));
    check(HcclRecv(*in[i], 100, HCCL_DATA_TYPE_INT32, previous, r.comm, r.stream));
  }
  check(HcclGroupEnd());
  r.synchronize();
  for (int i = 0; i < 20; ++i)
    expect_equal(in[i]->host(), std::vector<int32_t>(100, static_cast<int32_t>(previous * 100 + i)), "group");
}

// The host's order counts, also when a collective is on another stream than the one before.
SCENARIO(several_streams) {
  aclrtStream other = nullptr;
  check(aclrtCreateStream(&other));
  Values<float> a(50000, 1.f), b(10, 1.f);
  for (int i = 0; i < 20; ++i) {
    check(HcclAllReduce(a, a, 50000, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_MAX, r.comm, r.stream));
    check(HcclAllReduce(b, b, 10, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r.comm, other));
  }
  check(aclrtSynchronizeStream(other));
  r.synchronize();
  expect_equal(b.host(), std::vector<float>(10, std::pow(static_cast<float>(r.ranks), 20.f)), "sum");
  check(aclrtDestroyStream(other));
}

// Submitting returns though nobody else is there yet; the work behind it waits in the stream.
SCENARIO(submit_does_not_wait) {
  Values<float> a(4, 1.f);
  if (r.rank == 0) {
    check(HcclAllReduce(a, a, 4, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r.comm, r.stream));
    aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
    check(aclrtStreamQuery(r.stream, &status));
    if (status == ACL_STREAM_STATUS_COMPLETE) throw std::runtime_error("complete without its peers");
    test::tell("submitted");
  } else {
    test::ask();
    check(HcclAllReduce(a, a, 4, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r.comm, r.stream));
  }
  r.synchronize();
  expect_equal(a.host(), std::vector<float>(4, static_cast<float>(r.ranks)), "sum");
}

// Disjoint halves, then everyone in reverse order, then the same again: ids may be used again.
SCENARIO(sub_communicators) {
  for (int round = 0; round < 3; ++round) {
    std::vector<uint32_t> members;
    for (uint32_t rank = r.rank % 2; rank < r.ranks; rank += 2) members.push_back(rank);
    HcclComm half = nullptr, reversed = nullptr;
    check(HcclCreateSubCommConfig(&r.comm, members.size(), members.data(), 5, r.rank / 2, nullptr, &half));
    std::vector<uint32_t> all(r.ranks);
    for (uint32_t rank = 0; rank < r.ranks; ++rank) all[rank] = r.ranks - 1 - rank;
    check(HcclCreateSubCommConfig(&r.comm, r.ranks, all.data(), 5, r.ranks - 1 - r.rank, nullptr, &reversed));
    Values<float> a(3, static_cast<float>(r.rank)), b(1, static_cast<float>(r.rank));
    check(HcclAllReduce(a, a, 3, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, half, r.stream));
    check(HcclBroadcast(b, 1, HCCL_DATA_TYPE_FP32, 0, reversed, r.stream));
    r.synchronize();
    float sum = 0;
    for (uint32_t member : members) sum += static_cast<float>(member);
    expect_equal(a.host(), std::vector<float>(3, sum), "half");
    expect_equal(b.host(), {static_cast<float>(r.ranks - 1)}, "reversed");
    check(HcclCommDestroy(half));
    check(HcclCommDestroy(reversed));
  }
}

class Collective : public ::testing::TestWithParam<std::pair<const char*, uint32_t>> {};

TEST_P(Collective, works_between_threads) {
  if (std::string(GetParam().first) == "submit_does_not_wait") GTEST_SKIP() << "talks to a parent process";
  for (const std::string& error : test::run_threads(GetParam().first, GetParam().second)) EXPECT_EQ(error, "");
}

TEST_P(Collective, works_between_processes) {
  test::World world(GetParam().first, GetParam().second);
  if (std::string(GetParam().first) == "submit_does_not_wait") {
    EXPECT_EQ(world[0].hear(), "submitted");
    for (uint32_t rank = 1; rank < world.size(); ++rank) world[rank].say("go");
  }
  for (uint32_t rank = 0; rank < world.size(); ++rank) EXPECT_EQ(world[rank].hear(), "done") << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Collective,
                         ::testing::Values(std::pair{"all_collectives", 1u}, std::pair{"all_collectives", 2u},
                                           std::pair{"all_collectives", 3u}, std::pair{"transfers", 2u},
                                           std::pair{"transfers", 4u}, std::pair{"several_streams", 2u},
                                           std::pair{"submit_does_not_wait", 2u}, std::pair{"sub_communicators", 4u}),
                         [](const auto& info) {
                           return std::string(info.param.first) + "_" + std::to_string(info.param.second);
                         });
