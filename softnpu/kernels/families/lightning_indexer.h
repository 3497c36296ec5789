// The indexer of sparse attention: which keys a row attends to, and how it learns that from attention itself.
// score(row, key) = sum over heads of weight * relu(query . key)
#pragma once

#include "kernels/families/sparse_attention.h"

namespace softnpu::kernels::sparse {

struct Indexer {
  const Tensor &query, &key, &weights;
  Optional query_scale, key_scale;  // of quantised queries and keys, for each token and head
  Optional q_lengths, k_lengths, block_table;
  const std::string &layout, &key_layout;
  int64_t mode;
};
// The keys of the highest scores, then -1; and the scores, then -inf.
void check_top(const Indexer& in, const Tensor& indices, const Optional& values);
void top(Tensor& indices, const Optional& values, const Indexer& in);
// Gradients of the scores at `indices`, which may have a dimension for the keys' one head.
struct IndexerGradients {
  Tensor &query, &key, &weights;
};
void check_top_backward(const IndexerGradients& gradients, const Tensor& dy, const Tensor& indices, const Indexer& in);
void top_backward(const IndexerGradients& gradients, const Tensor& dy, const Tensor& indices, const Indexer& in);

// The maximum and sum of each row's softmax over all the scores that it sees.
void check_softmax(const Tensor& max, const Tensor& sum, const Indexer& in);
void softmax(Tensor& max, Tensor& sum, const Indexer& in);

// KL divergence of softmax(scores) from attention, averaged over its heads, and what it gives to the indexer.
struct Teacher {
  const Tensor &query, &key, &max, &sum;  // of attention, with the statistics of its softmax
  Optional query_rope, key_rope, sinks;
  double scale;
  Optional indices;               // the keys of each row; all that it sees without them
  Optional max_index, sum_index;  // the statistics of the indexer's softmax over all keys
};
void check_align(const IndexerGradients& gradients, const Tensor& loss, const Teacher& teacher, const Indexer& in);
void align(const IndexerGradients& gradients, Tensor& loss, const Teacher& teacher, const Indexer& in);

}  // namespace softnpu::kernels::sparse
