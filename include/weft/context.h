#pragma once
// A context: many sequences over one cache, and one plan that computes batches of any mix of them.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/importance.h"
#include "weft/model.h"
#include "weft/profile.h"
#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

class Batcher;

/// kQ8_0 and kQ4_0 hold a scale for each 32 elements: heads must be multiples of 32; of kBF16 of 2. kAuto is
/// kBF16 where all devices multiply that faster than kF16 (processors with instructions for it), else kF16.
enum class CacheType : std::uint8_t { kAuto, kF32, kF16, kBF16, kQ8_0, kQ4_0 };

struct ContextParams {
  int n_ctx =
      0;  ///< Cells of the cache, shared by all sequences. 0: the model's training length, at most 8192.
  int n_sequences = 1;  ///< Sequences that may exist at the same time.
  int n_ubatch = 512;   ///< Tokens that one step computes at most; batches of any size are cut into these.
  /// Of models that write about a source (ModelInfo::reads_source): its tokens, at most. There is room for
  /// one of each sequence, and what a step takes grows with the square. 0: the model's training length, at
  /// most 512.
  int n_source = 0;
  int n_outputs = 0;  ///< Rows of logits that one step computes at most. 0: max(64, n_sequences).
  int n_threads = 0;  ///< 0: as many as there are cores.
  /// Tokens that Batch::only_best can ask for. 0: only_best is refused. -1: 64 where the model is on the CPU
  /// alone, which finds them while it computes logits, and else 0.
  int n_best = -1;
  CacheType k_type = CacheType::kAuto;
  CacheType v_type = CacheType::kAuto;
  /// Layers with a sliding window keep only that, and what lets a text be cut back by so many tokens.
  /// -1: they keep everything, and texts can be cut anywhere.
  int window_rewind = 256;
  /// Whether steps add up squares of what the model's matrices are multiplied with: Context::column_sums. All
  /// other results keep their bits.
  bool sum_columns = false;
  /// What sequences are written with, unless Context::set_adapters says otherwise.
  std::vector<AdapterUse> adapters = {};
};

/// Positions of time, line and column, from 0.
using AxisPositions = std::array<Pos, 3>;

/// A batch under construction: tokens in any order and of any mix of sequences. Reusable after clear().
/// Positions of a sequence must ascend within a batch.
class Batch {
 public:
  static constexpr Pos kNextPos = -1;  ///< The position after the sequence's last one.

  void clear();
  void add(Token token, SeqId seq, bool logits = false, Pos pos = kNextPos);
  /// A token of several sequences: computed once, as one of the first, and shared with the others. In models
  /// with recurrent layers their texts must be copies of each other so far (Error kUnsupported).
  void add(Token token, std::span<const SeqId> seqs, bool logits = false, Pos pos = kNextPos);
  void add(Token token, std::initializer_list<SeqId> seqs, bool logits = false, Pos pos = kNextPos) {
    add(token, std::span(seqs.begin(), seqs.size()), logits, pos);
  }
  /// Several tokens that follow one another; logits are asked for at the last one only.
  void add(std::span<const Token> tokens, SeqId seq, bool logits_at_end = true);
  void add(std::initializer_list<Token> tokens, SeqId seq, bool logits_at_end = true) {
    add(std::span(tokens.begin(), tokens.size()), seq, logits_at_end);
  }

  /// An embedding in a token's place: ModelInfo::n_embd_input floats, as the first layer reads them.
  void add(std::span<const float> embedding, SeqId seq, bool logits = false, Pos pos = kNextPos);

  /// Of the item, which asks for logits, only the n best tokens are wanted: Context::best takes the place of
  /// Context::logits, which are not written for it, whatever others of the batch ask for. 1 to
  /// ContextParams::n_best.
  void only_best(int item, int n);
  /// Of the item, which asks for logits or the best of them, the log-sum-exp is wanted too: the logarithm of
  /// the sum of e^logit over the vocabulary. What that leaves of a token's logit is the logarithm of its
  /// probability: logit - Context::log_sum_exp. And the logit of `token`, where it is known beforehand, as
  /// the next one of a prompt is (Context::logit).
  void want_log_sum_exp(int item, Token token = kNoToken);
  /// Of the item the embedding is wanted (Context::embedding), whether it asks for logits or not; the head is
  /// not computed for it.
  void want_embedding(int item);

