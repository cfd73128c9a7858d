// Weights with separate factors in the file: a model whose weights were divided by its factors gives the
// results of the model that PyTorch computed.
#include <algorithm>

#include "engine/adapter_testing.h"
#include "engine/model_draft.h"
#include "tensor/codec.h"

namespace weft {
namespace {

bool is_product(const std::string& name) {
  constexpr std::string_view kParts[] = {"attn_q.",   "attn_k.",   "attn_v.",   "attn_qkv.", "attn_output.",
                                         "attn_k_b.", "attn_q_a.", "ffn_gate.", "ffn_up.",   "ffn_down.",
                                         "_shexp.",   "_exps.",    "ssm_in.",   "ssm_out."};
  return name.ends_with(".weight") &&
         (name == "output.weight" ||
          std::any_of(std::begin(kParts), std::end(kParts),
                      [&](std::string_view part) { return name.find(part) != std::string::npos; }));
}

/// Adds a factor for each matrix of a product, and one for each expert, where the model has none.
int give_factors(test::Draft& draft) {
  std::vector<test::Draft::Tensor> factors;
  for (test::Draft::Tensor& tensor : draft.tensors) {
    const std::string name = tensor.name.substr(0, tensor.name.rfind('.')) + ".scale";
    const bool known = std::any_of(draft.tensors.begin(), draft.tensors.end(),
                                   [&](const test::Draft::Tensor& t) { return t.name == name; });
    if (!is_product(tensor.name) || info(tensor.dtype).kind != DTypeKind::kFloat || known) continue;
    const bool experts = tensor.name.find("_exps.") != std::string::npos;
    test::Draft::Tensor factor = {name, DType::kF32, {experts ? tensor.shape[0] : 1}, {}};
    std::vector<float> by;
    for (std::int64_t i = 0; i < factor.shape[0]; ++i)
      by.push_back(0.2f + 0.03f * static_cast<float>(factors.size()) + 0.17f * static_cast<float>(i));
    factor.fill([&, i = std::size_t{0}]() mutable { return by[i++]; });
    std::vector<float> values(tensor.bytes.size() / row_bytes(tensor.dtype, 1));
    unpack_row(tensor.dtype, tensor.bytes.data(), values);
    tensor.fill([&, i = std::size_t{0}]() mutable {
      const float value = values[i] / by[i * by.size() / values.size()];
      ++i;
      return value;
    });
    factors.push_back(std::move(factor));
  }
  draft.tensors.insert(draft.tensors.end(), factors.begin(), factors.end());
  return static_cast<int>(factors.size());
}

class Factors : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, Factors,
                         testing::Values("llama", "qwen2", "qwen2moe", "gpt-oss", "gemma4-moe",
                                         "deepseek2-lite", "mamba2"),
                         test::name_of_family);

TEST_P(Factors, GiveTheLogitsOfPyTorch) {
  const auto dir = test::golden_dir() / GetParam();
  test::Draft draft(GetParam());
  EXPECT_GE(give_factors(draft), 4);
  const test::DraftFile file(draft);
  Context context(Model::load(file.path()),
                  {.n_ctx = 128, .k_type = CacheType::kF32, .v_type = CacheType::kF32});
  const std::vector<Token> tokens = test::read_tokens(dir / "tokens.json");
  const std::vector<float> logits = test::all_logits(context, tokens, tokens.size());
  EXPECT_LE(test::nmse(logits, test::read_floats(dir / "logits.f32")), 1e-6);
}

TEST_P(Factors, AreNoneOfAdapters) {
  const auto golden = test::golden_dir() / GetParam();
  const gguf::File plain = gguf::File::open(golden / "model.gguf");
  const test::RandomAdapter adapter = test::random_adapter(plain, 1, 3);
  if (adapter.matrices.empty()) GTEST_SKIP() << "nothing to adapt";
  test::Draft draft(GetParam());
  give_factors(draft);
  const test::DraftFile file(draft);
  const std::vector<Token> tokens = test::read_tokens(golden / "tokens.json");
  ModelParams params;
  params.adapters = {{test::write_adapter(plain, adapter, "of_factors")}};
  const auto logits = [&](const std::filesystem::path& path) {
    Context context(
        Model::load(path, params),
        {.n_ctx = 128, .k_type = CacheType::kF32, .v_type = CacheType::kF32, .adapters = {{0, 1.0f}}});
    return test::all_logits(context, tokens, tokens.size());
  };
  EXPECT_LE(test::nmse(logits(file.path()), logits(golden / "model.gguf")), 1e-6);
  std::filesystem::remove(params.adapters[0].path);
}

TEST(FactorsOfNothing, AreRefusedByName) {
  test::Trials trials;
  const auto with = [](const std::string& name, std::vector<std::int64_t> shape, float value) {
    test::Draft draft("llama");
    test::Draft::Tensor tensor = {name, DType::kF32, std::move(shape), {}};
    tensor.fill([&] { return value; });
    draft.tensors.push_back(std::move(tensor));
    return draft;
  };
  trials.runs(with("blk.0.attn_q.scale", {1}, 2.0f), "a factor");
  trials.runs(with("blk.0.attn_q.input_scale", {1}, 2.0f), "what activations were divided by");
  trials.refused(with("blk.0.attn_q.scale", {3}, 2.0f), "three factors", {"blk.0.attn_q.scale"});
  trials.refused(with("blk.0.attn_norm.scale", {1}, 2.0f), "of a norm", {"blk.0.attn_norm.scale"});
  trials.refused(with("output_norm.scale", {1}, 2.0f), "of the last norm", {"output_norm.scale"});
  trials.refused(with("blk.0.ffn_up.scale", {1}, std::numeric_limits<float>::infinity()),
                 "not a finite number", {"blk.0.ffn_up.scale"});
}

}  // namespace
}  // namespace weft
