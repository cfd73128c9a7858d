#pragma once
// A context: the KV cache of many sequences, and the compiled plan (weft/plan.h) that computes batches of
// their tokens.
//
//   weft::Context context(model, {.n_ctx = 4096, .n_sequences = 8});
//   weft::Batch batch;
//   batch.add(prompt, 0);  // The prompt's tokens, in sequence 0.
//   if (context.decode(batch) == weft::DecodeStatus::kOk) draw_from(context.logits(batch.size() - 1));
//
// A step is one run of the plan over at most n_ubatch tokens; a larger batch takes several steps. The cache
// has an API of its own: Context::cache (weft/kv_cache.h).
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

#include "weft/batch.h"
#include "weft/importance.h"
#include "weft/kv_cache.h"
#include "weft/model.h"
#include "weft/profile.h"
#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

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
  /// The largest ItemOptions::n_best. Values above 0 need a model whose devices are all
  /// CPUs. -1: 64 if all devices of the model are CPUs, otherwise 0. So a program that also runs on GPUs
  /// reads Context::params and, with 0, requests all logits.
  int n_best = -1;
  CacheType k_type = CacheType::kAuto;
  CacheType v_type = CacheType::kAuto;
  /// Whether quantised caches keep keys and values rotated by a Hadamard matrix (ops::Hadamard). It spreads
  /// outliers, so the quantisation error is smaller. Caches of other types are never rotated.
  bool rotate_cache = true;
  /// Layers with sliding-window attention keep a sequence's last window + window_rewind tokens. So the last
  /// window_rewind tokens can be removed again, as after a wrong draft. -1: they keep all tokens.
  int window_rewind = 256;
  /// Recurrent layers keep the states before the last state_rewind items with logits, of all sequences
  /// together. So these items can be removed again, as after a wrong draft. Each kept state takes the memory
  /// of a running state. A batch drops the oldest kept states to make room for its own, even if it then fails
  /// or is cancelled. Sequences then stay as they are, but fewer items can be removed. 0 to 4096.
  int state_rewind = 0;
  /// Whether steps sum up squared inputs of the model's matrices (Context::column_sums). Other results do not
  /// change.
  bool sum_columns = false;
  /// Default adapters of a sequence. Context::set_adapters sets others.
  std::vector<AdapterUse> adapters = {};
};

