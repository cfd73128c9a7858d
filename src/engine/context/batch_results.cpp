#include "engine/context/batch_results.h"

#include <algorithm>
#include <string>

#include "base/to_size.h"
#include "engine/refuse.h"

namespace weft::engine {

BatchResults::BatchResults(const ModelInfo& info, int n_outputs, int n_best)
    : n_vocab_(to_size(info.n_vocab)), n_embd_(to_size(info.n_embd)) {
  best_.reserve(to_size(n_outputs) * to_size(n_best));
}

void BatchResults::begin(int n_items) {
  const std::size_t n = index(n_items);
  logits_.assign(n, nullptr);
  n_kept_ = 0;
  best_of_.assign(n, {});
  best_.clear();
  log_sums_.assign(n, {});
  embedding_of_.assign(n, -1);
  embeddings_.clear();
}

void BatchResults::clear() {
  logits_.clear();
  best_of_.clear();
  log_sums_.clear();
  embedding_of_.clear();
}

void BatchResults::keep_logits(int item) {
  const float*& row = logits_[index(item)];
  if (row == nullptr) return;
  if (n_kept_ == kept_logits_.size())
    kept_logits_.push_back(std::make_unique_for_overwrite<float[]>(n_vocab_));
  float* const kept = kept_logits_[n_kept_++].get();
  std::copy_n(row, n_vocab_, kept);
  row = kept;
}

std::span<Best> BatchResults::add_best(int item, int n) {
  const BestOf of = {best_.size(), index(n)};
  best_of_[index(item)] = of;
  best_.resize(of.begin + of.n);
  return std::span(best_).subspan(of.begin, of.n);
}

void BatchResults::add_embedding(int item, const float* row) {
  embedding_of_[index(item)] = static_cast<int>(embeddings_.size() / n_embd_);
  embeddings_.insert(embeddings_.end(), row, row + n_embd_);
}

void BatchResults::check_item(int item) const {
  if (logits_.empty())
    refuse("there are no results; read them after decode() or finish() returned kOk, before the next call");
  if (item < 0 || index(item) >= logits_.size())
    refuse("item " + std::to_string(item) + " is outside 0 to " + std::to_string(logits_.size() - 1) +
           ", the items of the last batch");
}

std::span<const float> BatchResults::logits(int item) const {
  check_item(item);
  if (logits_[index(item)] == nullptr)
    refuse("item " + std::to_string(item) +
           " of the last batch has no logits; request all logits when adding the item");
  return {logits_[index(item)], n_vocab_};
}

std::span<const Best> BatchResults::best(int item) const {
  check_item(item);
  if (best_of_[index(item)].n == 0)
    refuse("item " + std::to_string(item) +
           " of the last batch did not request its best tokens (ItemOptions::n_best)");
  const auto& [begin, n] = best_of_[index(item)];
  return std::span(best_).subspan(begin, n);
}

std::span<const float> BatchResults::embedding(int item) const {
  check_item(item);
  if (embedding_of_[index(item)] < 0)
    refuse("item " + std::to_string(item) +
           " of the last batch did not request its embedding (ItemOptions::embedding)");
  return std::span(embeddings_).subspan(index(embedding_of_[index(item)]) * n_embd_, n_embd_);
}

const LogSumExp& BatchResults::log_sum(int item) const {
  check_item(item);
  if (!log_sums_[index(item)])
    refuse("item " + std::to_string(item) +
           " of the last batch did not request its log-sum-exp (ItemOptions::log_sum_exp)");
  return *log_sums_[index(item)];
}

float BatchResults::logit(int item) const {
  const LogSumExp& of = log_sum(item);
  if (of.token == kNoToken)
    refuse("item " + std::to_string(item) + " of the last batch requested its log-sum-exp without a token");
  return of.logit;
}

}  // namespace weft::engine