  // What items see. Without these an item sees its sequence up to its own position.
  /// The item sees its sequence up to before `end`, beyond its own position: a prefix that is read both ways,
  /// or a text read as a whole. What it sees of this batch must fit into one step with it (n_ubatch).
  void see_to(int item, Pos end);
  /// In models that turn by several axes (ModelInfo::axes) the item stands at these positions, of time, line
  /// and column; else at its own in each of them. What it sees, and its cell, are a matter of its own
  /// position all the same. Keys that are shifted turn by as many positions in each axis.
  void stand_at(int item, const AxisPositions& at);
  /// The item does not see `other`, another item of the batch with a sequence in common.
  void hide(int item, int other);

  int size() const { return static_cast<int>(items_.size()); }
  struct Item {
    Token token = kNoToken;  ///< -1: an embedding.
    Pos pos = kNextPos;
    SeqId seq = 0;
    bool logits = false;
    std::int32_t n_shared = 0;  ///< Further sequences that get the token: shared_with(i).
    std::int32_t first_shared = 0;
    std::int32_t embedding = -1;        ///< Where its floats begin ...
    std::int32_t n_embedding = 0;       ///< ... and how many they are.
    Pos sees_to = -1;                   ///< -1: its own position.
    AxisPositions axes = {-1, -1, -1};  ///< -1: its own position.
    int n_best = 0;                     ///< Only so many tokens are wanted; 0: all logits.
    bool log_sum_exp = false;           ///< Is wanted, and ...
    Token token_of_logit = -1;          ///< ... the logit of this token.
    bool wants_embedding = false;
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

 private:
  std::vector<Item> items_;
  std::vector<SeqId> shared_;
  std::vector<float> embeddings_;
  std::vector<std::pair<int, int>> hidden_;
};

enum class DecodeStatus : std::uint8_t {
  kOk,
  kCacheFull,  ///< Nothing changed, and there is something to remove: shorten sequences, then try again.
  kCancelled,  ///< cancel() was called: all sequences are as they were before the batch.
};

/// Cells of a cache that the same sequences hold, one after another.
struct CellRun {
  int first = 0;  ///< Cells are numbered page by page, kCellsOfPage each.
  int n = 0;
  std::vector<SeqId> sequences = {};  ///< In their order; more than one share the cells.
  friend bool operator==(const CellRun&, const CellRun&) = default;
};

/// How often plans were compiled and reused, and what that cost the host.
struct PlanStats {
  std::int64_t compiled = 0;
  std::int64_t steps = 0;
  std::int64_t steps_unchanged = 0;  ///< No declared change: only the inputs' values differ.
  std::int64_t steps_shapes = 0;     ///< The values of symbols differ (tokens, outputs).
  std::int64_t steps_tensors = 0;    ///< External tensors were bound anew.
  std::int64_t copies = 0;           ///< Values copied from device to device ...
  std::int64_t copied_bytes = 0;     ///< ... and their bytes.
  double host_us_per_step = 0.0;     ///< Outside kernels: admission, inputs, update.
  // Memory reserved for steps, on all devices and besides caches:
  std::int64_t workspace_bytes = 0;         ///< the context's own,
  std::int64_t shared_workspace_bytes = 0;  ///< and what it has in common with those it takes turns with.
};

/// Used by one thread at a time. Holds the model alive. One that was moved from can be assigned to and
/// destroyed; anything else throws Error kInvalidArgument.
class Context {
 public:
  /// Reserves the caches, and what steps compute in, for the worst case: nothing of that is allocated later.
  /// What the host keeps of a batch (its items' positions and moves, the logits of all but its last step)
  /// grows to what the largest batch so far needed. Throws Error.
  Context(std::shared_ptr<const Model> model, const ContextParams& params = {});
  /// A context, of this model or another, that takes turns with `other` (and with those that `other` takes
  /// turns with): none of them is made or used while another is at work in any thread. Then their steps use
  /// the same memory, where they use the same device: as much as the largest of them needs, once. A draft
  /// model's context takes turns with the model's. Either may end before the other.
  Context(std::shared_ptr<const Model> model, const ContextParams& params, const Context& other);
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  const Model& model() const;
  const ContextParams& params() const;  ///< With the defaults filled in.

