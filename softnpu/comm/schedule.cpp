#include "schedule.h"

#include <algorithm>

#include "acl_types.h"
#include "reduce.h"
#include "runtime/error.h"
#include "span.h"

namespace softnpu::comm {

namespace {

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter ||
         kind == Kind::reduce_scatter_v;
}

bool has_root(Kind kind) { return kind == Kind::broadcast || kind == Kind::reduce || kind == Kind::scatter; }

// In the other kinds ranks may bring different counts, which have to fit each other.
bool has_common_count(Kind kind) {
  return kind != Kind::all_gather_v && kind != Kind::reduce_scatter_v && kind != Kind::all_to_all_v;
}

}  // namespace

std::string describe(const Post& post) {
  std::string text = std::string(name_of(post.kind)) + "(" + type_name(post.type);
  if (post.kind != Kind::all_to_all_v) text += ", " + std::to_string(post.count) + " elements";
  if (reduces(post.kind)) text += std::string(", ") + op_name(post.op);
  if (has_root(post.kind)) text += ", root " + std::to_string(post.root);
  return text + ")";
}

Schedule::Schedule(Control& control, uint64_t number, const std::vector<std::shared_ptr<Peer>>& peers)
    : control_(control), peers_(peers), ranks_(control.ranks) {
  for (uint32_t rank = 0; rank < ranks_; ++rank) posts_.push_back(&control.post(rank, number));
  check();
  size_ = size_of(posts_[0]->type);
  block_elements_ = kBlockBytes / size_;
  cut();
  if (blocks_ * kBlockBytes >= kStreamingBytes) store_ = Store::streaming;
}

void Schedule::check() const {
  const Post& first = *posts_[0];
  for (uint32_t rank = 1; rank < ranks_; ++rank) {
    const Post& other = *posts_[rank];
    const bool agree = other.kind == first.kind && other.type == first.type &&
                       (!has_common_count(first.kind) || other.count == first.count) &&
                       (!reduces(first.kind) || other.op == first.op) &&
                       (!has_root(first.kind) || other.root == first.root);
    if (!agree)
      fail(ACL_ERROR_RT_PARAM_INVALID, "the ranks called different collectives: rank 0 %s, rank %u %s",
           describe(first).c_str(), rank, describe(other).c_str());
  }
}

uint64_t Schedule::number_in(uint32_t rank, Table table, uint32_t index) const {
  return control_.table(*posts_[rank], table)[index];
}

void Schedule::add(uint32_t from, uint32_t to, uint64_t elements) {
  if (elements == 0) return;
  pieces_.push_back({from, to, elements, blocks_});
  blocks_ += (elements + block_elements_ - 1) / block_elements_;
}

void Schedule::cut() {
  const Kind kind = posts_[0]->kind;
  const uint64_t count = posts_[0]->count;
  const auto expect = [&](uint32_t from, uint64_t sent, uint32_t to, uint64_t expected) {
    if (sent != expected)
      fail(ACL_ERROR_RT_PARAM_INVALID, "%s: rank %u has %llu elements for rank %u, which expects %llu", name_of(kind),
           from, (unsigned long long)sent, to, (unsigned long long)expected);
    return sent;
  };
  switch (kind) {
    case Kind::all_reduce:
      return add(kAll, kAll, count);
    case Kind::reduce:
      return add(kAll, root(), count);
    case Kind::broadcast:
      return add(root(), kAll, count);
    default:
      break;
  }
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    switch (kind) {
      case Kind::all_gather:
        add(rank, kAll, count);
        break;
      case Kind::scatter:
        add(root(), rank, count);
        break;
      case Kind::reduce_scatter:
        add(kAll, rank, count);
        break;
      case Kind::all_gather_v:
        for (uint32_t to = 0; to < ranks_; ++to)
          expect(rank, posts_[rank]->count, to, number_in(to, Table::recv_counts, rank));
        add(rank, kAll, posts_[rank]->count);
        break;
      case Kind::reduce_scatter_v:
        for (uint32_t from = 0; from < ranks_; ++from)
          expect(from, number_in(from, Table::send_counts, rank), rank, posts_[rank]->count);
        add(kAll, rank, posts_[rank]->count);
        break;
      case Kind::all_to_all:
        for (uint32_t to = 0; to < ranks_; ++to) add(rank, to, count);
        break;
      default:
        for (uint32_t to = 0; to < ranks_; ++to)
          add(rank, to,
              expect(rank, number_in(rank, Table::send_counts, to), to, number_in(to, Table::recv_counts, rank)));
    }
  }
}

uint64_t Schedule::read_at(const Piece& piece, uint32_t rank) const {
  const Post& post = *posts_[rank];
  switch (post.kind) {
    case Kind::reduce_scatter:
    case Kind::all_to_all:
    case Kind::scatter:
      return piece.to * post.count;
    case Kind::reduce_scatter_v:
    case Kind::all_to_all_v:
      return number_in(rank, Table::send_offsets, piece.to);
    default:
      return 0;
  }
}

uint64_t Schedule::write_at(const Piece& piece, uint32_t rank) const {
  const Post& post = *posts_[rank];
  switch (post.kind) {
    case Kind::all_gather:
    case Kind::all_to_all:
      return piece.from * post.count;
    case Kind::all_gather_v:
    case Kind::all_to_all_v:
      return number_in(rank, Table::recv_offsets, piece.from);
    default:
      return 0;
  }
}

void Schedule::execute(uint64_t block) const {
  auto next = std::upper_bound(pieces_.begin(), pieces_.end(), block,
                               [](uint64_t value, const Piece& piece) { return value < piece.first_block; });
  const Piece& piece = *std::prev(next);
  const uint64_t begin = (block - piece.first_block) * block_elements_;
  run(piece, begin, std::min(begin + block_elements_, piece.elements));
}

// In runs that are contiguous in every buffer involved.
void Schedule::run(const Piece& piece, uint64_t begin, uint64_t end) const {
  std::vector<char*> inputs, outputs;
  while (begin < end) {
    uint64_t bytes = (end - begin) * size_;
    inputs.clear();
    outputs.clear();
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      if (piece.from == kAll || piece.from == rank)
        inputs.push_back(locate(posts_[rank]->send, *peers_[rank], (read_at(piece, rank) + begin) * size_, &bytes));
      if (piece.to == kAll || piece.to == rank)
        outputs.push_back(locate(posts_[rank]->recv, *peers_[rank], (write_at(piece, rank) + begin) * size_, &bytes));
    }
    if (piece.from == kAll) {
      reduce(posts_[0]->type, posts_[0]->op, inputs.data(), inputs.size(), outputs.data(), outputs.size(),
             bytes / size_, store_);
    } else {
      for (char* output : outputs)
        if (output != inputs[0]) copy_bytes(output, inputs[0], bytes, store_);
      finish_stores(store_);
    }
    begin += bytes / size_;
  }
}

}  // namespace softnpu::comm
