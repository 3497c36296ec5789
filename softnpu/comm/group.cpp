#include "group.h"

#include "runtime/error.h"

namespace softnpu::comm {

namespace {

struct Item {
  std::shared_ptr<Communicator> communicator;
  aclrtStream stream;
  Request request;  // or, when its kind is none,
  std::vector<Transfer> transfers;
};

struct Group {
  int depth = 0;
  std::vector<Item> items;
};
thread_local Group t_group;

void submit_now(Item& item) {
  if (item.request.kind != Kind::none)
    submit_collective(std::move(item.communicator), std::move(item.request), item.stream);
  else
    submit_transfers(std::move(item.communicator), item.transfers, item.stream);
}

}  // namespace

void start_group() { ++t_group.depth; }

void end_group() {
  if (t_group.depth == 0) fail(ACL_ERROR_RT_PARAM_INVALID, "HcclGroupEnd without HcclGroupStart");
  if (--t_group.depth != 0) return;
  std::vector<Item> items;
  items.swap(t_group.items);
  for (Item& item : items) submit_now(item);
}

void enqueue(std::shared_ptr<Communicator> communicator, Request request, aclrtStream stream) {
  Item item{std::move(communicator), stream, std::move(request), {}};
  if (t_group.depth == 0) return submit_now(item);
  t_group.items.push_back(std::move(item));
}

void enqueue(std::shared_ptr<Communicator> communicator, const std::vector<Transfer>& transfers, aclrtStream stream) {
  if (t_group.depth != 0) {
    for (Item& item : t_group.items) {
      if (item.request.kind != Kind::none || item.communicator != communicator || item.stream != stream) continue;
      item.transfers.insert(item.transfers.end(), transfers.begin(), transfers.end());
      return;
    }
  }
  Item item{std::move(communicator), stream, {}, transfers};
  if (t_group.depth == 0) return submit_now(item);
  t_group.items.push_back(std::move(item));
}

}  // namespace softnpu::comm
