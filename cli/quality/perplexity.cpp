#include "quality/perplexity.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "base/to_size.h"
#include "commands/command.h"
#include "weft/error.h"
#include "weft/not_numbers.h"

namespace weft::cli {

ChunkedText cut_text(const Tokenizer& tokenizer, const std::string& text, const ChunkChoice& choice) {
  const int n_ctx = choice.n_ctx;
  ChunkedText result{n_ctx, tokenizer.encode(text, {.parse_special = choice.parse_special}),
                     tokenizer.adds_bos() ? tokenizer.bos() : kNoToken};
  const std::size_t skipped = std::min(to_size(choice.skip) * to_size(n_ctx), result.tokens.size());
  result.tokens.erase(result.tokens.begin(), result.tokens.begin() + static_cast<std::ptrdiff_t>(skipped));
  if (result.n_chunks() < (choice.most == 1 ? 1 : 2))
    throw UsageError(
        fmt::format("the document has {}, and at least {} are needed: two chunks of --ctx-size {}",
                    base::counted(result.tokens.size(), "token"), 2 * n_ctx, n_ctx));
  int n_chunks = result.n_chunks();
  if (choice.most > 0) n_chunks = std::min(n_chunks, choice.most);
  result.tokens.resize(to_size(n_chunks) * to_size(n_ctx));
  return result;
}

int parallel_chunks(const ChunkedText& text, int n_batch) {
  return std::clamp(n_batch / text.n_ctx, 1, text.n_chunks());
}

int cells_for(const ChunkedText& text, int n_parallel) {
  return n_parallel *
         ((text.n_ctx + KvCache::kCellsOfPage - 1) / KvCache::kCellsOfPage * KvCache::kCellsOfPage);
}

void score_chunks(Context& context, const ChunkedText& text, bool want_logits,
                  const InterruptGuard& interrupt, const std::function<void(const ScoredRow&)>& on_row) {
  const int n_parallel = context.params().n_sequences;
  const int first = text.n_ctx / 2;
  const bool only_sums = !want_logits && context.params().n_best > 0;
  Batch batch;
  std::vector<int> items;
  for (int begin = 0; begin < text.n_chunks(); begin += n_parallel) {
    const int end = std::min(begin + n_parallel, text.n_chunks());
    batch.clear();
    items.clear();
    context.cache().clear();
    for (int c = begin; c < end; ++c)
      for (int i = 0; i + 1 < text.n_ctx; ++i) {  // Nothing is predicted from the last one.
        const bool scored = i >= first;
        const int item = batch.size();
        const Token token = text.tokens[to_size(c * text.n_ctx + i)];
        ItemOptions options;
        if (scored)
          options = {.logits = true,
                     .n_best = only_sums ? 1 : 0,
                     .log_sum_exp = true,
                     .logit_of = text.next(c, i - first)};
        batch.add(i == 0 && text.bos != kNoToken ? text.bos : token, c - begin, options);
        if (!scored) continue;
        items.push_back(item);
      }
    const DecodeStatus status = context.decode(batch);
    if (status == DecodeStatus::kCancelled || interrupt.requested())
      throw Error(ErrorCode::kCancelled, "interrupted");
    if (status != DecodeStatus::kOk) throw Error(ErrorCode::kOutOfMemory, "the cache is full");
    for (std::size_t i = 0; i < items.size(); ++i) {
      const int item = items[i], chunk = begin + static_cast<int>(i) / text.n_scored();
      const float log_sum_exp = context.log_sum_exp(item);
      check_numbers(context.model(), {&log_sum_exp, 1});
      on_row({.chunk = chunk,
              .next = batch[item].options.logit_of,
              .log_probability = static_cast<double>(context.logit(item)) - log_sum_exp,
              .logits = want_logits ? context.logits(item) : std::span<const float>()});
    }
  }
}

void refuse_overwriting(const std::filesystem::path& result,
                        std::initializer_list<std::filesystem::path> made_from) {
  std::error_code ignored;
  for (const std::filesystem::path& read : made_from)
    if (std::filesystem::equivalent(read, result, ignored))
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("the result would overwrite its input {}; give it another name", result.string()));
}

}  // namespace weft::cli
