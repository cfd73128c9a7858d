// The concatenated sequences of a step in an encoder's graph.
#include <algorithm>
#include <cstdint>

#include "base/to_size.h"
#include "engine/devices/bound_graph.h"
#include "engine/embedding/text_reader.h"
#include "engine/graph_sizes.h"
#include "engine/memories.h"
#include "engine/model_impl.h"
#include "exec/plan.h"

namespace weft::engine {
namespace {

/// Rows of one sequence, and the rows that its vector is made of.
struct Rows {
  std::int32_t begin, end;
};

Rows pooled_rows(Rows text, Pooling pooling) {
  if (pooling == Pooling::kCls) return {text.begin, text.begin + 1};
  if (pooling == Pooling::kLast) return {text.end - 1, text.end};
  return text;
}

class EncoderReader final : public TextReader {
 public:
  EncoderReader(std::shared_ptr<const Model> model, int n_tokens, int n_threads)
      : model_(std::move(model)),
        n_tokens_(n_tokens),
        graph_(model::build_graph(model_->impl().file, model_->impl().description,
                                  encoder_sizes(n_tokens, model_->impl().row_shares))),
        bound_(model_->impl(), graph_.graph),
        plan_(bound_.compile(graph_.graph, {.allowed = {.shapes = true}, .n_threads = n_threads})),
        symbols_(graph_.graph.symbols().size(), 0) {
    if (const ValueId types = graph_.graph.find("token_types.weight"); types != kNoValue)
      last_type_ = static_cast<std::int32_t>(graph_.graph.value(types).shape[0].constant()) - 1;
  }

  int max_tokens() const override { return n_tokens_; }
  int max_texts() const override {
    return model_->impl().description.hparams.encoder->one_text ? 1 : n_tokens_;
  }
  int dimensions() const override { return columns_of(graph_.vectors); }
  int n_scores() const override { return graph_.scores == kNoValue ? 0 : columns_of(graph_.scores); }

  void read(std::span<const TextTokens> texts, Pooling pooling, What what,
            std::vector<float>& result) override {
    const std::int32_t n_vectors = write_inputs(texts, pooling);
    exec::Step step;
    step.symbols = symbols_;
    step.actual.shapes = symbols_ != last_symbols_;
    plan_.run(step);
    last_symbols_ = symbols_;
    const ValueId wanted = what == What::kVectors ? graph_.vectors : graph_.scores;
    const auto* const made = reinterpret_cast<const float*>(plan_.output(wanted).host().data());
    result.insert(result.end(), made, made + std::ptrdiff_t{n_vectors} * columns_of(wanted));
  }

 private:
  int columns_of(ValueId value) const { return static_cast<int>(graph_.graph.value(value).shape.columns()); }
  std::span<std::int32_t> input(ValueId value) const {
    return host_values<std::int32_t>(bound_.home(), value);
  }

  /// How many vectors come out.
  std::int32_t write_inputs(std::span<const TextTokens> texts, Pooling pooling) {
    const auto tokens = input(graph_.tokens), positions = input(graph_.positions),
               types = input(graph_.texts.types), begins = input(graph_.texts.begins),
               ends = input(graph_.texts.ends), window_begins = input(graph_.texts.window_begins),
               window_ends = input(graph_.texts.window_ends);
    const auto pool_begins = input(graph_.texts.pool_begins), pool_ends = input(graph_.texts.pool_ends);
    std::int32_t row = 0, n_vectors = 0;
    const auto add_vector = [&](Rows rows) {
      pool_begins[to_size(n_vectors)] = rows.begin;
      pool_ends[to_size(n_vectors++)] = rows.end;
    };
    // A window has the same length on both sides.
    const std::int32_t reach = graph_.window / 2;
    for (const TextTokens& text : texts) {
      const Rows rows = {row, row + static_cast<std::int32_t>(text.tokens.size())};
      for (; row < rows.end; ++row) {
        const auto at = to_size(row);
        const std::int32_t pos = row - rows.begin;
        tokens[at] = text.tokens[to_size(pos)];
        positions[at] = pos;
        types[at] = text.second >= 0 && pos >= text.second ? last_type_ : 0;
        begins[at] = rows.begin;
        ends[at] = rows.end;
        if (!window_begins.empty()) {
          window_begins[at] = std::max(rows.begin, row - reach);
          window_ends[at] = std::min(rows.end, row + reach + 1);
        }
        if (pooling == Pooling::kNone) add_vector({row, row + 1});
      }
      if (pooling != Pooling::kNone) add_vector(pooled_rows(rows, pooling));
    }
    symbols_[to_size(graph_.n_tokens)] = row;
    symbols_[to_size(graph_.n_vectors)] = n_vectors;
    return n_vectors;
  }

  const std::shared_ptr<const Model> model_;
  const int n_tokens_;
  const model::ModelGraph graph_;
  const BoundGraph bound_;
  exec::Plan plan_;
  std::int32_t last_type_ = 0;
  std::vector<std::int64_t> symbols_, last_symbols_;
};

}  // namespace

std::unique_ptr<TextReader> read_by_encoder(std::shared_ptr<const Model> model, int n_tokens,
                                            const EmbedderParams& params) {
  return std::make_unique<EncoderReader>(std::move(model), n_tokens, params.n_threads);
}

}  // namespace weft::engine
