#pragma once
// A context: the KV cache of many sequences, and the compiled plan (weft/plan.h) that computes batches of
// their tokens.
//
//   weft::Context context(model, {.n_ctx = 4096, .n_sequences = 8});
//   weft::Batch batch;
//   batch.add(prompt, 0);  // The prompt's tokens, in sequence 0.
//   if (context.decode(batch) == weft::DecodeStatus::kOk) draw_from(context.logits(batch.size() - 1));
//
// A cell of the cache holds one token's keys and values in all layers. A page is 64 cells. A step is one run
// of the plan over at most n_ubatch tokens; a larger batch takes several steps.
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

/// The element type of cached keys or values. Head sizes must be multiples of 32 for kQ8_0 and kQ4_0, and
/// even for kBF16. With kAuto it is kBF16 if attention reads it faster than kF16 on all devices, otherwise
/// kF16.
enum class CacheType : std::uint8_t { kAuto, kF32, kF16, kBF16, kQ8_0, kQ4_0 };

struct ContextParams {
  /// Cells of the cache, shared by all sequences. 0: the training context length, at most 8192.
  int n_ctx = 0;
  int n_sequences = 1;  ///< The most sequences at the same time.
  int n_ubatch = 512;   ///< The most tokens of a step.
  /// Encoder-decoder models (ModelInfo::reads_source): the most tokens of a source, which is the input of the
  /// encoder. Each sequence has room for one. The memory of a step grows with the square of n_source. 0: the
  /// training length, at most 512.
  int n_source = 0;
  /// The most rows of logits (items that request logits) of a step. 0: max(64, n_sequences).
  int n_outputs = 0;
  int n_threads = 0;  ///< 0: the number of cores.
  /// The largest n of Batch::only_best. 0: only_best is refused. Values above 0 need a model whose devices
  /// are all CPUs. -1: 64 if all devices of the model are CPUs, otherwise 0.
  int n_best = -1;
  CacheType k_type = CacheType::kAuto;
  CacheType v_type = CacheType::kAuto;
  /// Layers with sliding-window attention keep a sequence's last window + window_rewind tokens. So the last
  /// window_rewind tokens can be removed again, as after a wrong draft. -1: they keep all tokens.
  int window_rewind = 256;
  /// Whether steps sum up squared inputs of the model's matrices (Context::column_sums). Other results do not
  /// change.
  bool sum_columns = false;
  /// Default adapters of a sequence. Context::set_adapters sets others.
  std::vector<AdapterUse> adapters = {};
};

/// Positions in time, image row and image column (M-RoPE), from 0.
using AxisPositions = std::array<Pos, 3>;

/// Tokens to compute, of any sequences in any order. Each is an item; items are numbered from 0 in the order
/// of addition. Positions within a sequence must ascend. clear() empties the batch for another use. Item
/// numbers outside the batch throw Error kInvalidArgument.
class Batch {
 public:
  static constexpr Pos kNextPos = -1;  ///< The position after the sequence's last one.

  void clear();
  void add(Token token, SeqId seq, bool logits = false, Pos pos = kNextPos);
  /// A token that several sequences share. It is computed once, for the first of them. They must have the
  /// same adapters and source. In models with recurrent layers the sequences must be identical copies before
  /// the batch (otherwise Error kUnsupported from decode).
  void add(Token token, std::span<const SeqId> seqs, bool logits = false, Pos pos = kNextPos);
  void add(Token token, std::initializer_list<SeqId> seqs, bool logits = false, Pos pos = kNextPos) {
    add(token, std::span(seqs.begin(), seqs.size()), logits, pos);
  }
  /// Consecutive tokens of a sequence. `logits_at_end` requests logits for the last one only.
  void add(std::span<const Token> tokens, SeqId seq, bool logits_at_end = true);
  void add(std::initializer_list<Token> tokens, SeqId seq, bool logits_at_end = true) {
    add(std::span(tokens.begin(), tokens.size()), seq, logits_at_end);
  }

  /// An embedding instead of a token: ModelInfo::n_embd_input floats, the input of the first layer.
  void add(std::span<const float> embedding, SeqId seq, bool logits = false, Pos pos = kNextPos);

