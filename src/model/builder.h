#pragma once
// Building a model's graph from its file. Building is the check: each weight that the graph asks for must be
// in the file, with the shape and a type that fit. So a graph that was built is a model that can be loaded.
// Nothing is allocated for tensors here.
#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "model/additions.h"
#include "model/hparams.h"
#include "weft/graph.h"

namespace weft::model {

/// The bounds that a context gives the graph.
struct GraphSizes {
  std::int64_t n_ubatch = 1;   ///< Tokens of a step, at most.
  std::int64_t n_outputs = 1;  ///< Rows of logits of a step, at most.
  int n_best = 0;              ///< Best tokens of a row, at most. 0: only logits are computed.
  std::int64_t n_cells = 64;   ///< Of the cache.
  std::int64_t n_sequences = 1;
  std::int64_t n_moves = 1;    ///< Cells that one step moves, at most.
  std::int64_t n_extents = 1;  ///< At most, in a sequence.
  std::int64_t n_hidden = 1;   ///< Entries of HiddenCells of a step, with the one that ends them.
  std::int64_t n_slots = 2;    ///< For running states.
  /// Layers with a window have their own cells (ModelGraph::windowed), as long as the window and this many
  /// tokens are less than the expected positions. With -1 all layers share cells.
  std::int64_t window_rewind = -1;
  std::int64_t n_source = 1;        ///< Tokens of a source, at most. Each sequence has room for one.
  std::int64_t max_positions = 64;  ///< Expected positions: families may choose their rope by it.
  /// Where this has several entries, layers are computed by as many devices together (shard.h).
  std::vector<double> row_shares;
  DType k_type = DType::kF32;
  DType v_type = DType::kF32;
  bool rotate_cache = false;  ///< Quantised caches have rotated rows (Builder::rotated).
};

/// A weight of the graph. It is rows [row_begin, row_begin + n_rows) of a tensor of the file (elements of a
/// vector; all of a tensor of experts). Or it is made of files that were loaded with the model.
struct WeightUse {
  ValueId value = kNoValue;
  const gguf::TensorInfo* tensor = nullptr;
  std::int64_t row_begin = 0;
  std::int64_t n_rows = 0;
  /// Returns its canonical bytes, in the value's type; then `tensor` is null.
  std::function<std::vector<std::byte>()> make = {};
  bool of_each = false;  ///< These are rows of each of a tensor's matrices.
};

/// The inputs that say where the rows of caches are: which cells are written, moved and read. All caches that
/// share these inputs have the same rows.
struct CellInputs {
  ValueId cells = kNoValue;    ///< {n_tokens} I32: where the tokens' K and V go.
  ValueId extents = kNoValue;  ///< {n_sequences, n_extents, 6} I32: the extents of each sequence (extent.h).
  ValueId extent_counts = kNoValue;  ///< {n_sequences} I32
  ValueId hidden = kNoValue;         ///< {n_hidden, 4} I32: the cells hidden from tokens (HiddenCells).
  ValueId move_from = kNoValue;  ///< {n_moves} I32: cells of the caches to move before tokens are stored ...
  ValueId move_to = kNoValue;    ///< ... where to ...
  ValueId move_deltas = kNoValue;  ///< ... and by how many positions to turn their keys.
  ValueId fork_from = kNoValue;    ///< {n_forks} I32: cells to copy once the step's tokens are stored ...
  ValueId fork_to = kNoValue;      ///< ... and where to. Sequences that part within a step each need a copy.
};

/// The inputs of an encoder that group rows by sequence: the sequences of a step are concatenated.
struct TextInputs {
  ValueId types = kNoValue;   ///< {n_tokens} I32: the token's segment type, in models with such types.
  ValueId begins = kNoValue;  ///< {n_tokens} I32: the rows of its sequence that each token sees ...
  ValueId ends = kNoValue;
  ValueId window_begins = kNoValue;  ///< ... and in layers with a window, if any; otherwise kNoValue.
  ValueId window_ends = kNoValue;
  ValueId pool_begins = kNoValue;  ///< {n_vectors} I32: the rows whose mean each vector is made of.
  ValueId pool_ends = kNoValue;
};

/// The inputs of encoder-decoder models. A step reads one source, or none, and stores its keys and values in
/// separate caches. The step's tokens see the sources of their sequences there.
struct SourceInputs {
  SymbolId n_rows = kNoSymbol;
  ValueId tokens = kNoValue;         ///< {n_rows} I32
  ValueId positions = kNoValue;      ///< {n_rows} I32, from 0.
  ValueId cells = kNoValue;          ///< {n_rows} I32: where the rows' K and V go.
  ValueId extents = kNoValue;        ///< {n_sequences, pages, 6} I32: the pages of the sequences' sources.
  ValueId extent_counts = kNoValue;  ///< {n_sequences} I32
  ValueId ends = kNoValue;           ///< {n_tokens} I32: the length of the source that each token sees.
  // No cells are hidden: -1 for each token, and an empty list.
  ValueId hidden_first = kNoValue;  ///< {n_tokens} I32
  ValueId hidden = kNoValue;        ///< {1, 4} I32
};

/// The inputs that say what adapters add to some rows of a step. A use is a row and an adapter of it.
struct AdapterInputs {
  SymbolId n_uses = kNoSymbol;
  ValueId rows = kNoValue;        ///< {n_uses} I32, in their order.
  ValueId ids = kNoValue;         ///< {n_uses, 1} I32: the adapter.
  ValueId weights = kNoValue;     ///< {n_uses, 1}: its scale, times the uses of its row.
  ValueId begins = kNoValue;      ///< {rows} I32: the first use of each row, ...
  ValueId ends = kNoValue;        ///< ... the end of its uses ...
  ValueId is_adapted = kNoValue;  ///< ... and whether it has any: 1 or 0.
};

struct ModelGraph {
  Graph graph;
  SymbolId n_tokens = kNoSymbol;
  SymbolId n_wanted = kNoSymbol;      ///< Rows that the last layer computes: all with any output.
  SymbolId n_outputs = kNoSymbol;     ///< Rows that the head computes ...
  SymbolId n_embeddings = kNoSymbol;  ///< ... and rows whose embeddings are wanted, without it.
  SymbolId n_moves = kNoSymbol;
  SymbolId n_forks = kNoSymbol;
  SymbolId n_hidden = kNoSymbol;  ///< 0 where nothing is hidden.
  // Encoders have n_tokens and tokens and positions (of each text) only of what decoders have, and:
  SymbolId n_vectors = kNoSymbol;
  TextInputs texts;
  ValueId vectors = kNoValue;  ///< {n_vectors, dimensions}
  ValueId scores = kNoValue;   ///< {n_vectors, labels}; kNoValue if the model does not rank.
  /// The output rows whose full logits are wanted. Not set if GraphSizes::n_best is 0: then all are.
  SymbolId n_logits = kNoSymbol;
  // Inputs; kNoValue if the model does not need them.
  ValueId tokens = kNoValue;  ///< {n_tokens} I32
  /// {n_tokens, HParams::n_embd_input} F32: embeddings that replace the tokens' own, ...
  ValueId embeddings = kNoValue;
  ValueId use_embeddings = kNoValue;  ///< {n_tokens} I32 ... where this is not 0.
  ValueId positions = kNoValue;       ///< {n_tokens} I32
  /// {n_tokens} I32 each: positions of time, line and column, by which keys and queries turn.
  std::array<ValueId, 3> axes = {kNoValue, kNoValue, kNoValue};
  ValueId sequences = kNoValue;  ///< {n_tokens} I32
  ValueId ends = kNoValue;       ///< {n_tokens} I32: the position before which each token sees its sequence.
  ValueId hidden_first = kNoValue;    ///< {n_tokens} I32: the token's first entry in CellInputs::hidden.
  ValueId wanted_rows = kNoValue;     ///< {n_wanted} I32: the tokens with any output.
  ValueId output_rows = kNoValue;     ///< {n_outputs} I32: the rows among these whose logits are wanted, ...
  ValueId embedding_rows = kNoValue;  ///< {n_embeddings} I32: ... and the rows whose embeddings are.
  CellInputs full;                    ///< For layers that keep all cells ...
  CellInputs windowed;                ///< ... and for layers with a window, if any; otherwise kNoValue.
  int window = 0;                     ///< The largest window.
  ValueId state_from = kNoValue;      ///< {n_tokens} I32: slots of running states before each token ...
  ValueId state_to = kNoValue;        ///< ... and after it; both only in models with recurrent layers.
  SourceInputs source;                ///< kNoValue if the model reads no source.
  ValueId row_embeddings = kNoValue;  ///< {n_embeddings, n_embd}: the inputs of the head.
  ValueId logits = kNoValue;          ///< {n_outputs, n_vocab}; {n_logits, n_vocab} with GraphSizes::n_best
  // With GraphSizes::n_best:
  ValueId logit_rows = kNoValue;   ///< {n_logits} I32: among the outputs' rows.
  ValueId best_counts = kNoValue;  ///< {n_outputs} I32: how many of the best of each.
  ValueId best = kNoValue;         ///< {n_outputs, 2 * n_best}: see ops::Best.
  ValueId log_sum_ids = kNoValue;  ///< {n_outputs} I32
  ValueId log_sums = kNoValue;     ///< {n_outputs, 2}: see ops::LogSumExp.
  // Where products of such rows have adapters:
  AdapterInputs adapters_of_tokens;
  AdapterInputs adapters_of_wanted;
  AdapterInputs adapters_of_outputs;
  AdapterInputs adapters_of_source;
  std::vector<WeightUse> weights;
  std::vector<ValueId> states;          ///< Caches.
  std::vector<ValueId> running_states;  ///< {n_slots, rows, columns} F32
  std::vector<ValueId> source_states;   ///< Caches of sources, {cells, heads, head_dim}.
};

/// "blk.3.attn_q.weight"
std::string layer_name(int layer, const char* name);

class Builder {
 public:
  Builder(const gguf::File& file, const HParams& hparams, const Additions& additions,
          const GraphSizes& sizes);