  /// Computes a batch. Wrong ids, sequences or positions throw Error kInvalidArgument and change nothing, and
  /// so does a batch that would not fit if the cache were empty.
  ///
  /// Throws Error kDevice where a device fails, kOutOfMemory where memory is exhausted, and kIo where weights
  /// changed in their mapped file (Model::check_weights). Then the batch's items are taken back and sequences
  /// are as before: decode may be tried again. Only sequences whose cells the failed step had to move (after
  /// copies, shifts and packing) are no longer intact(). A device that is lost for good, or a changed file,
  /// fails each further step, even after sequences are removed. The model must then be loaded again.
  [[nodiscard]] DecodeStatus decode(const Batch& batch);
  /// Makes the running decode() return kCancelled soon. Where none is running, the next one does, at once: no
  /// call is lost, and none has an effect on more than one decode(). From any thread or signal handler.
  void cancel() noexcept;
  /// Takes back what cancel() has left for the next decode(). Whether there was something.
  bool take_back_cancel() noexcept;

  /// False where a step failed that was to move the sequence's cells: nobody knows how far it came. Until the
  /// sequence is removed as a whole, or restored, what would read it (decode, copy, shift, divide, save)
  /// throws Error kInvalidArgument. Others are not affected. To go on, remove it and compute its tokens
  /// again: the bits are the same.
  bool intact(SeqId seq) const;
  bool intact() const;  ///< All of them.

  /// Logits of item i of the last batch, which must have asked for all of them; n_vocab floats, valid until
  /// the next decode; behind that the memory has other numbers, until the context ends.
  std::span<const float> logits(int i) const;
  /// The best tokens of item i of the last batch, which must have asked for them (Batch::only_best): as many,
  /// best first, with the bits that their logits would have had. NaN counts as minus infinity. Valid until
  /// the next decode.
  std::span<const Best> best(int i) const;
  /// Of item i of the last batch, which must have asked for it (Batch::want_log_sum_exp). Found while the
  /// logits are computed, where the model is on the CPU alone and ContextParams::n_best is not 0, else by the
  /// calling thread from the row of logits; the same bits whatever stands beside it in the batch. NaN counts
  /// as minus infinity; where all logits are, so is this.
  float log_sum_exp(int i) const;
  /// The logit of the token that was named with it, with the bits of Context::logits; NaN becomes minus
  /// infinity.
  float logit(int i) const;
  /// What the model knows of item i of the last batch and its text before, which must have asked for it
  /// (Batch::want_embedding): n_embd floats, its last hidden state behind the final norm, which the head
  /// turns into logits. The same bits whatever stands beside it in the batch. Valid until the next decode.
  std::span<const float> embedding(int i) const;

