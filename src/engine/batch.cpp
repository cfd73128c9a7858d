// A batch under construction.
#include <cstdint>
#include <limits>
#include <utility>

#include "engine/refuse.h"
#include "weft/context.h"

namespace weft {

using engine::refuse;

void Batch::clear() {
  items_.clear();
  shared_.clear();
  embeddings_.clear();
  hidden_.clear();
}

void Batch::add(std::span<const float> embedding, SeqId seq, bool logits, Pos pos) {
  if (embeddings_.size() + embedding.size() > std::numeric_limits<std::int32_t>::max())
    refuse("the embeddings of the batch have more than 2^31 numbers; use smaller batches");
  items_.push_back({.token = -1,
                    .pos = pos,
                    .seq = seq,
                    .logits = logits,
                    .embedding = static_cast<std::int32_t>(embeddings_.size()),
                    .n_embedding = static_cast<std::int32_t>(embedding.size())});
  embeddings_.insert(embeddings_.end(), embedding.begin(), embedding.end());
}

void Batch::see_to(int item, Pos end) {
  if (item < 0 || item >= size()) refuse("the batch has no item " + std::to_string(item));
  items_[static_cast<std::size_t>(item)].sees_to = end;
}

void Batch::stand_at(int item, const AxisPositions& at) {
  if (item < 0 || item >= size()) refuse("the batch has no item " + std::to_string(item));
  for (const Pos pos : at)
    if (pos < 0) refuse("the position of an item is " + std::to_string(pos) + ", expected at least 0");
  items_[static_cast<std::size_t>(item)].axes = at;
}

void Batch::only_best(int item, int n) {
  if (item < 0 || item >= size() || !items_[static_cast<std::size_t>(item)].logits)
    refuse("the batch has no item " + std::to_string(item) + " that asks for logits");
  if (n < 1) refuse("the number of best tokens is " + std::to_string(n) + ", expected at least 1");
  items_[static_cast<std::size_t>(item)].n_best = n;
}

void Batch::want_log_sum_exp(int item, Token token) {
  if (item < 0 || item >= size() || !items_[static_cast<std::size_t>(item)].logits)
    refuse("the batch has no item " + std::to_string(item) + " that asks for logits");
  items_[static_cast<std::size_t>(item)].log_sum_exp = true;
  items_[static_cast<std::size_t>(item)].token_of_logit = token;
}

void Batch::want_embedding(int item) {
  if (item < 0 || item >= size()) refuse("the batch has no item " + std::to_string(item));
  items_[static_cast<std::size_t>(item)].wants_embedding = true;
}

void Batch::hide(int item, int other) {
  if (item < 0 || item >= size() || other < 0 || other >= size() || item == other)
    refuse("items " + std::to_string(item) + " and " + std::to_string(other) +
           " are not two different items of the batch");
  hidden_.emplace_back(item, other);
}

void Batch::add(Token token, SeqId seq, bool logits, Pos pos) {
  items_.push_back({.token = token, .pos = pos, .seq = seq, .logits = logits});
}

void Batch::add(Token token, std::span<const SeqId> seqs, bool logits, Pos pos) {
  if (seqs.empty()) refuse("a token needs at least one sequence");
  items_.push_back({.token = token,
                    .pos = pos,
                    .seq = seqs[0],
                    .logits = logits,
                    .n_shared = static_cast<std::int32_t>(seqs.size()) - 1,
                    .first_shared = static_cast<std::int32_t>(shared_.size())});
  shared_.insert(shared_.end(), seqs.begin() + 1, seqs.end());
}

void Batch::add(std::span<const Token> tokens, SeqId seq, bool logits_at_end) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    add(tokens[i], seq, logits_at_end && i + 1 == tokens.size());
}

}  // namespace weft
