// A model whose weights are loaded again (Model::reload).
#include <gtest/gtest.h>

#include <functional>

#include "engine/test_support.h"
#include "weft/embedder.h"

namespace weft {
namespace {

using test::code_of;

ModelParams on(std::vector<std::string> devices) {
  ModelParams params;
  params.n_threads = 1;
  params.placement.devices = std::move(devices);
  return params;
}

TEST(Reload, ModelsGoOnOnOtherDevicesOrSayThatTheyHaveNone) {
  const auto dir = test::golden_dir() / "llama";
  const std::vector<Token> tokens = test::read_tokens(dir / "tokens.json");
  const auto model = Model::load(dir / "model.gguf", on({"cpu", "cpu1=cpu"}));
  const auto logits = [&] {
    Context context(model, {.n_ctx = 128, .n_threads = 1});
    return test::all_logits(context, tokens, 7);
  };
  const std::vector<float> expected = logits();
  model->reload(on({"cpu"}));
  EXPECT_TRUE(logits() == expected);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(code_of([&] { model->reload(on({"rank7.cpu"})); }), ErrorCode::kNotFound);
    EXPECT_EQ(code_of([&] { logits(); }), ErrorCode::kDevice);
    EXPECT_EQ(code_of([&] { Embedder embedder(model); }), ErrorCode::kDevice);
    EXPECT_FALSE(model->tokenizer().encode("once").empty());
  }
  model->reload(on({"cpu", "cpu1=cpu", "cpu2=cpu"}));
  EXPECT_TRUE(logits() == expected);
}

}  // namespace
}  // namespace weft