  // Operations on sequences. Positions are half-open ranges [begin, end); end < 0 means to the end. An
  // operation on one sequence never changes what another computes. Wrong arguments throw Error
  // kInvalidArgument and change nothing. Those that return bool may need room for copies of shared cells:
  // false where the cache has none, unchanged then.
  //
  // Models with recurrent layers (ModelInfo::recurrent) keep one state for all of a sequence's text. There
  // text is read in order, and removed and copied as a whole only: parts, shift() and divide() throw Error
  // kUnsupported. To be able to go back, copy the sequence before: that shares its state and costs no bytes.
  //
  // Where layers keep a sliding window only (ContextParams::window_rewind), a text goes on only as long as
  // its window is there: operations that would end where it has been forgotten (tails cut off, beginnings
  // copied, old text shifted into the window) throw Error kUnsupported and change nothing.
  void remove(SeqId seq, Pos begin = 0, Pos end = -1);
  /// Replaces this range of `to` by the range of `from`. Cells are shared: no bytes move. A sequence that
  /// appends to a shared page copies that page first, if the page is partly filled. Each branch of a prompt
  /// may thus take up to kCellsOfPage - 1 more cells than its own tokens.
  [[nodiscard]] bool copy(SeqId from, SeqId to, Pos begin = 0, Pos end = -1);
  void keep(SeqId seq);  ///< Removes all others.
  /// Adds delta to positions, which must neither meet nor pass those outside the range. Keys are turned with
  /// the next decode. Error kUnsupported for models with learned positions.
  [[nodiscard]] bool shift(SeqId seq, Pos begin, Pos end, Pos delta);
  /// Whether the text could be cut off before `pos`, or copied up to there, and go on.
  bool can_cut(SeqId seq, Pos pos) const;
  bool cuts_anywhere() const;  ///< Whether can_cut() is always true.
  /// Whether what the last batch added to a text can be cut off again, as drafts are that were wrong.
  bool cuts_back() const;
  bool can_shift() const;  ///< Whether the model's positions can be shifted and divided.
  /// Makes room in a sequence: removes n positions from `begin`, and moves the later ones up by n. The last
  /// position cannot be removed. Attention no longer sees the removed tokens. A recurrent state does not
  /// change. A model without attention has the same logits as in a larger context.
  /// `make_room` is called while the cache lacks cells for copies of shared pages, until it returns false.
  /// Returns false where cells or the layers' windows are missing: the sequence can only be removed then.
  /// Error kUnsupported where why_not_forget() is not empty.
  [[nodiscard]] bool forget(SeqId seq, Pos begin, Pos n, const std::function<bool()>& make_room = {});
  /// Why forget() is not supported by this model; empty: it is.
  std::string_view why_not_forget() const;
  /// Divides positions, rounding down. Error kUnsupported where pictures stand on axes of their own.
  [[nodiscard]] bool divide(SeqId seq, Pos begin, Pos end, int divisor);
  void clear();

  // Adapters. A text is written with the same ones from its beginning to its end; sequences with different
  // ones can stand in one batch, and none has other bits than alone. A sequence that becomes empty by one of
  // the operations above has those of ContextParams::adapters again. A copy and a saved state have those of
  // their text: what a text holds is never mixed with what other adapters wrote (Error kInvalidArgument).

  static constexpr int kMaxAdapters = 8;  ///< Of a sequence.
  /// The adapters of an empty sequence, at most kMaxAdapters, each once; those with scale 0 count as none.
  /// Throws Error kInvalidArgument where it is not empty or has a source that others have read, and for
  /// adapters that the model has not.
  void set_adapters(SeqId seq, std::span<const AdapterUse> adapters);
  void set_adapters(SeqId seq, std::initializer_list<AdapterUse> adapters) {
    set_adapters(seq, std::span(adapters.begin(), adapters.size()));
  }
  std::span<const AdapterUse> adapters(SeqId seq) const;  ///< In their order, valid until they change.

  // Sources, of models that write about one (ModelInfo::reads_source). A text is written about the same
  // source from its beginning to its end, and begins with ModelInfo::first_token. A sequence that becomes
  // empty by one of the operations above has none any more; a copy has that of its text, or of a sequence
  // that is empty as yet, and shares it. A source is read with the adapters that its sequence has then, and
  // keeps them.

  /// Reads the source of an empty sequence, in place of one that it has; a batch of other sequences is not
  /// disturbed. Throws Error kInvalidArgument, and changes nothing, where the sequence is not empty, and for
  /// tokens that the vocabulary has not, none, or more than ContextParams::n_source; kUnsupported where the
  /// model reads none. Where a device fails (as in decode()), or with kCancelled, the sequence has no source.
  [[nodiscard]] DecodeStatus set_source(SeqId seq, std::span<const Token> tokens);
  int source_size(SeqId seq) const;  ///< In tokens; 0: there is none.

