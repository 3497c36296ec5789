#include "resource_limits.h"

#include <atomic>

#include "config.h"
#include "context.h"
#include "error.h"
#include "soc.h"
#include "stream.h"

namespace softnpu {

namespace {

constexpr int kTypes = 2;
std::atomic<uint32_t> g_device_limits[kMaxCards][kTypes];  // 0: all cores
thread_local Stream* t_stream = nullptr;

uint32_t cores(aclrtDevResLimitType type) {
  switch (type) {
    case ACL_RT_DEV_RES_CUBE_CORE:
      return checked_config().soc->cube_cores;
    case ACL_RT_DEV_RES_VECTOR_CORE:
      return checked_config().soc->vector_cores;
  }
  fail(ACL_ERROR_RT_PARAM_INVALID, "type %d is no resource", static_cast<int>(type));
}

void check_limit(aclrtDevResLimitType type, uint32_t value) {
  if (value == 0 || value > cores(type))
    fail(ACL_ERROR_RT_PARAM_INVALID, "value %u is not in 1 to %u, the cores of the chip", value, cores(type));
}

}  // namespace

uint32_t device_limit(int card, aclrtDevResLimitType type) {
  const uint32_t all = cores(type), limit = g_device_limits[card][type];
  return limit ? limit : all;
}

void set_device_limit(int card, aclrtDevResLimitType type, uint32_t value) {
  check_limit(type, value);
  g_device_limits[card][type] = value;
}

void reset_device_limits(int card) {
  for (auto& limit : g_device_limits[card]) limit = 0;
}

uint32_t stream_limit(const Stream& stream, aclrtDevResLimitType type) {
  const uint32_t device = device_limit(stream.context().card, type), limit = stream.limits[type];
  return limit ? limit : device;
}

void set_stream_limit(Stream& stream, aclrtDevResLimitType type, uint32_t value) {
  check_limit(type, value);
  stream.limits[type] = value;
}

void reset_stream_limits(Stream& stream) {
  for (auto& limit : stream.limits) limit = 0;
}

void use_stream_limits(Stream* stream) { t_stream = stream; }

uint32_t thread_limit(aclrtDevResLimitType type) {
  if (t_stream && t_stream->alive()) return stream_limit(*t_stream, type);
  return device_limit(current_context().card, type);
}

}  // namespace softnpu