  /// Requests the n best tokens of an item instead of all its logits: read Context::best, not
  /// Context::logits. The item must request logits. n is 1 to ContextParams::n_best.
  void only_best(int item, int n);
  /// Requests the log-sum-exp of an item, too: log(sum(e^logit)) over the vocabulary. The item must request
  /// logits. A token's log-probability is its logit - Context::log_sum_exp. `token` requests the logit of
  /// that token as well (Context::logit), for example of the next prompt token.
  void want_log_sum_exp(int item, Token token = kNoToken);
  /// Requests the embedding of an item (Context::embedding). It may be requested without logits, and is then
  /// computed without the output head.
  void want_embedding(int item);

  // Attention masks. By default an item attends to the positions of its sequence up to its own.
  /// The item attends to all positions of its sequence below `end`, later ones included. This gives
  /// bidirectional attention within a prefix or prompt. The batch's items before `end` must be in the same
  /// step as this item: at most n_ubatch items.
  void see_to(int item, Pos end);
  /// Sets an item's positions in time, image row and image column, for models with M-RoPE (ModelInfo::axes).
  /// By default all three are the item's own position. They only rotate keys and queries; masks and cells
  /// depend on the item's own position. Context::shift adds the same delta to all three.
  void stand_at(int item, const AxisPositions& at);
  /// The item does not attend to `other`, an item of this batch in the same sequence.
  void hide(int item, int other);

  int size() const { return static_cast<int>(items_.size()); }
  struct Item {
    Token token = kNoToken;  ///< kNoToken: an embedding.
    Pos pos = kNextPos;
    SeqId seq = 0;
    bool logits = false;
    std::int32_t n_shared = 0;  ///< The number of further sequences that share the token: see shared_with().
    std::int32_t first_shared = 0;
    std::int32_t embedding = -1;        ///< The index of its first float; -1: a token.
    std::int32_t n_embedding = 0;       ///< The number of floats.
    Pos sees_to = -1;                   ///< -1: its own position.
    AxisPositions axes = {-1, -1, -1};  ///< -1: its own position.
    int n_best = 0;                     ///< The best tokens to return; 0: all logits.
    bool log_sum_exp = false;           ///< Whether the log-sum-exp is requested.
    Token token_of_logit = -1;          ///< The token whose logit is requested; -1: none.
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
  /// The cache lacks cells; sequences are as before the batch. Remove or shorten some, then try again.
  kCacheFull,
  kCancelled,  ///< cancel() was called; sequences are as before the batch.
};

/// A run of consecutive cells that the same sequences hold.
struct CellRun {
  int first = 0;  ///< The number of the first cell: page * kCellsOfPage + index in the page.
  int n = 0;
  std::vector<SeqId> sequences = {};  ///< In ascending order. Several sequences share the cells.
  friend bool operator==(const CellRun&, const CellRun&) = default;
};

/// Counts of plans and steps, their host time and their memory. A plan is compiled once; each step changes
/// some of its inputs.
struct PlanStats {
  std::int64_t compiled = 0;
  std::int64_t steps = 0;
  std::int64_t steps_unchanged = 0;  ///< Steps with the sizes of the step before; only values differ.
  std::int64_t steps_shapes = 0;     ///< Steps with other sizes: numbers of tokens or outputs.
  std::int64_t steps_tensors = 0;    ///< Steps with other tensors bound to the plan.
  std::int64_t copies = 0;           ///< Copies of values between devices.
  std::int64_t copied_bytes = 0;     ///< The bytes of these copies.
  double host_us_per_step = 0.0;     ///< Mean time of a step outside kernels: placing tokens, writing inputs.
  // Memory for the temporaries of steps, on all devices. Caches are not included.
  std::int64_t workspace_bytes = 0;         ///< Of this context alone.
  std::int64_t shared_workspace_bytes = 0;  ///< Shared by the contexts that take turns.
};

/// Used by one thread at a time. Keeps the model alive. A moved-from context may be assigned to or destroyed.
/// Other calls throw Error kInvalidArgument, but cancel() and take_back_cancel() do nothing.
class Context {
 public:
  /// Reserves caches and temporaries for the largest step; decode() allocates no more of them. Only host
  /// memory for a batch (its items, and the logits of all its steps but the last) grows with the largest
  /// batch so far. Throws Error: kInvalidArgument for wrong params, kUnsupported for an encoder,
  /// kOutOfMemory, kDevice.
  Context(std::shared_ptr<const Model> model, const ContextParams& params = {});
  /// A context that takes turns with `other`, for example a draft model's with the main model's. Such
  /// contexts share the memory for temporaries, so their steps must never overlap. The caller ensures that no
  /// thread makes or uses one of them while a thread uses another. All contexts made from each other take
  /// turns. They may have different models, and may be destroyed in any order.
  Context(std::shared_ptr<const Model> model, const ContextParams& params, const Context& other);
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  const Model& model() const;
  const ContextParams& params() const;  ///< With defaults replaced by their values.

