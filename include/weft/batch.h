#pragma once
// Batches: tokens for Context::decode (weft/context.h), with the results that each of them requests.
//
//   weft::Batch batch;
//   batch.add(prompt, 0);                                   // Logits of the last token, in sequence 0.
//   batch.add(token, 1, {.logits = true, .n_best = 4});     // The 4 best tokens.
//   batch.add(token, {2, 3}, {.embedding = true});          // One token of two sequences: its embedding.
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

/// Positions in time, image row and image column (M-RoPE), from 0.
using AxisPositions = std::array<Pos, 3>;

/// The position of an item, and the results that it requests.
struct ItemOptions {
  /// Logits (Context::logits). Their number per step is limited by ContextParams::n_outputs.
  bool logits = false;
  Pos pos = kNextPos;  ///< Its position in its sequence. kNextPos: after the sequence's last one.
  /// Only the n best tokens instead of all logits: read Context::best, not Context::logits. Needs `logits`. 1
  /// to ContextParams::n_best; 0: all logits.
  int n_best = 0;
  /// The log-sum-exp as well: log(sum(e^logit)) over the vocabulary. Needs `logits`. A token's
  /// log-probability is its logit - Context::log_sum_exp.
  bool log_sum_exp = false;
  /// The logit of this token as well (Context::logit), for example of the next prompt token. Needs
  /// `log_sum_exp`. kNoToken: none.
  Token logit_of = kNoToken;
  /// The embedding (Context::embedding). Without `logits` it is computed without the output head.
  bool embedding = false;
  /// The item attends to all positions of its sequence below this one, later ones included. This gives
  /// bidirectional attention within a prefix or prompt. The batch's items before it must be in the same step
  /// as this item: at most n_ubatch items. It attends at least up to its own position. -1: no further.
  Pos attend_to = -1;
  /// Positions in time, image row and image column, for models with M-RoPE (ModelInfo::axes). They only
  /// rotate keys and queries; masks and cells depend on `pos`. KvCache::shift adds the same delta to all
  /// three. -1: its own position.
  AxisPositions axes = {-1, -1, -1};
};

/// Tokens to compute, of any sequences in any order. Each is an item; items are numbered from 0 in the order
/// of addition. Positions within a sequence must ascend. clear() empties the batch for another use. Item
/// numbers outside the batch, and options that contradict each other, throw Error kInvalidArgument;
/// Context::decode checks tokens, sequences and positions.
class Batch {
 public:
  void clear();
  void add(Token token, SeqId seq, const ItemOptions& options = {});
  /// A token that several sequences share. It is computed once, for the first of them. They must have the
  /// same adapters and source. In models with recurrent layers the sequences must be identical copies before
  /// the batch (otherwise Error kUnsupported from decode).
  void add(Token token, std::span<const SeqId> seqs, const ItemOptions& options = {});
  void add(Token token, std::initializer_list<SeqId> seqs, const ItemOptions& options = {}) {
    add(token, std::span(seqs.begin(), seqs.size()), options);
  }
  /// Consecutive tokens of a sequence. The options are the last one's; `last.pos` is the position of the
  /// first.
  void add(std::span<const Token> tokens, SeqId seq, const ItemOptions& last = {.logits = true});
  void add(std::initializer_list<Token> tokens, SeqId seq, const ItemOptions& last = {.logits = true}) {
    add(std::span(tokens.begin(), tokens.size()), seq, last);
  }
  /// An embedding instead of a token: ModelInfo::n_embd_input floats, the input of the first layer.
  void add(std::span<const float> embedding, SeqId seq, const ItemOptions& options = {});

  /// Replaces the options of an item.
  void set_options(int item, const ItemOptions& options);
  const ItemOptions& options(int item) const;
  /// The item does not attend to `other`, an item of this batch in the same sequence.
  void hide(int item, int other);

  int size() const { return static_cast<int>(items_.size()); }
  struct Item {
    Token token = kNoToken;  ///< kNoToken: an embedding.
    SeqId seq = 0;
    ItemOptions options = {};
    std::int32_t n_shared = 0;  ///< The number of further sequences that share the token: see shared_with().
    std::int32_t first_shared = 0;
    std::int32_t embedding = -1;   ///< The index of its first float; -1: a token.
    std::int32_t n_embedding = 0;  ///< The number of floats.
  };
  const Item& operator[](int i) const { return items_[static_cast<std::size_t>(i)]; }
  std::span<const SeqId> shared_with(int i) const {
    return std::span(shared_).subspan(static_cast<std::size_t>((*this)[i].first_shared),
                                      static_cast<std::size_t>((*this)[i].n_shared));
  }
  std::span<const float> embedding(int i) const {
    return std::span(embeddings_)
        .subspan(static_cast<std::size_t>((*this)[i].embedding),
                 static_cast<std::size_t>((*this)[i].n_embedding));
  }
  std::span<const std::pair<int, int>> hidden() const { return hidden_; }  ///< {item, other}

  // Deprecated names, for one version.
  [[deprecated("use weft::kNextPos")]] static constexpr Pos kNextPos = weft::kNextPos;
  // Templates, so that `{}` means ItemOptions.
  template <std::integral Bool>
  [[deprecated("use {.logits = ..., .pos = ...}")]] void add(Token token, SeqId seq, Bool logits,
                                                             Pos pos = weft::kNextPos) {
    add(token, seq, {.logits = logits != 0, .pos = pos});
  }
  template <std::integral Bool>
  [[deprecated("use {.logits = ..., .pos = ...}")]] void add(Token token, std::span<const SeqId> seqs,
                                                             Bool logits, Pos pos = weft::kNextPos) {
    add(token, seqs, {.logits = logits != 0, .pos = pos});
  }
  template <std::integral Bool>
  [[deprecated("use {.logits = ..., .pos = ...}")]] void add(Token token, std::initializer_list<SeqId> seqs,
                                                             Bool logits, Pos pos = weft::kNextPos) {
    add(token, seqs, {.logits = logits != 0, .pos = pos});
  }
  template <std::integral Bool>
  [[deprecated("use {.logits = ...}")]] void add(std::span<const Token> tokens, SeqId seq,
                                                 Bool logits_at_end) {
    add(tokens, seq, {.logits = logits_at_end != 0});
  }
  template <std::integral Bool>
  [[deprecated("use {.logits = ...}")]] void add(std::initializer_list<Token> tokens, SeqId seq,
                                                 Bool logits_at_end) {
    add(tokens, seq, {.logits = logits_at_end != 0});
  }
  template <std::integral Bool>
  [[deprecated("use {.logits = ..., .pos = ...}")]] void add(std::span<const float> embedding, SeqId seq,
                                                             Bool logits, Pos pos = weft::kNextPos) {
    add(embedding, seq, {.logits = logits != 0, .pos = pos});
  }
  [[deprecated("use ItemOptions::n_best")]] void only_best(int item, int n);
  [[deprecated("use ItemOptions::log_sum_exp and logit_of")]] void want_log_sum_exp(int item,
                                                                                    Token token = kNoToken);
  [[deprecated("use ItemOptions::embedding")]] void want_embedding(int item);
  [[deprecated("use ItemOptions::attend_to")]] void see_to(int item, Pos end);
  [[deprecated("use ItemOptions::axes")]] void stand_at(int item, const AxisPositions& at);

 private:
  void push(Item item);

  std::vector<Item> items_;
  std::vector<SeqId> shared_;
  std::vector<float> embeddings_;
  std::vector<std::pair<int, int>> hidden_;
};

}  // namespace weft

#pragma GCC visibility pop
