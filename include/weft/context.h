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

/// kQ8_0 and kQ4_0 have a scale for each 32 elements, so head sizes must be multiples of 32. With kBF16 they
/// must be even. By default (kAuto) it is kBF16 where all devices multiply it faster than kF16 (processors
/// with instructions for it), otherwise kF16.
enum class CacheType : std::uint8_t { kAuto, kF32, kF16, kBF16, kQ8_0, kQ4_0 };

struct ContextParams {
  int n_ctx =
      0;  ///< Cells of the cache, shared by all sequences. 0: the model's training length, at most 8192.
  int n_sequences = 1;  ///< Sequences that may exist at the same time.
  int n_ubatch = 512;   ///< Tokens that one step computes at most; batches of any size are cut into these.
  /// Encoder-decoder models (ModelInfo::reads_source): the most tokens of an encoder input ("source"). There
  /// is room for one per sequence. The memory of a step grows with the square. 0: the model's training
  /// length, at most 512.
  int n_source = 0;
  int n_outputs = 0;  ///< Rows of logits that one step computes at most. 0: max(64, n_sequences).
  int n_threads = 0;  ///< 0: the number of cores.
  /// The most tokens that Batch::only_best can ask for. 0: only_best is refused. Default -1: 64 where the
  /// model is on the CPU alone, which finds them while it computes logits. Otherwise 0.
  int n_best = -1;
  CacheType k_type = CacheType::kAuto;
  CacheType v_type = CacheType::kAuto;
  /// Layers with a sliding window keep the window and this many tokens more, by which a sequence can be cut
  /// back. With -1 they keep everything, and sequences can be cut anywhere.
  int window_rewind = 256;
  /// Whether steps sum the squares of the inputs of the model's matrices (Context::column_sums). All other
  /// results keep their bits.
  bool sum_columns = false;
  /// The adapters of sequences, unless Context::set_adapters changes them.
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
  /// A token of several sequences: computed once, in the first one, and shared with the others. In models
  /// with recurrent layers these sequences must be copies of each other so far (Error kUnsupported).
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

  /// Requests only the n best tokens of an item that asks for logits. Context::best then replaces
  /// Context::logits for this item, whatever other items ask for. 1 to ContextParams::n_best.
  void only_best(int item, int n);
  /// Requests also the log-sum-exp of an item that asks for logits or the best tokens: the logarithm of the
  /// sum of e^logit over the vocabulary. A token's log-probability is its logit - Context::log_sum_exp. With
  /// `token`, for example the next one of a prompt, requests its logit, too (Context::logit).
  void want_log_sum_exp(int item, Token token = kNoToken);
  /// Requests the embedding of the item (Context::embedding), whether it asks for logits or not. The
  /// embedding does not need the output head.
  void want_embedding(int item);

  // Attention masks. By default an item sees its sequence up to its own position.
  /// The item sees the positions of its sequence below `end`, beyond its own position: for a prefix or a
  /// whole prompt with bidirectional attention. The items of this batch that it sees must fit into one step
  /// with it (n_ubatch).
  void see_to(int item, Pos end);
  /// In models with several position axes (ModelInfo::axes) the item has these positions of time, line and
  /// column. By default it has its own position in each axis. The mask and the cell depend on its own
  /// position only. A shift of keys turns each axis by the same number of positions.
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
    std::int32_t embedding = -1;        ///< The first of its floats ...
    std::int32_t n_embedding = 0;       ///< ... and their number.
    Pos sees_to = -1;                   ///< -1: its own position.
    AxisPositions axes = {-1, -1, -1};  ///< -1: its own position.
    int n_best = 0;                     ///< Only the best n_best tokens; 0: all logits.
    bool log_sum_exp = false;           ///< Is requested, and ...
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
  kCacheFull,  ///< Nothing changed. Remove or shorten sequences, then try again.
  kCancelled,  ///< cancel() was called: all sequences are as they were before the batch.
};

/// Consecutive cells of a cache that the same sequences hold.
struct CellRun {
  int first = 0;  ///< Cells are numbered page by page, kCellsOfPage each.
  int n = 0;
  std::vector<SeqId> sequences = {};  ///< In their order; more than one share the cells.
  friend bool operator==(const CellRun&, const CellRun&) = default;
};