enum class DecodeStatus : std::uint8_t {
  kOk,
  /// The cache lacks cells; sequences are as before the batch. Remove or shorten some, then try again.
  kCacheFull,
  kCancelled,  ///< cancel() was called; sequences are as before the batch.
};
/// "ok", "cache_full", "cancelled"
std::string_view to_string(DecodeStatus status);

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
  /// Throws Error kInvalidArgument, and changes nothing, for an empty batch and for wrong tokens, sequences
  /// or positions. The same holds for a batch that does not fit into an empty cache. Throws kUnsupported for
  /// a position whose window is no longer cached (ContextParams::window_rewind).
  ///
  /// Throws Error kDevice if a device fails, kOutOfMemory, and kIo if weights in a mapped file have changed
  /// (Model::check_weights). Sequences are then as before the batch, and decode() may be called again. Only
  /// sequences whose cells the failed step had to move (after a copy, a shift or defragmentation) are no
  /// longer intact (KvCache::intact). If a device is lost for good or the file has changed, all later steps
  /// fail, too: load the model again.
  [[nodiscard]] DecodeStatus decode(const Batch& batch);

  // Overlapping batches: while devices compute the last layers of one batch, the host starts the next one. A
  // token that is drawn from a batch can only be in a later batch, so divide the sequences into n_at_once()
  // groups. Results have the bits of decode().
  //
  //   const int n = context.n_at_once();
  //   for (int i = 0; !done(); ++i) {
  //     Group& group = groups[i % n];
  //     if (i >= n) check(context.finish()), draw(group, context);  // Its batch is the oldest in flight.
  //     check(context.begin(batch_of(group)));                      // Expects DecodeStatus::kOk.
  //   }

  /// The number of batches in flight that keeps all devices busy, and the most that may be in flight. 1:
  /// batches do not overlap, and begin() computes.
  int n_at_once() const;
  /// Like decode(), but returns while the batch is in flight; finish() provides its results. The batch is
  /// copied, and sequences hold its items at once. Operations of KvCache take effect after the batches in
  /// flight. save(), restore() and set_source() wait for them; decode() ends them as drop_begun() does.
  ///
  /// Throws Error kInvalidArgument for a wrong batch and if n_at_once() batches are in flight. After that and
  /// after kCacheFull, this batch was not begun, and earlier ones are still in flight. After any other error
  /// and after kCancelled, no batch is in flight. This batch's items are then removed. The items of the other
  /// batches are undefined: the caller removes them.
  [[nodiscard]] DecodeStatus begin(const Batch& batch);
  /// Waits for the oldest batch in flight, if any, and provides its results until the next finish(), begin()
  /// or decode(). After an error and after kCancelled, no batch is in flight. The items of all of them are
  /// undefined: the caller removes them.
  [[nodiscard]] DecodeStatus finish();
  /// Ends the batches in flight without results. The caller removes their items.
  void drop_begun() noexcept;

  /// Makes the running decode() return kCancelled soon. If none is running, the next one returns kCancelled
  /// at once. Each call cancels at most one decode(). The same holds for begin(), finish() and set_source().
  /// Any thread or signal handler may call it.
  void cancel() noexcept;
  /// Withdraws a cancel() that no decode() has received yet. Returns whether there was one.
  bool take_back_cancel() noexcept;

  /// The n_vocab logits of item i of the last batch. They are valid until the next decode(), begin() or
  /// finish(). After that the span may still be read until the context is destroyed, but its values are
  /// undefined.
  std::span<const float> logits(int i) const;
  /// The best tokens (ItemOptions::n_best) of item i of the last batch, best first. Their logits have the
  /// bits of Context::logits; NaN counts as minus infinity. Valid as long as logits.
  std::span<const Best> best(int i) const;
  /// The log-sum-exp (ItemOptions::log_sum_exp) of item i of the last batch, with the same bits in any batch.
  /// NaN counts as minus infinity. If all logits are minus infinity, so is the result. With
  /// ContextParams::n_best > 0 steps compute it; otherwise the calling thread did so in decode().
  float log_sum_exp(int i) const;
  /// The logit of the token ItemOptions::logit_of, with the bits of Context::logits. NaN becomes minus
  /// infinity.
  float logit(int i) const;
  /// The embedding (ItemOptions::embedding) of item i of the last batch: n_embd floats, the last hidden state
  /// after the final norm. It has the same bits in any batch. Valid as long as logits.
  std::span<const float> embedding(int i) const;

  /// The cache: operations on sequences (remove, copy, shift ...), positions and cells.
  KvCache& cache();
  const KvCache& cache() const;

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

  /// The number of tokens per batch that computes a long prompt fastest. It is n_ubatch, or several times
  /// that if steps overlap on several devices.
  int batch_size() const;

  // Saved states: one sequence with its source and adapters, or all sequences. A state can be restored into
  // any context with the same model file and cache types, in any cells. Models whose RoPE frequencies depend
  // on n_ctx also need the same n_ctx. A restored sequence continues with bit-identical logits. States are
  // checked in full before anything changes: damaged ones throw Error kInvalidFile. States of another model
  // or cache type, and states larger than this context, throw kInvalidArgument.
  std::vector<std::byte> save(SeqId seq) const;
  std::vector<std::byte> save() const;
  /// Replaces `seq` by the saved sequence. Returns false, and changes nothing, if the cache has no room. If a
  /// device fails or memory runs out, `seq` is empty or not intact (KvCache::intact).
  [[nodiscard]] bool restore(std::span<const std::byte> state, SeqId seq);
  /// Replaces all sequences by the sequences of a saved context, with the same ids.
  [[nodiscard]] bool restore(std::span<const std::byte> state);
  /// Writes the file atomically. Throws Error kIo.
  void save_file(const std::filesystem::path& path, SeqId seq) const;
  void save_file(const std::filesystem::path& path) const;
  [[nodiscard]] bool restore_file(const std::filesystem::path& path, SeqId seq);
  [[nodiscard]] bool restore_file(const std::filesystem::path& path);

  /// For each matrix of the model, the sum of squares of each input column over all tokens so far (an
  /// importance matrix). Empty without ContextParams::sum_columns. The last layer and the output head count
  /// only items that request logits or embeddings. Steps of failed and cancelled batches stay in the sums.
  std::vector<ColumnSums> column_sums() const;

  PlanStats plan_stats() const;
  /// Records the times and counts of later steps in `profile`, which the caller owns. Null ends that.
  /// Recording costs some percent of a step's time.
  void set_profile(Profile* profile);

  // Deprecated names, for one version.

  [[deprecated("use cache().remove()")]] void remove(SeqId seq, Pos begin = 0, Pos end = -1) {
    cache().remove(seq, begin, end);
  }
  [[deprecated("use cache().copy()")]] [[nodiscard]] bool copy(SeqId from, SeqId to, Pos begin = 0,
                                                               Pos end = -1) {
    return cache().copy(from, to, begin, end);
  }
  [[deprecated("use cache().keep()")]] void keep(SeqId seq) { cache().keep(seq); }
  [[deprecated("use cache().shift()")]] [[nodiscard]] bool shift(SeqId seq, Pos begin, Pos end, Pos delta) {
    return cache().shift(seq, begin, end, delta);
  }
  [[deprecated("use cache().divide()")]] [[nodiscard]] bool divide(SeqId seq, Pos begin, Pos end,
                                                                   int divisor) {
    return cache().divide(seq, begin, end, divisor);
  }
  [[deprecated("use cache().forget()")]] [[nodiscard]] bool forget(
      SeqId seq, Pos begin, Pos n, const std::function<bool()>& make_room = {}) {
    return cache().forget(seq, begin, n, make_room);
  }
  [[deprecated("use cache().clear()")]] void clear() { cache().clear(); }
  [[deprecated("use cache().defragment()")]] void defragment(int max_cells = 4096) {
    cache().defragment(max_cells);
  }
  [[deprecated("use cache().can_cut()")]] bool can_cut(SeqId seq, Pos pos) const {
    return cache().can_cut(seq, pos);
  }
  [[deprecated("use cache().cuts_anywhere()")]] bool cuts_anywhere() const { return cache().cuts_anywhere(); }
  [[deprecated("use cache().cuts_back()")]] bool cuts_back() const { return cache().cuts_back(); }
  [[deprecated("use cache().can_shift()")]] bool can_shift() const { return cache().can_shift(); }
  [[deprecated("use cache().why_not_forget()")]] std::string_view why_not_forget() const {
    return cache().why_not_forget();
  }
  [[deprecated("use cache().max_positions()")]] Pos max_positions() const { return cache().max_positions(); }
  [[deprecated("use cache().next_pos()")]] Pos next_pos(SeqId seq) const { return cache().next_pos(seq); }
  [[deprecated("use cache().min_pos()")]] Pos min_pos(SeqId seq) const { return cache().min_pos(seq); }
  [[deprecated("use cache().intact()")]] bool intact(SeqId seq) const { return cache().intact(seq); }
  [[deprecated("use cache().intact()")]] bool intact() const { return cache().intact(); }
  [[deprecated("use cache().cells_used()")]] int cells_used() const { return cache().cells_used(); }
  [[deprecated("use cache().cells_total()")]] int cells_total() const { return cache().cells_total(); }
  [[deprecated("use cache().why_full()")]] std::string why_full(int n_wanted = 0) const {
    return cache().why_full(n_wanted);
  }
  [[deprecated("use cache().cell_runs()")]] std::vector<CellRun> cell_runs() const {
    return cache().cell_runs();
  }
  [[deprecated("use cache().n_pages()")]] int n_pages() const { return cache().n_pages(); }
  [[deprecated("use cache().bytes()")]] std::int64_t cache_bytes() const { return cache().bytes(); }
  [[deprecated("use cache().consistent()")]] bool consistent() const { return cache().consistent(); }
  [[deprecated("use KvCache::kCellsOfPage")]] static constexpr int kCellsOfPage = KvCache::kCellsOfPage;

  struct Impl;
  Impl& impl() const;  ///< For weft's own parts.

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
