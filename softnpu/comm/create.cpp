#include "create.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <thread>

#include "runtime/config.h"
#include "runtime/context.h"
#include "runtime/error.h"

namespace softnpu::comm {

namespace {

std::shared_ptr<Communicator> create(const RootInfo& info, uint32_t ranks, uint32_t rank, int card, Settings settings,
                                     bool patient) {
  if (settings.name.empty()) settings.name = info.name;
  return std::make_shared<Communicator>(join(info, ranks, rank, card, patient), rank, card, std::move(settings));
}

std::string read_file(const char* path) {
  FILE* file = fopen(path, "re");
  if (!file) fail(ACL_ERROR_RT_FILE_OPEN, "rank table %s: %s", path, strerror(errno));
  std::string text;
  char part[4096];
  for (size_t got; (got = fread(part, 1, sizeof part, file)) != 0;) text.append(part, got);
  fclose(file);
  return text;
}

uint32_t count_of(const std::string& text, const char* word) {
  uint32_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

}  // namespace

std::shared_ptr<Communicator> create_from_root_info(const RootInfo& info, uint32_t ranks, uint32_t rank,
                                                    const HcclCommConfig* config) {
  return create(info, ranks, rank, current_context().card, read_settings(config), false);
}

std::vector<std::shared_ptr<Communicator>> create_for_devices(const std::vector<int>& devices) {
  std::vector<int> cards;
  for (int device : devices) {
    cards.push_back(card_of_device(device));
    if (!is_open(cards.back())) fail(ACL_ERROR_RT_CONTEXT_NULL, "device %d is not in use (aclrtSetDevice)", device);
  }
  const RootInfo info = found();
  const uint32_t ranks = static_cast<uint32_t>(devices.size());
  std::vector<std::shared_ptr<Communicator>> communicators(ranks);
  std::vector<std::exception_ptr> errors(ranks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        communicators[rank] = create(info, ranks, rank, cards[rank], read_settings(nullptr), false);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return communicators;
}

std::shared_ptr<Communicator> create_from_rank_table(const char* path, uint32_t rank, const HcclCommConfig* config) {
  const int card = current_context().card;
  const std::string text = read_file(path);
  const uint32_t ranks = count_of(text, "\"rank_id\"");
  if (ranks == 0) fail(ACL_ERROR_RT_PARAM_INVALID, "rank table %s has no \"rank_id\"", path);
  static std::atomic<uint64_t> uses{0};  // every communicator of one table gets a place of its own to meet
  const RootInfo info = derived_root_info(text + "#" + std::to_string(uses.fetch_add(1)));
  if (rank == 0) found(info);
  return create(info, ranks, rank, card, read_settings(config), true);
}

// The first member founds it and leaves the root info in the parent's control block, where the others find it.
std::shared_ptr<Communicator> create_sub_communicator(const std::shared_ptr<Communicator>& parent,
                                                      const std::vector<uint32_t>& members, uint64_t id, uint32_t rank,
                                                      const HcclCommConfig* config) {
  static_assert(sizeof(RootInfo) <= sizeof(RankState::invitation));
  if (members.empty() || rank >= members.size())
    fail(ACL_ERROR_RT_PARAM_INVALID, "subCommRankId %u is not below rankNum %zu", rank, members.size());
  for (uint32_t member : members)
    if (member >= parent->ranks())
      fail(ACL_ERROR_RT_PARAM_INVALID, "rankIds has %u, the communicator has %u ranks", member, parent->ranks());
  if (members[rank] != parent->rank())
    fail(ACL_ERROR_RT_PARAM_INVALID, "rankIds[%u] is %u, but the caller is rank %u", rank, members[rank],
         parent->rank());

  const uint32_t ranks = static_cast<uint32_t>(members.size());
  const uint32_t host = members[0];
  Settings settings = read_settings(config);
  std::lock_guard<std::mutex> lock(parent->invitation_mutex);
  RankState& state = parent->control().rank(host);
  if (rank == 0) {
    const RootInfo info = found();
    memcpy(state.invitation, &info, sizeof info);
    state.invitation_id = id;
    state.invitations.fetch_add(1, std::memory_order_seq_cst);
    parent->control().notify();
    return create(info, ranks, 0, parent->card(), std::move(settings), false);
  }
  const TimePoint deadline = std::chrono::steady_clock::now() + std::chrono::seconds(softnpu::config().connect_timeout);
  for (;;) {
    uint64_t& seen = parent->seen_invitations[host];
    const auto invited = [&] {
      return state.invitations.load(std::memory_order_seq_cst) > seen && state.invitation_id == id;
    };
    const auto expired = [&] { return std::chrono::steady_clock::now() >= deadline; };
    parent->wait({[&] { return invited() || expired(); }, [&](uint32_t other) { return other == host; },
                  [&] { return "sub-communicator " + std::to_string(id) + " of " + parent->name(); }, 0});
    if (!invited())
      fail(ACL_ERROR_RT_TASK_TIMEOUT, "sub-communicator %llu: rank %u did not come within %d s (HCCL_CONNECT_TIMEOUT)",
           (unsigned long long)id, host, softnpu::config().connect_timeout);
    seen = state.invitations.load(std::memory_order_seq_cst);
    RootInfo info;
    memcpy(&info, state.invitation, sizeof info);
    try {
      return create(info, ranks, rank, parent->card(), settings, false);
    } catch (const Failure& failure) {
      // An invitation to an earlier one with the same id, which this rank was not asked to: the next one is ours.
      if (failure.code != ACL_ERROR_RT_LOST_HEARTBEAT || expired()) throw;
    }
  }
}

}  // namespace softnpu::comm