  const HParams& hparams() const { return hparams_; }
  const ModelGraph& model() const { return model_; }

  std::int64_t max_positions() const { return sizes_.max_positions; }

  // Weights. A missing one is noted and reported by finish(); a wrong shape or type throws at once.
  ValueId weight(const std::string& name, const Shape& shape);
  ValueId optional_weight(const std::string& name,
                          const Shape& shape);  ///< kNoValue where the file has none.
  /// Rows of a matrix, or elements of a vector, of which `shape` is the whole.
  ValueId weight_rows(const std::string& name, const Shape& shape, std::int64_t begin, std::int64_t n);
  /// A small tensor of any rank as one vector of all its elements. Sizes of 1 may be left out.
  ValueId flat_weight(const std::string& name, const Shape& shape);
  /// A weight of the graph with these numbers instead of a tensor of the file. Made once for a name.
  ValueId constant(const std::string& name, const Shape& shape, std::vector<float> values);
  /// A result of a weight, times the weight's factor. Files of NVFP4 and of some converters have NAME.scale
  /// next to NAME.weight. It is one number, or one for each expert, which `ids` choose then. Every result of
  /// a weight passes through here. finish() refuses a file with an unused factor.
  ValueId with_factor(ValueId y, const std::string& weight, ValueId ids = kNoValue);
  /// The product of x with rows [begin, begin + n_out) of `weight` {n_all, columns of x} and its factor. It
  /// includes that part of `bias` where the file has it, and the additions of adapters.
  ValueId product(ValueId x, const std::string& weight, const std::string& bias, std::int64_t n_all,
                  std::int64_t begin, std::int64_t n_out, const std::string& name);
  /// y with the additions of adapters to products of experts: y {m, k, n_out} is the product of rows x, {m,
  /// n_in} or {m, k, n_in}, with `weight` {n_experts, n_out, n_in} for the experts `ids` {m, k}.
  ValueId adapted_experts(ValueId x, ValueId y, const std::string& weight, ValueId ids);
  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }
  /// The rows of a matrix that the file has. A vector is a matrix of one row.
  std::int64_t rows_of(const std::string& name) const {
    const std::vector<std::int64_t>& shape = file_.find_tensor(name)->shape;
    return shape.size() == 1 ? 1 : shape[0];
  }