  /// Computes a batch. Results are read by logits(), best(), log_sum_exp(), logit() and embedding(), for the
  /// batch's item numbers. Items without such a request make these throw Error kInvalidArgument. A call that
  /// does not return kOk has no results.
  ///
  /// Throws Error kInvalidArgument, and changes nothing, for wrong tokens, sequences or positions, and for a
  /// batch that does not fit into an empty cache. Throws kUnsupported for a position whose window is no
  /// longer cached (ContextParams::window_rewind).
  ///
  /// Throws Error kDevice if a device fails, kOutOfMemory, and kIo if weights in a mapped file have changed
  /// (Model::check_weights). Sequences are then as before the batch, and decode() may be called again. Only
  /// sequences whose cells the failed step had to move (after a copy, a shift or defragmentation) are no
  /// longer intact(). If a device is lost for good or the file has changed, all later steps fail, too: load
  /// the model again.
  [[nodiscard]] DecodeStatus decode(const Batch& batch);
  /// Makes the running decode() return kCancelled soon. If none is running, the next one returns kCancelled
  /// at once. Each call cancels at most one decode(). Any thread or signal handler may call it.
  void cancel() noexcept;
  /// Withdraws a cancel() that no decode() has received yet. Returns whether there was one.
  bool take_back_cancel() noexcept;

  /// False if the sequence's cells are undefined, because a step that had to move them failed. Until the
  /// sequence is removed as a whole or restored, decode, copy, shift, divide, forget and save throw Error
  /// kInvalidArgument for it. To continue, remove it and compute its tokens again, with bit-identical
  /// results. Other sequences are not affected.
  bool intact(SeqId seq) const;
  bool intact() const;  ///< Whether all sequences are intact.

  /// The n_vocab logits of item i of the last batch. They are valid until the next decode(). After that the
  /// span may still be read until the context is destroyed, but its values are undefined.
  std::span<const float> logits(int i) const;
  /// The tokens of Batch::only_best for item i of the last batch, best first. Their logits have the bits of
  /// Context::logits; NaN counts as minus infinity. Valid until the next decode().
  std::span<const Best> best(int i) const;
  /// The log-sum-exp (Batch::want_log_sum_exp) of item i of the last batch, with the same bits in any batch.
  /// NaN counts as minus infinity. If all logits are minus infinity, so is the result. With
  /// ContextParams::n_best > 0 steps compute it; otherwise the calling thread did so in decode().
  float log_sum_exp(int i) const;
  /// The logit of the token given to Batch::want_log_sum_exp, with the bits of Context::logits. NaN becomes
  /// minus infinity.
  float logit(int i) const;
  /// The embedding (Batch::want_embedding) of item i of the last batch: n_embd floats, the last hidden state
  /// after the final norm. It has the same bits in any batch. Valid until the next decode().
  std::span<const float> embedding(int i) const;

