#include <gtest/gtest.h>

#include <filesystem>

#include "models/served_model.h"
#include "weft/model.h"

namespace weft::server {
namespace {

class GrammarCacheTest : public testing::Test {
 protected:
  std::shared_ptr<const CompiledGrammar> get(GrammarCache& cache, const std::string& words) {
    return cache.get(words, [&] { return Grammar::regex(words); });
  }
  /// Uses the grammar as a step does, which makes its masks.
  void use(const CompiledGrammar& grammar) {
    std::vector<std::uint32_t> allowed(static_cast<std::size_t>(model_->info().n_vocab + 31) / 32);
    grammar.constraint()->fill({}, allowed);
  }

  const std::shared_ptr<const Model> model_ = Model::load(
      std::filesystem::path(WEFT_TEST_DATA) / "golden" / "llama" / "model.gguf", {.n_threads = 1});
};

TEST_F(GrammarCacheTest, KeepsWhatFits) {
  GrammarCache cache(model_->tokenizer());
  const auto first = get(cache, "[a-z]+");
  EXPECT_EQ(get(cache, "[a-z]+"), first);
  get(cache, "[0-9]+");
  EXPECT_EQ(cache.size(), 2U);
}

TEST_F(GrammarCacheTest, CountsCurrentSizesOfGrammars) {
  GrammarCache all(model_->tokenizer());
  const auto a = get(all, "[a-z]+");
  const auto b = get(all, "[0-9]+");
  const std::size_t unused = a->bytes() + b->bytes();
  use(*a);
  ASSERT_GT(a->bytes() + b->bytes(), unused);

  GrammarCache cache(model_->tokenizer(), unused + 100);
  const auto growing = get(cache, "[a-z]+");
  get(cache, "[0-9]+");
  EXPECT_EQ(cache.size(), 2U);
  use(*growing);
  get(cache, "[0-9]+");
  EXPECT_EQ(cache.size(), 1U);
}

TEST_F(GrammarCacheTest, StaysBoundedHoweverMuchGrammarsGrow) {
  GrammarCache cache(model_->tokenizer(), 1);
  for (int i = 0; i < 20; ++i) {
    const auto grammar = get(cache, "[a-z]{" + std::to_string(i + 1) + "}");
    use(*grammar);
    EXPECT_EQ(cache.size(), 1U);
  }
}

}  // namespace
}  // namespace weft::server