  /// The nodes that follow belong to this part of the model. Blocks and families say it; `layer` is kNone
  /// outside of layers.
  void enter(Part part, int layer = NodeTag::kNone) { tag_ = {.part = part, .layer = layer}; }
  NodeTag entered() const { return tag_; }

  template <typename T>
    requires(!HasNamedInputs<T>)
  ValueId add(T op, std::initializer_list<ValueId> inputs, std::string name) {
    return model_.graph.add(std::move(op), inputs, std::move(name), tag_);
  }
  template <HasNamedInputs T>
  ValueId add(T op, const typename T::Inputs& inputs, std::string name) {
    return model_.graph.add(std::move(op), inputs, std::move(name), tag_);
  }
  /// The cache of a layer, {cells, heads, head_dim}, after the step's moves. `rope` turns keys (n_rot 0: none
  /// does).
  ValueId cache(CacheRole role, int layer, const CellInputs& at, std::int64_t n_heads, std::int64_t head_dim,
                const ops::Rope& rope, ValueId rope_factors);
  /// The positions of an axis.
  ValueId axis(std::size_t axis);
  /// Frequency divisors for rope with which only the pairs of one axis rotate (HParams::axes).
  ValueId axis_factors(std::size_t axis);
  /// Where a layer with this window (0: none) finds its cells.
  const CellInputs& cells(int window);
  /// For encoders: the inputs with the rows that a token sees in layers with this window (0: none).
  const TextInputs& texts(int window);
  /// The running states of a recurrent layer, {n_slots, rows, columns}; `name` distinguishes them in a layer.
  ValueId running_state(const std::string& name, int layer, std::int64_t rows, std::int64_t columns);