  // Operations on sequences. Ranges of positions are [begin, end); end < 0: to the end of the sequence. An
  // operation never changes results of other sequences. Wrong arguments throw Error kInvalidArgument and
  // change nothing. Operations that return bool may need free cells, as they copy cells that other sequences
  // share. If the cache has too few, they return false and change nothing, except forget().
  //
  // In models with recurrent layers (ModelInfo::recurrent) a sequence has one state for all its tokens. It
  // can be removed and copied only as a whole; other ranges, shift() and divide() throw Error kUnsupported.
  // To return to an earlier state, copy the sequence before you extend it. The copy shares the state until
  // one of the two is extended.
  //
  // Layers with sliding-window attention drop old tokens (ContextParams::window_rewind). An operation after
  // which a sequence would need dropped tokens throws Error kUnsupported and changes nothing. Examples are
  // removing a long tail and copying a short prefix.
  void remove(SeqId seq, Pos begin = 0, Pos end = -1);
  /// Replaces a range of `to` by the same range of `from`. Both share the cells; nothing is copied. Before a
  /// sequence extends a partly filled page that others share, it gets its own copy of the page's cells. So
  /// each branch of a prompt may take up to kCellsOfPage - 1 cells in addition to its own tokens.
  [[nodiscard]] bool copy(SeqId from, SeqId to, Pos begin = 0, Pos end = -1);
  void keep(SeqId seq);  ///< Removes all others.
  /// Adds delta to the positions in the range. They must stay in order with the positions outside it, and in
  /// 0 to max_positions() - 1. The next decode() rotates the cached keys. Error kUnsupported for models with
  /// learned positions.
  [[nodiscard]] bool shift(SeqId seq, Pos begin, Pos end, Pos delta);
  /// Whether remove(seq, pos) is possible, so that the sequence can continue at `pos`.
  bool can_cut(SeqId seq, Pos pos) const;
  bool cuts_anywhere() const;  ///< Whether can_cut() is true for all positions, in any sequence.
  /// Whether tokens of the last batch can be removed again, as wrong drafts are.
  bool cuts_back() const;
  bool can_shift() const;  ///< Whether shift() and divide() are supported by the model.
  /// Context shift: removes n positions from `begin` and shifts the later ones down by n. Attention no longer
  /// sees the removed tokens; recurrent states still include them. The last position cannot be removed. While
  /// cells are missing, `make_room` is called: it frees some and returns true, or returns false to give up.
  /// Returns false if cells or the layers' windows are missing; the sequence can then only be removed. Error
  /// kUnsupported if why_not_forget() is not empty.
  [[nodiscard]] bool forget(SeqId seq, Pos begin, Pos n, const std::function<bool()>& make_room = {});
  /// Why the model does not support forget(). Empty: it does.
  std::string_view why_not_forget() const;
  /// Divides the positions in the range, rounding down (self-extend). Error kUnsupported for models with
  /// learned positions and for sequences with items of stand_at(), or restored in models with M-RoPE.
  [[nodiscard]] bool divide(SeqId seq, Pos begin, Pos end, int divisor);
  void clear();  ///< Removes all sequences.

  // LoRA adapters. All tokens of a sequence have the same adapters. Sequences with different adapters can
  // share a batch; results have the same bits as alone. A sequence that becomes empty has
  // ContextParams::adapters again. Copies and saved states keep the adapters. Copying a range into a sequence
  // with other adapters throws Error kInvalidArgument.

  static constexpr int kMaxAdapters = 8;  ///< The most adapters of a sequence.
  /// Sets the adapters of an empty sequence: at most kMaxAdapters, none twice. Those of scale 0 are left out.
  /// Throws Error kInvalidArgument if the sequence has tokens, if its source was encoded with other adapters,
  /// and for adapters that the model does not have.
  void set_adapters(SeqId seq, std::span<const AdapterUse> adapters);
  void set_adapters(SeqId seq, std::initializer_list<AdapterUse> adapters) {
    set_adapters(seq, std::span(adapters.begin(), adapters.size()));
  }
  std::span<const AdapterUse> adapters(SeqId seq) const;  ///< Valid until they change.

  // Sources: the encoder inputs of encoder-decoder models (ModelInfo::reads_source). Set a sequence's source
  // before its first token, which is ModelInfo::first_token. The source is encoded with the sequence's
  // adapters. It stays until the sequence is removed as a whole. A copy of a sequence, even an empty one,
  // shares the source.

  /// Encodes the source of an empty sequence, replacing an earlier source. Throws Error kInvalidArgument, and
  /// changes nothing, if the sequence has tokens, for unknown tokens, and unless there are 1 to
  /// ContextParams::n_source tokens. Throws kUnsupported for other kinds of models. After kCancelled, or an
  /// Error of a device (as in decode()), the sequence has no source.
  [[nodiscard]] DecodeStatus set_source(SeqId seq, std::span<const Token> tokens);
  int source_size(SeqId seq) const;  ///< The tokens of the source. 0: no source.