/// Counts of compiled and reused plans, and their cost on the host.
struct PlanStats {
  std::int64_t compiled = 0;
  std::int64_t steps = 0;
  std::int64_t steps_unchanged = 0;  ///< No declared change: only the inputs' values differ.
  std::int64_t steps_shapes = 0;     ///< The values of symbols differ (tokens, outputs).
  std::int64_t steps_tensors = 0;    ///< External tensors were bound again.
  std::int64_t copies = 0;           ///< Values copied from device to device ...
  std::int64_t copied_bytes = 0;     ///< ... and their bytes.
  double host_us_per_step = 0.0;     ///< Outside kernels: admission, inputs, update.
  // Memory reserved for steps on all devices, without caches:
  std::int64_t workspace_bytes = 0;         ///< the context's own,
  std::int64_t shared_workspace_bytes = 0;  ///< and shared with contexts that it takes turns with.
};

/// Used by one thread at a time. Keeps the model alive. A moved-from context can be assigned to and
/// destroyed; anything else throws Error kInvalidArgument.
class Context {
 public:
  /// Reserves caches and workspaces for the worst case; later steps reserve no more. Host memory for a
  /// batch (positions and moves of its items, the logits of all but its last step) grows with the largest
  /// batch so far. Throws Error.
  Context(std::shared_ptr<const Model> model, const ContextParams& params = {});
  /// A context, of this model or another, that takes turns with `other` and with all that `other` takes turns
  /// with. The caller must not make or use one of them while another is in use in any thread. So their steps
  /// share workspaces on the same device, as large as the largest of them needs. A draft model's context
  /// takes turns with the model's. They may be destroyed in any order.
  Context(std::shared_ptr<const Model> model, const ContextParams& params, const Context& other);
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  const Model& model() const;
  const ContextParams& params() const;  ///< With the defaults filled in.

  /// Computes a batch. Throws Error kInvalidArgument and changes nothing for wrong ids, sequences or
  /// positions, and for a batch that would not fit into an empty cache.
  ///
  /// Throws Error kDevice where a device fails, kOutOfMemory where memory is exhausted, and kIo where weights
  /// changed in their mapped file (Model::check_weights). Then the batch's items are taken back and sequences
  /// are as before: decode may be tried again. Only sequences whose cells the failed step had to move (after
  /// copies, shifts and packing) are no longer intact(). A device that is lost for good, or a changed file,
  /// fails each further step, even after sequences are removed. The model must then be loaded again.
  [[nodiscard]] DecodeStatus decode(const Batch& batch);
  /// Makes the running decode() return kCancelled soon. If none is running, the next one returns it at once.
  /// Each call cancels at most one decode(). Any thread or signal handler may call it.
  void cancel() noexcept;
  /// Clears a cancel() that waits for the next decode(). Returns whether there was one.
  bool take_back_cancel() noexcept;

  /// False after the failure of a step that was to move the sequence's cells: they are undefined. Until the
  /// sequence is removed as a whole or restored, calls that would read it (decode, copy, shift, divide, save)
  /// throw Error kInvalidArgument. Other sequences are not affected. To continue, remove it and compute its
  /// tokens again: the bits are the same.
  bool intact(SeqId seq) const;
  bool intact() const;  ///< All of them.

  /// The n_vocab logits of item i of the last batch, which must have asked for all of them. Valid until the
  /// next decode; after that the memory has other numbers, until the context is destroyed.
  std::span<const float> logits(int i) const;
  /// The best tokens of item i of the last batch, which must have asked for them (Batch::only_best), best
  /// first. They have the bits of Context::logits. NaN counts as minus infinity. Valid until the next decode.
  std::span<const Best> best(int i) const;
  /// The log-sum-exp of item i of the last batch, which must have asked for it (Batch::want_log_sum_exp). The
  /// CPU computes it with the logits where it has the whole model and ContextParams::n_best is not 0.
  /// Otherwise the calling thread computes it from the row of logits. It has the same bits in any batch. NaN
  /// counts as minus infinity. If all logits are minus infinity, so is the result.
  float log_sum_exp(int i) const;
  /// The logit of the token of Batch::want_log_sum_exp, with the bits of Context::logits. NaN becomes minus
  /// infinity.
  float logit(int i) const;
  /// The embedding of item i of the last batch, which must have asked for it (Batch::want_embedding). It is
  /// the last hidden state after the final norm, the head's input: n_embd floats. It has the same bits in any
  /// batch. Valid until the next decode.
  std::span<const float> embedding(int i) const;

