#pragma once
// The CPU's kernels: what each instruction set provides. Bodies are written once over a small vector contract
// (vec_*.h) in *.inl files and compiled once per instruction set (one file each); a plan calls through the
// table. Where sets sum otherwise, or multiply and add in two roundings, each has bits of its own.
//
// Rules for every kernel:
//  * A row's result is a function of that row's inputs alone: the order of its sums depends neither on how
//    many rows, columns of a tile, tasks or threads there are, nor on where the row lies (bit-equal, always).
//  * No allocation, no exceptions, no global state. Pointers may be unaligned unless noted otherwise.
//  * These translation units must not emit shared inline functions (a COMDAT compiled for AVX-512 would be
//    linked into the generic path): no std templates, everything static or in the namespace of the set.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backend/cpu/layout/packed.h"
#include "weft/graph/extent.h"
#include "weft/graph/kinds.h"

namespace weft::cpu {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// A value of a row and its index. Larger values go first, and lower indices first among equal values.
struct BestEntry {
  float value = 0.0f;
  std::int32_t index = 0;
};
static inline bool goes_before(const BestEntry& a, const BestEntry& b) {
  return a.value > b.value || (a.value == b.value && a.index < b.index);
}
/// How many a row wants of the best n: all where `counts` is null.
static inline int wanted_best(const std::int32_t* counts, std::int64_t row, int n) {
  const int wanted = counts == nullptr ? n : counts[row];
  return wanted < 0 ? 0 : wanted > n ? n : wanted;
}
/// Behind all values, NaN included, which counts as minus infinity: an empty list is full of them.
inline constexpr BestEntry kNoBest = {-__builtin_inff(), 0x7fffffff};

/// Where a product's results go of which not all are wanted: each column has a sorted list of its best rows,
/// and some columns are written.
struct BestArgs {
  BestEntry* lists = nullptr;  ///< [column][n]
  int n = 0;
  const std::int32_t* counts = nullptr;  ///< [column]: how many of the n are wanted; null: all.
  std::int32_t first_index = 0;          ///< The index of the weight's first row.
  float softcap = 0.0f;                  ///< 0: off; otherwise y = softcap * tanh(y / softcap) before.
  /// [column]: the first row of the output that the column is written to, or -1; null: none is written.
  const std::int32_t* first_copy = nullptr;
  const std::int32_t* next_copy = nullptr;  ///< [row of the output]: a further one of the same column, or -1.
};

/// Sums of e^x over rows (ops::LogSumExp) are made in parts of kLogSumPart values. Each part has its largest
/// value and the sum relative to it; parts are merged in order. So the division among tasks does not matter.
inline constexpr int kLogSumPart = 16;
inline constexpr std::int32_t kNoLogSum = -2;  ///< ops::LogSumExp::kNoRow.
/// Where a product's parts go, one a panel.
struct LogSumArgs {
  const std::int32_t* ids = nullptr;  ///< [column]: as in the op.
  float* largest = nullptr;           ///< [column][part]
  float* sums = nullptr;              ///< Likewise.
  std::int64_t stride = 0;            ///< From one column to the next.
  float* picked = nullptr;            ///< [column]: the value of the row that ids names.
};

/// Uses of experts from begin to end - 1.
struct UseRange {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

/// What low-rank adapters add to a product: each column the mean of experts[ids[u]].low[u] over its uses u.
struct LowRankArgs {
  /// As many rows as the weight, plain floats; null: no addition. The first one's type and columns apply to
  /// all, whether it is used or not.
  const PackedMatrix* experts = nullptr;
  std::int32_t n_experts = 0;
  const float* low = nullptr;         ///< [use][columns of an expert]
  const std::int32_t* ids = nullptr;  ///< [use]
  const UseRange* uses = nullptr;     ///< [row of the output]
};

/// out[c, r] = epilogue(sum_k weight[r, k] * x[c, k]) for rows r of `weight` and columns c (tokens).
///   y = weight.x[c] + bias + additions;  with gate, which is computed likewise: y = activation(gate) * y;
///   without gate: y = activation(y);  then y += residual[c].
struct MatmulArgs {
  const PackedMatrix* weight = nullptr;
  const float* bias = nullptr;         ///< [rows] or null
  const PackedMatrix* gate = nullptr;  ///< Same shape and type as weight, or null.
  const float* gate_bias = nullptr;
  LowRankArgs low_rank;
  LowRankArgs gate_low_rank;
  Activation activation = Activation::kNone;
  const std::byte* x = nullptr;  ///< Rows in activation_form(weight->dtype).
  std::size_t x_row_bytes = 0;
  const std::int32_t* x_rows = nullptr;  ///< Column c reads row x_rows[c]; null: row c.
  float* out = nullptr;  ///< Column c writes row out_rows[c] (null: row c) of out_stride floats.
  std::int64_t out_stride = 0;
  const std::int32_t* out_rows = nullptr;
  const float* residual = nullptr;  ///< Same rows and stride as out; may be out itself. Or null.
  BestArgs best;                    ///< With lists: results go where it says; no residual then.
  LogSumArgs log_sums;              ///< Only with lists.
};

/// A bound on the product of a tall matrix with a column by the high bits of its codes: a sum, and its
/// largest distance from the product. Columns are kQ8 rows.
struct ScreenArgs {
  const PackedMatrix* weight = nullptr;
  const std::byte* x = nullptr;
  std::size_t x_row_bytes = 0;
  float* sums = nullptr;    ///< [column][rows, to whole panels]
  float* bounds = nullptr;  ///< Likewise.
  std::int64_t stride = 0;  ///< From one column to the next.
  bool deep = false;        ///< Sums and bounds are of all but the lowest bits.
};
/// As many columns are screened together: with four, arithmetic takes what reading less has saved.
inline constexpr int kScreenColumns = 2;

/// Float rows to kQ8 or kQ8Wide, n columns of each.
struct QuantiseArgs {
  Form form = Form::kQ8;
  const float* x = nullptr;  ///< Row 0, as out; further rows follow at this many floats ...
  std::int64_t x_stride = 0;
  std::int64_t n = 0;
  std::byte* out = nullptr;
  std::int64_t out_stride = 0;         ///< ... and bytes apart.
  const std::int32_t* rows = nullptr;  ///< Their numbers; null: 0, 1, ...
};

/// How positions turn pairs of a head's elements (RoPE; arXiv 2104.09864).
struct RopeTable {
  const float* cos = nullptr;  ///< [n_rot / 2] of one position
  const float* sin = nullptr;
  int n_rot = 0;      ///< Elements of a head that turn; the rest is copied.
  bool neox = false;  ///< Pairs (i, i + n_rot/2); otherwise (2i, 2i + 1).
};

/// One layer's K and V: pages of 64 cells, in the layout of cache_layout.h.
struct CacheLayout {
  DType k_type = DType::kF16;  ///< Quantised types (is_quantised_cache): heads are multiples of 32
  DType v_type = DType::kF16;
  int n_kv_heads = 0;
  int k_head_dim = 0;
  int v_head_dim = 0;
};

/// Attention of some rows of a batch over their sequences' extents, in order. A row attends to the cell of
/// position p if its bit is set in the extent's mask and p is below the row's end. If window > 0, p must not
/// be before first_seen. No entry of the row may hide the cell. Each extent's partial softmax (max, sum,
/// weighted V) starts from zero and is merged in order. So results do not depend on the grouping of rows.
struct AttentionArgs {
  const float* q = nullptr;  ///< [row of the batch][n_heads][k_head_dim], stride q_stride floats
  std::int64_t q_stride = 0;
  float* out = nullptr;  ///< [row of the batch][n_heads][v_head_dim], stride out_stride floats
  std::int64_t out_stride = 0;
  const std::byte* k_cache = nullptr;  ///< Pages of k_page_bytes(layout)
  const std::byte* v_cache = nullptr;
  CacheLayout layout;
  int n_heads = 0;  ///< A multiple of n_kv_heads: heads g*h .. g*h+g-1 read KV head h.
  float scale = 1.0f;
  float softcap = 0.0f;  ///< 0: off; otherwise s = softcap * tanh(s / softcap)
  int window = 0;        ///< 0: all
  bool chunked = false;
  const std::int32_t* positions = nullptr;     ///< [row of the batch]
  const std::int32_t* ends = nullptr;          ///< [row of the batch]
  const std::int32_t* hidden_first = nullptr;  ///< [row of the batch]: its first entry, or -1
  const HiddenCells* hidden = nullptr;
  const float* sinks = nullptr;   ///< [n_heads], or null
  const float* slopes = nullptr;  ///< [n_heads], or null: what a score is less for each position between.
  const float* distance_bias = nullptr;  ///< [n_heads][n_distances], or null: added to a score, by distance.
  int n_distances = 0;
};
/// The first position that a row at `position` sees, where there is a window.
static inline std::int64_t first_seen(const AttentionArgs& args, std::int32_t position) {
  return args.chunked ? position - position % args.window : std::int64_t{position} - args.window + 1;
}
/// Rows of one sequence.
struct AttentionSegment {
  int row_begin = 0;  ///< Of the tile's rows
  int n_rows = 0;
  const Extent* extents = nullptr;
  int n_extents = 0;
};
/// The work of one call. Sequences with a common prefix share a tile. Their first n_shared extents have the
/// same pages at the same positions (masks may differ), and K and V there are read once for all of them.
struct AttentionTile {
  const std::int32_t* rows = nullptr;  ///< Rows of the batch, segment after segment
  int n_rows = 0;                      ///< 1 to kAttentionRows
  const AttentionSegment* segments = nullptr;
  int n_segments = 0;
  int n_shared = 0;
};
inline constexpr int kAttentionRows = 32;

/// ops::RaggedAttention: up to kRaggedRows rows of one head. All see keys from the first on, row r n_keys[r]
/// of them.
struct RaggedArgs {
  const float* q = nullptr;
  std::int64_t q_stride = 0;  ///< Floats from row to row, as the others.
  const float* k = nullptr;   ///< Of the first key.
  std::int64_t k_stride = 0;
  const float* v = nullptr;
  std::int64_t v_stride = 0;
  const std::int32_t* n_keys = nullptr;  ///< [row]
  float* out = nullptr;
  std::int64_t out_stride = 0;
  int n_rows = 0;
  int k_dim = 0;
  int v_dim = 0;
  float scale = 1.0f;
  // Used only by ops::DenseAttention.
  float softcap = 0.0f;                ///< 0: off
  const float* bias = nullptr;         ///< Added to the scores, or null.
  const std::int32_t* mask = nullptr;  ///< 0 where a key is hidden, or null.
  std::int64_t bias_row = 0;           ///< Strides of either: from row to row, and from key to key.
  std::int64_t bias_key = 0;
  const float* sinks = nullptr;  ///< An additional score of a row, or null.
  std::int64_t sink_stride = 0;
};
inline constexpr int kRaggedRows = 64;
inline constexpr int kRaggedKeys = 64;  ///< That are looked at together.

/// One row of a recurrent layer, columns [0, n) of it. Its rows of the state lie `stride` floats apart;
/// `from` is null for zeros, and may be `to`.
struct RecurrentRow {
  const float* x = nullptr;
  const float* from = nullptr;
  float* to = nullptr;
  float* out = nullptr;
  std::int64_t n = 0;
  std::int64_t stride = 0;
};
/// out = bias + sum_k weight[k] * (row k of the state; behind the last x). The state then moves on by a row.
struct ConvRow : RecurrentRow {
  const float* weight = nullptr;  ///< [n_taps], `stride` apart
  const float* bias = nullptr;    ///< Or null
  int n_taps = 0;                 ///< One more than the rows of the state.
};
/// ops::SelectiveScan; of one head where that has heads.
struct ScanRow : RecurrentRow {
  bool head = false;  ///< dt, a and skip are one number each for all columns and states.
  const float* dt = nullptr;
  const float* a = nullptr;  ///< [n_state], `stride` apart
  const float* b = nullptr;  ///< [n_state]
  const float* c = nullptr;
  const float* skip = nullptr;
  int n_state = 0;
};

/// ops::DeltaRule: a row of one head, columns [0, n) of its state, whose rows lie from_stride and to_stride
/// floats apart. `from` is null for zeros, and may be `to`.
struct DeltaRow {
  const float* q = nullptr;  ///< [n_keys]
  const float* k = nullptr;
  const float* v = nullptr;        ///< Of these columns.
  const float* decay = nullptr;    ///< One, or [n_keys].
  bool own_decays = false;         ///< Of each row of the state.
  const float* beta = nullptr;     ///< One, or [n_keys] where keys are removed.
  const float* removed = nullptr;  ///< Or null
  const float* from = nullptr;
  float* to = nullptr;
  float* out = nullptr;
  std::int64_t from_stride = 0, to_stride = 0;
  std::int64_t n = 0;
  int n_keys = 0;
};

/// One time of a recurrent cell (ops::Lstm, ops::Gru): kCellUnits of its units, or the rest of them, for
/// n_rows sequences. Rows of states and results have n_hidden floats and begin with unit 0.
struct CellArgs {
  bool gru = false;
  const float* weight = nullptr;  ///< [input][gate][kCellUnits], of these units
  const float* x = nullptr;       ///< For these units of the first gate; gates are n_hidden floats apart ...
  std::int64_t x_stride = 0;      ///< ... and rows this many.
  const float* bias = nullptr;    ///< For these units of a GRU's last gate, or null.
  std::int64_t n_hidden = 0;
  std::int64_t unit = 0;  ///< The first one.
  int n_units = 0;
  int n_rows = 0;
  const float* h_from = nullptr;  ///< Null for zeros, as c_from.
  float* h_to = nullptr;
  const float* c_from = nullptr;  ///< Of an LSTM.
  float* c_to = nullptr;
};
inline constexpr int kCellUnits = 16;

/// An operand of elementwise kernels: as many elements as the result has, or one that is repeated.
template <typename T>
struct Elements {
  const T* at = nullptr;
  bool one = false;
};

/// A block of a product of matrices: out {m, n} = a {m, k} b {k, n}, of at most kProductRows rows. Strides
/// are in floats; out's columns lie next to each other.
struct ProductArgs {
  const float* a = nullptr;
  std::int64_t a_row = 0, a_column = 0;
  const float* b = nullptr;
  std::int64_t b_row = 0, b_column = 0;
  float* out = nullptr;
  std::int64_t out_stride = 0;
  std::int64_t m = 0, n = 0, k = 0;
};
inline constexpr std::int64_t kProductRows = 192;
inline constexpr std::size_t kProductScratchFloats = 48 * 1024;

/// A block of a convolution's results, n_rows rows of n_columns pixels of some channels:
///   out[channel][row][i] = bias[channel] + sum_k weight[channel][k] * x[row * x_row + taps[k] + i]
/// with the sum in order. Kernels may read x up to kWindowSlack floats after the last needed one.
struct WindowArgs {
  const float* x = nullptr;
  std::int64_t x_row = 0;
  const std::int64_t* taps = nullptr;
  std::int64_t n_taps = 0;
  /// Weights of a tap are kPanelRows apart. If channels are lanes, each points to the weights of a vector of
  /// channels, and lanes [first_lane, end_lane) of both together are stored. Otherwise it points to one
  /// channel's.
  const float* weights[4] = {};
  int first_lane = 0, end_lane = 0;
  int n_channels = 0;           ///< 1 to 4, where pixels are lanes.
  const float* bias = nullptr;  ///< [lane], whole vectors; or [channel].
  float* out = nullptr;         ///< Of lane 0, or of the first channel.
  std::int64_t out_channel = 0, out_row = 0;
  std::int64_t n_rows = 0, n_columns = 0;
  /// 3, 5 or 7: the taps are a square kernel of this side over one channel, in its order.
  int square = 0;
};
inline constexpr std::int64_t kWindowSlack = 64;

/// Rows of x that windows read: out[r * out_row + i] = x[(top + r) * row + left + i * step]. It is `outside`
/// for rows beyond `height` or places beyond `width`.
struct WindowRows {
  const float* x = nullptr;
  std::int64_t row = 0, height = 0, width = 0;
  std::int64_t top = 0, left = 0, step = 1;
  std::int64_t n_rows = 0, n = 0;
  float outside = 0.0f;
  float* out = nullptr;
  std::int64_t out_row = 0;
};

/// Bytes that read_memory takes at a time.
inline constexpr int kReadUnit = 64;

struct Kernels {
  const char* name;