  Pos next_pos(SeqId seq) const;  ///< The position of the next token. 0 for an empty sequence.
  Pos min_pos(SeqId seq) const;   ///< The lowest position. -1 for an empty sequence.
  /// Moves at most max_cells cells to merge partly filled pages. decode() does this itself when pages run
  /// out.
  void defragment(int max_cells = 4096);
  /// Positions must be below this. It is the training length for models with learned positions.
  Pos max_positions() const;
  /// The number of tokens per batch that computes a long prompt fastest. It is n_ubatch, or several times
  /// that if steps overlap on several devices.
  int batch_size() const;
  /// Cells that sequences hold. Shared cells count once.
  int cells_used() const;
  int cells_total() const;
  /// The error message for kCacheFull or false: the cells in use and the cells in all. n_wanted: the size of
  /// the batch, if known.
  std::string why_full(int n_wanted = 0) const;
  /// The cells in use and their sequences, by ascending cell number. Takes time linear in the cells that
  /// sequences hold. Cell numbers are below n_pages() * kCellsOfPage, which may exceed cells_total().
  std::vector<CellRun> cell_runs() const;
  int n_pages() const;
  static constexpr int kCellsOfPage = 64;
  /// Bytes of the cache pages that have held tokens so far. The constructor reserves all pages, but on a CPU
  /// a page takes physical memory only from its first use on.
  std::int64_t cache_bytes() const;
  /// Whether all internal counts agree; for tests. Takes time linear in the size of the cache.
  bool consistent() const;

  // Saved states: one sequence with its source and adapters, or all sequences. A state can be restored into
  // any context with the same model file and cache types, in any cells. Models whose RoPE frequencies depend
  // on n_ctx also need the same n_ctx. A restored sequence continues with bit-identical logits. States are
  // checked in full before anything changes: damaged ones throw Error kInvalidFile. States of another model
  // or cache type, and states larger than this context, throw kInvalidArgument.
  std::vector<std::byte> save(SeqId seq) const;
  std::vector<std::byte> save() const;
  /// Replaces `seq` by the saved sequence. Returns false, and changes nothing, if the cache has no room. If a
  /// device fails or memory runs out, `seq` is empty or not intact().
  [[nodiscard]] bool restore(std::span<const std::byte> state, SeqId seq);
  /// Replaces all sequences by the sequences of a saved context, with the same ids.
  [[nodiscard]] bool restore(std::span<const std::byte> state);
  /// Writes the file atomically. Throws Error kIo.
  void save_file(const std::filesystem::path& path, SeqId seq) const;
  void save_file(const std::filesystem::path& path) const;
  [[nodiscard]] bool restore_file(const std::filesystem::path& path, SeqId seq);
  [[nodiscard]] bool restore_file(const std::filesystem::path& path);

  /// For each matrix of the model, the sum of squares of each input column over all tokens so far (an
  /// importance matrix). Needs ContextParams::sum_columns. The last layer and the output head count only
  /// items that request logits or embeddings. Steps of failed and cancelled batches stay in the sums.
  std::vector<ColumnSums> column_sums() const;

  PlanStats plan_stats() const;
  /// Records the times and counts of later steps in `profile`, which the caller owns. Null ends that.
  /// Recording costs some percent of a step's time.
  void set_profile(Profile* profile);

 private:
  friend class Batcher;
  /// Reserves the context for one batcher. Throws Error kInvalidArgument if another batcher has it.
  void lease();
  void end_lease() noexcept;
  // Overlapping batches: while devices compute the last splits of one batch, the host starts the next batch.
  // Sequences hold a batch's items as soon as it has begun.
  /// The number of batches in flight that keeps all devices busy. 1: batches do not overlap.
  int n_at_once() const;
  /// Like decode(), but returns while the batch is in flight; finish() provides its results. After kCacheFull
  /// the batch was not begun, and earlier ones are still in flight. For a wrong batch (kInvalidArgument) the
  /// same holds. After any other error and after kCancelled, no batch is in flight. This batch's items are
  /// then removed. The items of the other batches are undefined: the caller removes them.
  [[nodiscard]] DecodeStatus begin(const Batch& batch);
  /// Waits for the oldest batch in flight, if any, and provides its results. Errors and kCancelled are as for
  /// begin().
  [[nodiscard]] DecodeStatus finish();
  /// Ends the batches in flight without results.
  void drop_begun() noexcept;

  struct Impl;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
