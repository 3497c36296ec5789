// SOFTNPU_STRICT: what HCCL may not survive is refused, and what it does survive is not.
#include "ranks.h"

using test::check;
using test::Rank;
using test::Values;

namespace {

// The sentence of a call that must be refused.
std::string refusal(HcclResult result) {
  if (result == HCCL_SUCCESS) throw std::runtime_error("was not refused");
  return test::message();
}
void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    if (text.find(part) == std::string::npos) throw std::runtime_error(std::string(part) + " is not in: " + text);
}

HcclResult sum(Rank& r, Values<float>& values, aclrtStream stream) {
  return HcclAllReduce(values, values, 4, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r.comm, stream);
}

void finish(const std::string& scenario, const char* strict) {
  test::World world(scenario, 2, {std::string("SOFTNPU_STRICT=") + strict});
  for (size_t rank = 0; rank < world.size(); ++rank) EXPECT_EQ(world[rank].hear(), "done");
}

}  // namespace

SCENARIO(two_streams) {
  Values<float> first(4, 1), second(4, 1);
  aclrtStream other = nullptr;
  aclrtEvent event = nullptr;
  check(aclrtCreateStream(&other));
  check(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  check(sum(r, first, r.stream));
  expect_parts(refusal(sum(r, second, other)), {"HcclAllReduce", "'comm'", "wait for an event", "SOFTNPU_STRICT"});
  check(aclrtRecordEvent(event, r.stream));
  check(aclrtStreamWaitEvent(other, event));
  check(sum(r, second, other));
  check(aclrtSynchronizeStream(other));
  check(sum(r, first, r.stream));  // the host has waited
  r.synchronize();
  test::expect_equal(first.host(), std::vector<float>(4, 4), "sum");
  check(aclrtDestroyStream(other));
  check(aclrtDestroyEvent(event));
}

TEST(StrictComm, a_communicator_is_used_by_one_stream_after_the_other) { finish("two_streams", "calls"); }

SCENARIO(reduced_types) {
  Values<double> doubles(4, 1);
  Values<uint8_t> bytes(4, 1);
  expect_parts(refusal(HcclAllReduce(doubles, doubles, 4, HCCL_DATA_TYPE_FP64, HCCL_REDUCE_SUM, r.comm, r.stream)),
               {"HcclAllReduce", "'dataType'", "float64", "convert", "SOFTNPU_STRICT=1"});
  expect_parts(refusal(HcclReduce(bytes, bytes, 4, HCCL_DATA_TYPE_UINT8, HCCL_REDUCE_MAX, 0, r.comm, r.stream)),
               {"HcclReduce", "'dataType'", "uint8", "convert"});
  check(HcclBroadcast(doubles, 4, HCCL_DATA_TYPE_FP64, 0, r.comm, r.stream));  // nothing computes
  r.synchronize();
}

TEST(StrictComm, a_reduction_has_a_type_that_hccl_computes_with) { finish("reduced_types", "1"); }

SCENARIO(any_type) {
  Values<double> doubles(4, 1);
  check(HcclAllReduce(doubles, doubles, 4, HCCL_DATA_TYPE_FP64, HCCL_REDUCE_SUM, r.comm, r.stream));
  r.synchronize();
  test::expect_equal(doubles.host(), std::vector<double>(4, 2), "sum");
}

TEST(StrictComm, calls_alone_leave_the_types) { finish("any_type", "calls"); }