  void (*matmul)(const MatmulArgs&, Range panels, Range columns);
  /// Sums and bounds of a tall matrix's panels for up to kScreenColumns columns. The sums are offered to
  /// `best`.
  void (*screen)(const ScreenArgs&, Range panels, Range columns, const BestArgs& best, std::byte* scratch);
  /// The panels among [begin, end) with a row whose product with the column may be `least` or more: their
  /// numbers go to `found`. Returns how many.
  int (*find_candidates)(const ScreenArgs&, Range panels, std::int64_t column, float least,
                         std::int32_t* found);
  /// Those of n candidates which still are by all but the lowest bits, where sums and bounds are not deep.
  int (*sift_candidates)(const ScreenArgs&, std::int64_t column, float least, std::int32_t* found, int n,
                         std::byte* scratch);
  /// A float row to kQ8 or kQ8Wide. Padding up to the group is zero.
  void (*quantise_row)(Form form, const float* x, std::int64_t n, std::byte* out);
  /// Likewise several, of which short ones take less time than alone.
  void (*quantise_rows)(const QuantiseArgs&, std::int64_t n_rows);

  /// out = norm(x) * weight + bias; weight and bias may be null; out may be x.
  void (*norm_row)(NormKind kind, const float* x, std::int64_t n, float eps, const float* weight,
                   const float* bias, float* out);
  void (*add_row)(const float* a, const float* b, std::int64_t n, float* out);
  void (*mul_row)(const float* a, const float* b, std::int64_t n, float* out);
  void (*scale_row)(const float* a, float factor, std::int64_t n, float* out);
  /// out += a * factor
  void (*axpy_row)(const float* a, float factor, std::int64_t n, float* out);
  void (*softcap_row)(const float* a, float cap, std::int64_t n, float* out);
  void (*activation_row)(Activation kind, const float* a, std::int64_t n, float* out);
  /// out = activation(gate) * up
  void (*glu_row)(Activation kind, const float* gate, const float* up, std::int64_t n, float* out);
  /// Offers a row's values to a sorted list of the best n.
  void (*best_row)(const float* x, std::int64_t n_values, int n, BestEntry* list);
  /// A row's parts, (n + 15) / 16 of them, and their sum: the logarithm of the sum of e^x.
  void (*log_sum_parts)(const float* x, std::int64_t n, float* largest, float* sums);
  float (*merge_log_sums)(const float* largest, const float* sums, std::int64_t n_parts);
  void (*softmax_row)(const float* a, std::int64_t n, float* out);
  /// One head of one token; out may be x.
  void (*rope_head)(const RopeTable& table, const float* x, int head_dim, float* out);

