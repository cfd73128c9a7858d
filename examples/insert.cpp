// Inserts a sentence in the middle of a sequence. Cells after the gap stay in the cache and only get new
// positions. Then a question is appended, and the response uses the inserted sentence.
//
//   insert -m MODEL
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "weft/context.h"
#include "weft/error.h"

namespace {

/// The sequences of this example fit into the cache, so a full cache is an error.
void compute(weft::Context& context, const weft::Batch& batch) {
  if (context.decode(batch) != weft::DecodeStatus::kOk)
    throw weft::Error(weft::ErrorCode::kInvalidArgument, "the cache is full");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3 || std::strcmp(argv[1], "-m") != 0) {
    std::fprintf(stderr, "usage: insert -m MODEL\n");
    return 2;
  }
  constexpr weft::SeqId kSequence = 0;
  const auto model = weft::Model::load(argv[2]);
  const weft::Tokenizer& tokenizer = model->tokenizer();
  weft::Context context(model, {.n_ctx = 512});
  weft::Batch batch;

  const auto before = tokenizer.encode("Anna has a dog. ");
  const auto after = tokenizer.encode("They live in a small house by the sea.", {.add_special = false});
  batch.add(before, kSequence);
  batch.add(after, kSequence);
  compute(context, batch);
  const auto gap = static_cast<weft::Pos>(before.size());
  std::printf("%d tokens in the cache\n", context.cache().next_pos(kSequence));

  // Room for the new sentence: all cells after the gap move to later positions.
  const auto inserted = tokenizer.encode("The dog is called Bruno. ", {.add_special = false});
  if (!context.cache().shift(kSequence, gap, -1, static_cast<weft::Pos>(inserted.size()))) return 1;
  batch.clear();
  for (std::size_t i = 0; i < inserted.size(); ++i)
    batch.add(inserted[i], kSequence, {.pos = gap + static_cast<weft::Pos>(i)});
  compute(context, batch);
  std::printf("%d after %d were inserted at position %d; only those were computed\n",
              context.cache().next_pos(kSequence), static_cast<int>(inserted.size()), gap);

  std::string_view question = " The dog's name is";
  std::printf("...%.*s", static_cast<int>(question.size()), question.data());
  batch.clear();
  batch.add(tokenizer.encode(question, {.add_special = false}), kSequence);
  compute(context, batch);
  weft::Detokenizer text(tokenizer);
  for (int i = 0; i < 8; ++i) {
    const auto logits = context.logits(batch.size() - 1);
    const auto best =
        static_cast<weft::Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    std::fputs(text.push(best).c_str(), stdout);
    batch.clear();
    batch.add(best, kSequence, {.logits = true});
    compute(context, batch);
  }
  std::printf("\n");
  return 0;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "insert: %s\n", error.what());
  return 1;
}
