// The inputs of a step in a decoder's context: one sequence each, removed after reading its result.
#include "base/to_size.h"
#include "engine/embedding/text_reader.h"
#include "engine/refuse.h"
#include "weft/context.h"

namespace weft::engine {
namespace {

class DecoderReader final : public TextReader {
 public:
  DecoderReader(std::shared_ptr<const Model> model, int n_tokens, const EmbedderParams& params)
      : context_(std::move(model), {.n_ctx = n_tokens,
                                    .n_sequences = kTexts,
                                    .n_threads = params.n_threads,
                                    .n_best = 0,
                                    .adapters = params.adapters}) {}

  int max_tokens() const override { return context_.params().n_ctx; }
  int max_texts() const override { return kTexts; }
  int dimensions() const override { return context_.model().info().n_embd; }
  int n_scores() const override { return 0; }

  void read(std::span<const TextTokens> texts, Pooling pooling, What /*what*/,
            std::vector<float>& result) override {
    if (pooling == Pooling::kCls)
      refuse(
          "pooling \"cls\" needs an encoder: in a decoder the first token sees no later token; use \"mean\" "
          "or \"last\"");
    context_.cache().clear();  // Drops the remains of a failed step.
    batch_.clear();
    SeqId seq = 0;
    for (const TextTokens& text : texts) {
      for (std::size_t i = 0; i < text.tokens.size(); ++i)
        batch_.add(text.tokens[i], seq,
                   {.embedding = pooling != Pooling::kLast || i + 1 == text.tokens.size()});
      ++seq;
    }
    if (context_.decode(batch_) != DecodeStatus::kOk)
      refuse("the sequences do not fit into the cache together");
    int item = 0;
    for (const TextTokens& text : texts) {
      const int end = item + static_cast<int>(text.tokens.size());
      if (pooling == Pooling::kMean) {
        add_mean(item, end, result);
      } else {
        const int from = pooling == Pooling::kLast ? end - 1 : item;
        for (int i = from; i < (pooling == Pooling::kNone ? end : from + 1); ++i) add_rows(i, result);
      }
      item = end;
    }
    context_.cache().clear();
  }

 private:
  static constexpr int kTexts = 64;

  void add_rows(int item, std::vector<float>& result) const {
    const std::span<const float> row = context_.embedding(item);
    result.insert(result.end(), row.begin(), row.end());
  }
  void add_mean(int begin, int end, std::vector<float>& result) const {
    std::vector<double> sum(to_size(dimensions()));
    for (int i = begin; i < end; ++i) {
      const std::span<const float> row = context_.embedding(i);
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += static_cast<double>(row[j]);
    }
    for (const double x : sum) result.push_back(static_cast<float>(x / (end - begin)));
  }

  Context context_;
  Batch batch_;
};

}  // namespace

std::unique_ptr<TextReader> read_by_decoder(std::shared_ptr<const Model> model, int n_tokens,
                                            const EmbedderParams& params) {
  return std::make_unique<DecoderReader>(std::move(model), n_tokens, params);
}

}  // namespace weft::engine
