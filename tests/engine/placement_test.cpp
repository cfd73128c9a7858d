// A model over several devices has the bits that it has on one: layers, single tensors, rows. The second device is
// the CPU once more, under another name and with tensors of its own.
#include <gtest/gtest.h>

#include <random>

#include "engine/allocation_counter.h"
#include "engine/model_impl.h"
#include "engine/test_support.h"

namespace weft {
namespace {

using test::all_logits;

std::shared_ptr<const Model> load(const std::filesystem::path& path, const PlacementParams& placement) {
  ModelParams params;
  params.n_threads = 1;
  params.placement = placement;
  return Model::load(path, params);
}

/// The second device takes n layers from the last.
PlacementParams layers_on_second(int n) {
  PlacementParams placement;
  placement.devices = {"cpu", "cpu1=cpu"};
  placement.n_layers = n;
  return placement;
}

class Spread : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path path() const { return test::golden_dir() / GetParam() / "model.gguf"; }
  std::vector<Token> tokens() const { return test::read_tokens(test::golden_dir() / GetParam() / "tokens.json"); }

  /// Prompt in pieces, then token by token; a copy, a shift where the model can, and on.
  std::vector<float> logits(const std::shared_ptr<const Model>& model) const {
    Context context(model, {.n_ctx = 256, .n_sequences = 2, .n_ubatch = 16, .n_threads = 1});
    std::vector<float> result = all_logits(context, tokens(), 11);
    EXPECT_TRUE(context.copy(0, 1));
    if (context.can_shift()) {
      context.remove(1, 0, 3);
      EXPECT_TRUE(context.shift(1, 3, -1, -3));
    }
    const std::vector<Token> few = {9, 4, 7, 200, 1};
    for (const SeqId seq : {1, 0}) {
      const std::vector<float> more = all_logits(context, few, 1, seq);
      result.insert(result.end(), more.begin(), more.end());
    }
    return result;
  }
};

TEST_P(Spread, AnyNumberOfLayersOnASecondDeviceGivesTheSameBits) {
  const std::vector<float> expected = logits(load(path(), {}));
  const int n_layers = load(path(), {})->info().n_layers;
  for (int n = 0; n <= n_layers + 1; ++n) {
    const auto model = load(path(), layers_on_second(n));
    EXPECT_TRUE(logits(model) == expected) << n << " layers";
  }
}

TEST_P(Spread, PinsOfManyTensorsGiveTheSameBits) {
  const std::vector<float> expected = logits(load(path(), {}));
  const FileInfo file = inspect(path());
  std::mt19937 random(7);
  for (int round = 0; round < 3; ++round) {
    PlacementParams placement = layers_on_second(static_cast<int>(random() % 4));
    for (int i = 0; i < 200; ++i) {
      const std::string& name = file.tensors[random() % file.tensors.size()].name;
      placement.pins.push_back({"^" + name, random() % 2 == 0 ? "cpu" : "cpu1"});
    }
    EXPECT_TRUE(logits(load(path(), placement)) == expected) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Spread, testing::Values("llama", "gemma3", "qwen3moe", "mamba", "lfm2"));

}  // namespace
}  // namespace weft