  /// x, rows of heads of `head_dim` elements, as caches of this role keep such rows. With
  /// GraphSizes::rotate_cache, quantised caches keep Hadamard rotations of heads, in blocks of the largest
  /// power of two that divides head_dim. The caches of all layers and of sources do so. Queries are rotated
  /// like keys, after RoPE, and outputs of attention are rotated back by the same call, as for values.
  ValueId rotated(CacheRole role, ValueId x, std::int64_t head_dim, const std::string& name);

  /// The cache once the step's rows are stored in it, and copied for sequences that part in the step.
  ValueId store(CacheRole role, int layer, const CellInputs& at, ValueId cache, ValueId rows);
  /// The result of store() for an earlier layer.
  ValueId stored(CacheRole role, int layer) const;

  /// A layer's cache of sources once the rows of the step's source are stored in it.
  ValueId store_source(CacheRole role, int layer, ValueId rows, std::int64_t n_heads, std::int64_t head_dim);

  /// The output of a layer, plus the control vector if there is one.
  ValueId pass_on(int layer, ValueId x);

  /// The embedding_rows after the last norm.
  void take_embeddings(ValueId rows) { model_.row_embeddings = rows; }
  bool wants_best() const { return sizes_.n_best > 0; }
  /// The best of the outputs' rows of logits, and their sums.
  void take_best(ValueId logits);

  /// An encoder's scores of the inputs, in addition to its vectors.
  void take_scores(ValueId scores) { model_.scores = scores; }

  /// Names the logits, or an encoder's vectors, and returns the graph. Throws Error kInvalidFile where
  /// weights are missing.
  ModelGraph finish(ValueId result);

 private:
  /// Columns that a rotation of heads combines; 0: caches of this role are not rotated.
  int rotated_block(CacheRole role, std::int64_t head_dim) const;
  void add_text_inputs();
  void add_decoder_inputs();
  void add_source_inputs();
  CellInputs add_cells(const std::string& prefix);
  /// Rows [begin, begin + n_out) of a product with a weight, and what adapters add to them.
  ValueId adapted(ValueId x, ValueId y, const std::string& weight, std::int64_t begin, std::int64_t n_out);
  /// The two stacks of additions to rows [begin, begin + n_out) of a weight.
  struct AdapterWeights {
    ValueId a, b;
  };
  AdapterWeights adapter_weights(const AdapterStack& stack, std::int64_t begin, std::int64_t n_out);
  /// y {rows, columns} with the means of what `each` use {n_uses, columns} adds.
  ValueId with_means(ValueId y, ValueId each, const AdapterInputs& inputs, const std::string& name);
  /// The adapter inputs for a matrix's rows; null if adapters do not apply to such rows.
  const AdapterInputs* adapters_of_rows(const Dim& rows);
  ValueId add_made(const std::string& name, DType dtype, const Shape& shape,
                   std::function<std::vector<std::byte>()> make);
  /// Throws where the file has tensors of layers that the metadata does not know, or factors of weights that
  /// were not applied.
  void check_tensors() const;
  /// Whether a weight has a factor of one number, and what a tensor of one number holds.
  bool has_factor(const std::string& weight) const;
  float number_of(const gguf::TensorInfo& tensor) const;
  enum class Form : std::uint8_t { kAsItIs, kFlat };
  ValueId use(const std::string& name, const Shape& shape, std::int64_t begin, std::int64_t n, bool optional,
              Form form = Form::kAsItIs);

  const gguf::File& file_;
  const HParams& hparams_;
  const Additions additions_;
  GraphSizes sizes_;
  ModelGraph model_;
  NodeTag tag_ = {.part = Part::kEmbedding};
  int n_missing_ = 0;
  std::string missing_;            ///< Names of the first, for the message.
  std::set<std::string> adapted_;  // Weights.
  std::set<int> controlled_;       // Layers.
  std::set<std::string> factors_;  // Tensors that were applied as such.
};

}  // namespace weft::model