  /// ops::Hadamard of n elements; out may be x.
  void (*hadamard_row)(const float* x, std::int64_t n, int block, float* out);

  /// Stores one token's K (or V) row, [n_kv_heads][head_dim] floats, in a cell (page * 64 + offset).
  void (*store_k)(const CacheLayout& layout, const float* row, std::int64_t cell, std::byte* k_cache);
  void (*store_v)(const CacheLayout& layout, const float* row, std::int64_t cell, std::byte* v_cache);
  /// One token's K row out of its cell, and cells from one place to another as they are.
  void (*load_k)(const CacheLayout& layout, const std::byte* k_cache, std::int64_t cell, float* row);
  void (*copy_k)(const CacheLayout& layout, std::int64_t from, std::int64_t to, std::byte* k_cache);
  void (*copy_v)(const CacheLayout& layout, std::int64_t from, std::int64_t to, std::byte* v_cache);
  void (*attention)(const AttentionArgs&, const AttentionTile&, int kv_head, std::byte* scratch);
  /// The same in two steps, so that several tasks can share a tile's pages. The first computes the partial of
  /// each page in [begin, end) of the tile's walk (attention_pages). The second merges all of them in order,
  /// with the same bits. Each page has attention_partial_floats in `partials`, which begin with page 0.
  void (*attention_partials)(const AttentionArgs&, const AttentionTile&, int kv_head, Range pages,
                             float* partials, std::byte* scratch);
  void (*attention_merge)(const AttentionArgs&, const AttentionTile&, int kv_head, const float* partials,
                          std::byte* scratch);

