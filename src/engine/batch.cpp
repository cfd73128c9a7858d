// A batch under construction.
#include "weft/batch.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/to_size.h"
#include "engine/refuse.h"

namespace weft {
namespace {

using engine::refuse;

void check(const ItemOptions& options, int item) {
  const auto need = [&](bool holds, const char* what, const char* needed) {
    if (!holds) refuse("item " + std::to_string(item) + " of the batch has " + what + " but not " + needed);
  };
  if (options.n_best < 0)
    refuse("the number of best tokens is " + std::to_string(options.n_best) + ", expected at least 0");
  need(options.logits || options.n_best == 0, "n_best", "logits");
  need(options.logits || !options.log_sum_exp, "log_sum_exp", "logits");
  need(options.log_sum_exp || options.logit_of == kNoToken, "logit_of", "log_sum_exp");
  if (options.axes == ItemOptions{}.axes) return;
  for (const Pos pos : options.axes)
    if (pos < 0) refuse("the position of an item is " + std::to_string(pos) + ", expected at least 0");
}

}  // namespace

void Batch::clear() {
  items_.clear();
  shared_.clear();
  embeddings_.clear();
  hidden_.clear();
}

void Batch::push(Item item) {
  check(item.options, size());
  items_.push_back(item);
}

void Batch::add(Token token, SeqId seq, const ItemOptions& options) {
  push({.token = token, .seq = seq, .options = options});
}

void Batch::add(Token token, std::span<const SeqId> seqs, const ItemOptions& options) {
  if (seqs.empty()) refuse("a token needs at least one sequence");
  push({.token = token,
        .seq = seqs[0],
        .options = options,
        .n_shared = static_cast<std::int32_t>(seqs.size()) - 1,
        .first_shared = static_cast<std::int32_t>(shared_.size())});
  shared_.insert(shared_.end(), seqs.begin() + 1, seqs.end());
}

void Batch::add(std::span<const Token> tokens, SeqId seq, const ItemOptions& last) {
  if (tokens.empty()) return;
  check(last, size() + static_cast<int>(tokens.size()) - 1);  // Before the first token is added.
  Pos pos = last.pos;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
    add(tokens[i], seq, {.pos = std::exchange(pos, weft::kNextPos)});
  ItemOptions options = last;
  options.pos = pos;
  add(tokens.back(), seq, options);
}

void Batch::add(std::span<const float> embedding, SeqId seq, const ItemOptions& options) {
  if (embeddings_.size() + embedding.size() > std::numeric_limits<std::int32_t>::max())
    refuse("the embeddings of the batch have more than 2^31 numbers; use smaller batches");
  push({.token = kNoToken,
        .seq = seq,
        .options = options,
        .embedding = static_cast<std::int32_t>(embeddings_.size()),
        .n_embedding = static_cast<std::int32_t>(embedding.size())});
  embeddings_.insert(embeddings_.end(), embedding.begin(), embedding.end());
}

void Batch::set_options(int item, const ItemOptions& options) {
  (void)this->options(item);
  check(options, item);
  items_[to_size(item)].options = options;
}

const ItemOptions& Batch::options(int item) const {
  if (item < 0 || item >= size()) refuse("the batch has no item " + std::to_string(item));
  return (*this)[item].options;
}

void Batch::hide(int item, int other) {
  if (item < 0 || item >= size() || other < 0 || other >= size() || item == other)
    refuse("items " + std::to_string(item) + " and " + std::to_string(other) +
           " are not two different items of the batch");
  hidden_.emplace_back(item, other);
}

// --- Deprecated names

void Batch::only_best(int item, int n) {
  ItemOptions options = this->options(item);
  if (n < 1) refuse("the number of best tokens is " + std::to_string(n) + ", expected at least 1");
  options.n_best = n;
  set_options(item, options);
}

void Batch::want_log_sum_exp(int item, Token token) {
  ItemOptions options = this->options(item);
  options.log_sum_exp = true;
  options.logit_of = token;
  set_options(item, options);
}

void Batch::want_embedding(int item) {
  ItemOptions options = this->options(item);
  options.embedding = true;
  set_options(item, options);
}

void Batch::see_to(int item, Pos end) {
  ItemOptions options = this->options(item);
  options.attend_to = end;
  set_options(item, options);
}

void Batch::stand_at(int item, const AxisPositions& at) {
  ItemOptions options = this->options(item);
  options.axes = at;
  for (const Pos pos : at)
    if (pos < 0) refuse("the position of an item is " + std::to_string(pos) + ", expected at least 0");
  set_options(item, options);
}

}  // namespace weft