  // Operations on sequences. Positions are half-open ranges [begin, end); end < 0 means to the end. An
  // operation on one sequence never changes results of another. Wrong arguments throw Error kInvalidArgument
  // and change nothing. Operations that return bool may need room for copies of shared cells. They return
  // false and change nothing where the cache has none.
  //
  // Models with recurrent layers (ModelInfo::recurrent) keep one state per sequence. Tokens are added in
  // order. Sequences are removed and copied only as a whole: parts, shift() and divide() throw Error
  // kUnsupported. To be able to go back, copy the sequence before: the copy shares its state and costs no
  // bytes.
  //
  // Where layers keep only a sliding window (ContextParams::window_rewind), a sequence can continue only
  // while its window is in the cache. Operations that need a dropped window (cutting off a long tail, copying
  // an early prefix, shifting old tokens into the window) throw Error kUnsupported and change nothing.
  void remove(SeqId seq, Pos begin = 0, Pos end = -1);
  /// Replaces this range of `to` by the range of `from`. Cells are shared: no bytes move. A sequence that
  /// appends to a shared page copies that page first, if the page is partly filled. Each branch of a prompt
  /// may thus take up to kCellsOfPage - 1 more cells than its own tokens.
  [[nodiscard]] bool copy(SeqId from, SeqId to, Pos begin = 0, Pos end = -1);
  void keep(SeqId seq);  ///< Removes all others.
  /// Adds delta to positions. They must neither meet nor pass positions outside the range. The next decode
  /// turns the keys. Error kUnsupported for models with learned positions.
  [[nodiscard]] bool shift(SeqId seq, Pos begin, Pos end, Pos delta);
  /// Whether the sequence could be cut off before `pos`, or copied up to there, and continue.
  bool can_cut(SeqId seq, Pos pos) const;
  bool cuts_anywhere() const;  ///< Whether can_cut() is always true.
  /// Whether the tokens of the last batch can be cut off again, as wrong drafts are.
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
  /// Divides positions, rounding down. Error kUnsupported where images have axes of their own.
  [[nodiscard]] bool divide(SeqId seq, Pos begin, Pos end, int divisor);
  void clear();

  // Adapters. A sequence has the same adapters from its first token to its last. Sequences with different
  // adapters can share a batch; each has the bits that it has alone. A sequence that becomes empty by one of
  // the operations above gets ContextParams::adapters again. A copy and a saved state keep their adapters.
  // Cells of different adapters are never mixed in one sequence (Error kInvalidArgument).

  static constexpr int kMaxAdapters = 8;  ///< Of a sequence.
  /// Sets the adapters of an empty sequence: at most kMaxAdapters, each once. Scale 0 counts as none. Throws
  /// Error kInvalidArgument where the sequence is not empty or its source has other adapters, and for
  /// adapters that the model does not have.
  void set_adapters(SeqId seq, std::span<const AdapterUse> adapters);
  void set_adapters(SeqId seq, std::initializer_list<AdapterUse> adapters) {
    set_adapters(seq, std::span(adapters.begin(), adapters.size()));
  }
  std::span<const AdapterUse> adapters(SeqId seq) const;  ///< In their order, valid until they change.

  // Sources: the encoder inputs of encoder-decoder models (ModelInfo::reads_source). A sequence has the same
  // source from its first token, ModelInfo::first_token, to its last. A sequence that becomes empty by one of
  // the operations above loses its source. A copy, also of an empty sequence, shares the source. The encoder
  // reads a source with the adapters that its sequence has then, and the source keeps them.

  /// Encodes the source of an empty sequence and replaces a previous one. Other sequences are not affected.
  /// Throws Error kInvalidArgument and changes nothing where the sequence is not empty, for unknown tokens,
  /// for no tokens, and for more than ContextParams::n_source. Throws kUnsupported where the model is not an
  /// encoder-decoder. After a device failure (as in decode()) or kCancelled, the sequence has no source.
  [[nodiscard]] DecodeStatus set_source(SeqId seq, std::span<const Token> tokens);
  int source_size(SeqId seq) const;  ///< In tokens; 0: there is none.