  void (*ragged_attention)(const RaggedArgs&, float* scratch);

  void (*conv_row)(const ConvRow&);
  void (*scan_row)(const ScanRow&);
  void (*delta_row)(const DeltaRow&);
  void (*cells)(const CellArgs&);

  void (*unary_row)(UnaryKind kind, const float* x, std::int64_t n, float* out);
  void (*clamp_row)(const float* x, float low, float high, std::int64_t n, float* out);
  void (*binary_row)(BinaryKind kind, Elements<float> a, Elements<float> b, std::int64_t n, float* out);
  void (*compare_floats)(CompareKind kind, Elements<float> a, Elements<float> b, std::int64_t n,
                         std::int32_t* out);
  void (*compare_ints)(CompareKind kind, Elements<std::int32_t> a, Elements<std::int32_t> b, std::int64_t n,
                       std::int32_t* out);
  void (*where_row)(Elements<std::int32_t> condition, Elements<float> a, Elements<float> b, std::int64_t n,
                    float* out);
  double (*sum_row)(const float* x, std::int64_t n);
  /// NaN where there is one; of nothing an infinity.
  float (*max_row)(const float* x, std::int64_t n);
  float (*min_row)(const float* x, std::int64_t n);
  /// out[i * out_stride + j] = x[i * row + j * column] for j < n, and 0 from there to `width`.
  void (*copy_block)(const float* x, std::int64_t row, std::int64_t column, std::int64_t n_rows,
                     std::int64_t n, std::int64_t width, float* out, std::int64_t out_stride);
  /// `scratch` has kProductScratchFloats.
  void (*product)(const ProductArgs& args, float* scratch);