  Pos next_pos(SeqId seq) const;  ///< 0 for an empty sequence.
  Pos min_pos(SeqId seq) const;   ///< -1 for an empty sequence.
  /// Packs half-empty pages together, moving at most `max_cells`. Happens by itself when pages run out.
  void defragment(int max_cells = 4096);
  Pos max_positions()
      const;  ///< Positions are below this: models with learned positions have a table of them.
  /// The tokens that a batch of a long text should have for speed: those of a step or, where the steps of a
  /// batch overlap on several devices, of some steps.
  int batch_size() const;
  int cells_used() const;
  int cells_total() const;
  /// A message for a call that found no room (kCacheFull, false): the cells in use, and those wanted where
  /// they are known.
  std::string why_full(int n_wanted = 0) const;
  /// Who holds which cells, in the order of their numbers; those that nobody holds are left out. Costs what
  /// sequences hold. There are cells_total() that may be in use, spread over n_pages() pages, which are a few
  /// more.
  std::vector<CellRun> cell_runs() const;
  int n_pages() const;
  static constexpr int kCellsOfPage = 64;
  /// Bytes of the caches that were ever in use: memory is taken as it is touched.
  std::int64_t cache_bytes() const;
  /// Whether all counts agree: for tests and audits. Costs the size of the cache.
  bool consistent() const;

  // States: what one sequence holds, its source included, or all of a context, for any context of the same
  // model with the same types of cache. A restored sequence goes on with the same logits, bit by bit,
  // wherever its cells lie now. Bytes and files are checked in full before anything is touched; those that
  // are damaged, of another model or too large for this context throw Error and change nothing.
  std::vector<std::byte> save(SeqId seq) const;
  std::vector<std::byte> save() const;
  /// The state of one sequence becomes `seq`, in place of what that held. False where the cache has no room:
  /// nothing has changed then. Where a device fails or memory runs out meanwhile, it is empty or not intact.
  [[nodiscard]] bool restore(std::span<const std::byte> state, SeqId seq);
  /// The state of a context takes the place of all sequences, under the ids that they had.
  [[nodiscard]] bool restore(std::span<const std::byte> state);
  /// The file appears whole or stays as it was, whatever happens in between. Throws Error kIo.
  void save_file(const std::filesystem::path& path, SeqId seq) const;
  void save_file(const std::filesystem::path& path) const;
  [[nodiscard]] bool restore_file(const std::filesystem::path& path, SeqId seq);
  [[nodiscard]] bool restore_file(const std::filesystem::path& path);

  /// Of each tensor of the model that is multiplied with rows, the sums of squares of all rows so far, where
  /// ContextParams::sum_columns is set. The last layer and the head read those rows only of which logits or
  /// embeddings are asked for. What a batch has added stays, though it should fail or be cancelled.
  std::vector<ColumnSums> column_sums() const;

  PlanStats plan_stats() const;
  /// Times and counts of the steps from now on are added to `profile`, which the caller owns, until this is
  /// called with null. Costs nothing while it is off, and some percent while it is on.
  void set_profile(Profile* profile);

 private:
  friend class Batcher;
  /// A batcher has it to itself from here on: throws Error kInvalidArgument where another one has.
  void lease();
  void end_lease() noexcept;
  // Batches that overlap: while devices are at the later splits of some, the host has the first ones of the
  // next. Sequences hold a batch's items as soon as it was begun.
  /// How many batches on their way give all devices work; 1 where batches do not overlap.
  int n_at_once() const;
  /// Like decode, but returns while the batch is on its way, and leaves its results to finish(). kCacheFull:
  /// this batch was not begun, the others are on their way as before. Where it throws or was cancelled, no
  /// batch is on its way any more: this one's items are taken back, and those of the others hold nobody knows
  /// what, and are for the caller to remove. What the batch itself says can be refused (kInvalidArgument)
  /// before that: then the others may be on their way still, and drop_begun() ends that.
  [[nodiscard]] DecodeStatus begin(const Batch& batch);
  /// Results are those of the batch on its way that was begun first, where there is one. Throws, or was
  /// cancelled, as begin.
  [[nodiscard]] DecodeStatus finish();
  /// The batches on their way get no results.
  void drop_begun() noexcept;

  struct Impl;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