  Pos next_pos(SeqId seq) const;  ///< 0 for an empty sequence.
  Pos min_pos(SeqId seq) const;   ///< -1 for an empty sequence.
  /// Packs half-empty pages together, moving at most `max_cells`. Happens by itself when pages run out.
  void defragment(int max_cells = 4096);
  Pos max_positions()
      const;  ///< Positions are below this: models with learned positions have a table of them.
  /// The best number of tokens for batches of a long prompt: the tokens of one step. If steps of a batch
  /// overlap on several devices, the tokens of several steps.
  int batch_size() const;
  int cells_used() const;
  int cells_total() const;
  /// A message for a call that found no room (kCacheFull, false): the cells in use, and the wanted cells
  /// where known.
  std::string why_full(int n_wanted = 0) const;
  /// The cells in use and their sequences, in the order of cell numbers. Takes time linear in the cells that
  /// sequences hold. At most cells_total() cells can be in use. The n_pages() pages have a few cells more.
  std::vector<CellRun> cell_runs() const;
  int n_pages() const;
  static constexpr int kCellsOfPage = 64;
  /// Bytes of the cache pages that were ever used. The constructor reserves all pages; the system provides
  /// the memory of a page when it is first written.
  std::int64_t cache_bytes() const;
  /// Whether all counts agree: for tests and audits. Takes time linear in the size of the cache.
  bool consistent() const;

  // States: one sequence with its source, or all of a context, for any context of the same model with the
  // same cache types. A restored sequence continues with bit-identical logits, in whatever cells. Bytes and
  // files are checked in full first. Damaged ones, ones of another model, and ones too large for this context
  // throw Error and change nothing.
  std::vector<std::byte> save(SeqId seq) const;
  std::vector<std::byte> save() const;
  /// Replaces `seq` by the saved sequence. Returns false and changes nothing where the cache has no room. If
  /// a device fails or memory runs out during that, `seq` is empty or not intact.
  [[nodiscard]] bool restore(std::span<const std::byte> state, SeqId seq);
  /// Replaces all sequences by the sequences of a saved context, with their saved ids.
  [[nodiscard]] bool restore(std::span<const std::byte> state);
  /// The file is replaced as a whole, or not at all. Throws Error kIo.
  void save_file(const std::filesystem::path& path, SeqId seq) const;
  void save_file(const std::filesystem::path& path) const;
  [[nodiscard]] bool restore_file(const std::filesystem::path& path, SeqId seq);
  [[nodiscard]] bool restore_file(const std::filesystem::path& path);

  /// For each matrix of the model, the column-wise sums of squares of all its input rows so far, if
  /// ContextParams::sum_columns is set. The last layer and the head read only rows with requested logits or
  /// embeddings. A batch that fails or is cancelled is not subtracted.
  std::vector<ColumnSums> column_sums() const;

  PlanStats plan_stats() const;
  /// Adds times and counts of all following steps to `profile`, which the caller owns, until this is called
  /// with null. Costs some percent of the time, and nothing when off.
  void set_profile(Profile* profile);

 private:
  friend class Batcher;
  /// Reserves the context for a batcher: throws Error kInvalidArgument where another one has it.
  void lease();
  void end_lease() noexcept;
  // Overlapping batches: while devices compute the later splits of a batch, the host starts the first ones of
  // the next. Sequences hold a batch's items as soon as it was begun.
  /// The number of batches in flight that keeps all devices busy; 1 where batches do not overlap.
  int n_at_once() const;
  /// Like decode, but returns while the batch is in flight; finish() delivers its results. kCacheFull: this
  /// batch was not begun, the others are still in flight. If it throws or was cancelled, no batch is in
  /// flight any more. This batch's items are taken back; items of the others are undefined, and the caller
  /// removes them. A wrong batch is refused first (kInvalidArgument): then others may still be in flight, and
  /// drop_begun() ends them.
  [[nodiscard]] DecodeStatus begin(const Batch& batch);
  /// Waits for the batch in flight that was begun first, if any, and provides its results. Throws and is
  /// cancelled as begin.
  [[nodiscard]] DecodeStatus finish();
  /// Ends the batches in flight without results.
  void drop_begun() noexcept;

  struct Impl;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