  /// Channels as lanes: up to two vectors of them, convolve_lanes in all.
  void (*convolve)(const WindowArgs& args);
  int convolve_lanes;
  /// Pixels as lanes, and up to four channels at a time; with the same bits.
  void (*convolve_few)(const WindowArgs& args);
  void (*window_rows)(const WindowRows& rows);
  /// out[row][i]: the largest of x[row * x_row + taps[k] + i], or their sum. Of at least one tap.
  void (*pool_windows)(PoolKind kind, const WindowArgs& args);
  /// out[i] = x[from[i]]
  void (*gather_row)(const float* x, const std::int32_t* from, std::int64_t n, float* out);
  /// out[i] = x[from[i]] * (1 - part[i]) + x[to[i]] * part[i]
  void (*lerp_row)(const float* x, const std::int32_t* from, const std::int32_t* to, const float* part,
                   std::int64_t n, float* out);
  /// Floats of halves.
  void (*unpack_halves)(const std::uint16_t* x, std::int64_t n, float* out);

  // For measuring the peak; results are unused, but keep the compiler from removing the work.
  /// Dot products of 8-bit integers as in `matmul`, on all registers, n_rounds times.
  std::uint64_t (*dot_peak)(std::int64_t n_rounds);
  int dot_peak_multiply_adds;  ///< Of one round.
  /// Multiplications and additions of floats, on all registers, n_rounds times.
  double (*fma_peak)(std::int64_t n_rounds);
  int fma_peak_multiply_adds;  ///< Of one round.
  /// The same of pairs of bfloat16.
  double (*pair_peak)(std::int64_t n_rounds);
  int pair_peak_multiply_adds;  ///< Of one round.
  /// Reads a multiple of kReadUnit bytes, one after another.
  std::uint64_t (*read_memory)(const std::byte* data, std::int64_t n_bytes);
};

/// Of one call of `screen` or `sift_candidates` (launches/screen.cpp).
std::size_t screen_scratch_bytes(std::int64_t weight_columns);

std::size_t k_page_bytes(const CacheLayout& layout);
std::size_t v_page_bytes(const CacheLayout& layout);
/// Of one call of `attention`; 64-byte aligned.
std::size_t attention_scratch_bytes(const AttentionArgs& args);
/// The number of pages that a tile's walk reads: the pages that all its segments share, then each segment's
/// own.
std::int64_t attention_pages(const AttentionTile& tile);
/// Floats of one page, for a tile of n_rows rows; a multiple of 16.
std::size_t attention_partial_floats(const AttentionArgs& args, int n_rows);

/// Of one call of `ragged_attention`.
std::size_t ragged_scratch_floats(int k_dim, int v_dim);

enum class Isa : std::uint8_t { kGeneric, kAvx2, kAvxVnni, kAvx512, kAvx512Bf16, kAmx, kNeon, kI8mm };
inline constexpr Isa kIsas[] = {Isa::kGeneric,    Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512,
                                Isa::kAvx512Bf16, Isa::kAmx,  Isa::kNeon,    Isa::kI8mm};
bool supported(Isa isa);  ///< By this program and this machine.
Isa best_isa();
/// The one that a feature names, the best one where it names none. Throws Error kUnsupported.
Isa isa_named(std::string_view name);
const Kernels& kernels(Isa isa);  ///< `isa` must be supported.

}  // namespace weft::cpu
