#include "rendezvous.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "host.h"
#include "reception.h"
#include "runtime/config.h"
#include "runtime/error.h"
#include "runtime/memory.h"

namespace softnpu::comm {

namespace {

constexpr uint64_t kMagic = 0x3172'656d'6f63'6e73;

void fill_random(void* data, size_t bytes) {
  if (getrandom(data, bytes, 0) != static_cast<ssize_t>(bytes))
    fail(ACL_ERROR_RT_INTERNAL_ERROR, "getrandom: %s", strerror(errno));
}

RootInfo blank_info() {
  RootInfo info{};
  info.magic = kMagic;
  const HostIdentity host = host_identity();
  memcpy(info.host, host.data(), sizeof info.host);
  return info;
}

[[noreturn]] void throw_lost(const RootInfo& info, const char* when) {
  Reception::throw_failure_of(info.name);
  fail(ACL_ERROR_RT_LOST_HEARTBEAT, "the process that gave the root info went away %s: its own error says why", when);
}

}  // namespace

RootInfo found() {
  RootInfo info = blank_info();
  uint64_t nonce[2];
  fill_random(nonce, sizeof nonce);
  fill_random(info.secret, sizeof info.secret);
  snprintf(info.name, sizeof info.name, "softnpu-%016llx%016llx", (unsigned long long)nonce[0],
           (unsigned long long)nonce[1]);
  found(info);
  return info;
}

void found(const RootInfo& info) { Reception::open(info, config().connect_timeout); }

RootInfo derived_root_info(const std::string& text) {
  RootInfo info = blank_info();
  uint64_t words[4];
  for (uint64_t i = 0; i < 4; ++i) {  // FNV-1a, each with another start
    words[i] = 0xcbf29ce484222325ull ^ (i * 0x9e3779b97f4a7c15ull);
    for (unsigned char c : text) words[i] = (words[i] ^ c) * 0x100000001b3ull;
  }
  memcpy(info.secret, words, sizeof info.secret);
  snprintf(info.name, sizeof info.name, "softnpu-%u-%016llx%016llx", static_cast<unsigned>(geteuid()),
           (unsigned long long)words[2], (unsigned long long)words[3]);
  return info;
}

Membership join(const RootInfo& info, uint32_t ranks, uint32_t rank, int card, bool patient) {
  if (info.magic != kMagic) fail(ACL_ERROR_RT_PARAM_INVALID, "rootInfo was not made by HcclGetRootInfo of softnpu");
  if (ranks == 0 || ranks > kMaxRanks)
    fail(ACL_ERROR_RT_PARAM_INVALID, "nRanks %u is not in 1 to %u", ranks, kMaxRanks);
  if (rank >= ranks) fail(ACL_ERROR_RT_PARAM_INVALID, "rank %u is not below nRanks %u", rank, ranks);
  const HostIdentity host = host_identity();
  if (memcmp(info.host, host.data(), sizeof info.host) != 0)
    fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
         "rank %u is on another host (or network namespace) than the root; softnpu connects ranks of one host", rank);

  // The founder's clock decides about late ranks, because it knows who they are: a little longer here.
  const TimePoint deadline = std::chrono::steady_clock::now() + std::chrono::seconds(config().connect_timeout + 5);
  Descriptor socket = connect_to(info.name, patient ? deadline : TimePoint{});
  if (!socket) {
    Reception::throw_failure_of(info.name);
    fail(ACL_ERROR_RT_LOST_HEARTBEAT,
         "nobody listens under this root info: the process that made it has ended or failed (its own error says why), "
         "or the root info is one of an earlier run or was used up");
  }
  if (!same_user(socket.get())) fail(ACL_ERROR_RT_NO_PERMISSION, "the root info leads to a process of another user");

  Hello hello{};
  hello.magic = kMagic;
  memcpy(hello.secret, info.secret, sizeof hello.secret);
  hello.ranks = ranks;
  hello.rank = rank;
  if (!send_message(socket.get(), &hello, sizeof hello, {card_file(card), own_life_line()}))
    throw_lost(info, "before this rank could join");

  Membership membership;
  Verdict verdict{};
  std::string trouble;
  try {
    std::vector<Descriptor> descriptors;
    if (!receive_message(socket.get(), &verdict, sizeof verdict, &descriptors, deadline))
      throw_lost(info, "while the ranks came together");
    if (verdict.code != 0) throw Failure(verdict.code, verdict.text);
    if (descriptors.size() != 1) fail(ACL_ERROR_RT_INTERNAL_ERROR, "the root sent no control block");
    membership.control = std::make_unique<ControlBlock>(std::move(descriptors[0]), ranks);
    for (uint32_t i = 0; i < ranks; ++i) {
      uint32_t who = 0;
      descriptors.clear();
      if (!receive_message(socket.get(), &who, sizeof who, &descriptors, deadline))
        throw_lost(info, "while the ranks came together");
      if (who != i || descriptors.size() != 2)
        fail(ACL_ERROR_RT_INTERNAL_ERROR, "the root sent no memory of rank %u", i);
      membership.peers.push_back(Peer::open(std::move(descriptors[0]), std::move(descriptors[1])));
    }
    verdict.text[0] = '\0';
  } catch (const Failure& failure) {
    verdict.code = failure.code;
    snprintf(verdict.text, sizeof verdict.text, "%s", failure.what());
  }
  send_message(socket.get(), &verdict, sizeof verdict, {});
  if (verdict.code != 0) throw Failure(verdict.code, verdict.text);
  if (!receive_message(socket.get(), &verdict, sizeof verdict, nullptr, deadline))
    throw_lost(info, "while the ranks came together");
  if (verdict.code != 0) throw Failure(verdict.code, verdict.text);
  return membership;
}

}  // namespace softnpu::comm
