// What forward and backward attention share: the heads of tensors in any layout, and blocks of scores.
#pragma once

#include "kernels/families/attention.h"

namespace softnpu::kernels::attention {

// A tensor as rows of numbers for each sequence and head, whatever its layout.
class Heads {
 public:
  Heads() = default;
  // `heads` for the layouts that do not tell, `ends` for TND.
  Heads(const Tensor& t, const std::string& layout, int64_t heads, IntArrayRef ends);
  Tensor at(int64_t sequence, int64_t head) const;  // (rows, size)
  Tensor all(int64_t sequence) const;               // (sequences, heads, rows, size); of TND those of one sequence
  int64_t sequences() const;
  int64_t heads() const { return view_.size(1); }
  int64_t size() const { return view_.size(3); }
  int64_t rows(int64_t sequence) const;
  int64_t begin(int64_t sequence) const;  // the first row of a sequence of TND

 private:
  Tensor view_;  // (sequences, heads, rows, size); TND: (1, heads, all rows, size)
  bool in_a_row_ = false;
  IntArrayRef ends_;
};

// Statistics as numbers for each sequence and head, of which the operators have eight copies.
class Rows {
 public:
  Rows(const Tensor& t, const Heads& query, const std::string& softmax_layout);
  Tensor at(int64_t sequence, int64_t head) const;  // (rows, copies)
  Tensor all(int64_t sequence) const;               // (sequences, heads, rows, copies), as of Heads

 private:
  Tensor t_;
  const Heads& query_;
  enum { kBatches, kInARow, kEachSequence } order_;
};

// Half open.
struct Span {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

constexpr int64_t kRows = 256, kColumns = 512;  // of a block of scores

class Problem {
 public:
  explicit Problem(const Inputs& in);

  const Inputs& in;
  Heads query, key, value, query_rope, key_rope;
  int64_t group;  // query heads that share one of key and value

  // Which scores the numbers of the sparse mode hide.
  enum class Shape { kAll, kCausal, kOther };
  Shape shape(int64_t sequence) const;
  // The columns that some of these rows see, at most.
  Span seen(int64_t sequence, Span rows) const;
  // scale * q k^T with its bias, -inf where a score is hidden, in memory of at least that size; `q` and `q_rope` are
  // float32 and have these rows.
  Tensor scores(const Tensor& memory, int64_t sequence, int64_t head, Span rows, Span columns, const Tensor& q,
                const Tensor& q_rope) const;
  bool drops() const { return in.drop_mask && in.keep_prob < 1; }
  // The factor of each probability: 0, or 1 / keep_prob.
  Tensor kept(int64_t sequence, int64_t head, Span rows, Span columns) const;
  // The part of a bias or mask that belongs to a block, to be broadcast; (rows, columns) or less.
  Tensor block(const Tensor& t, int64_t sequence, int64_t head, Span rows, Span columns) const;

 private:
  // Row i sees the columns from i + shift - before to i + shift + after, and those before `prefix`.
  struct Band {
    int64_t before, after, shift, prefix;
    Span of(int64_t row, int64_t columns) const;
  };
  Band band(int64_t sequence) const;
  void hide(const Tensor& scores, int64_t sequence, Span rows, Span columns) const;

  std::vector<int64_t> drop_begin_;  // the first bit of each sequence
};

// Memory for a block, used again for every one.
Tensor block_memory(Span rows);
Tensor as_block(const Tensor& memory, Span rows, Span columns);

inline Tensor wide_rows(const Tensor& t, Span rows) { return t.slice(0, rows.begin, rows.end).to(at::kFloat); }

}  // namespace softnpu::kernels::attention
