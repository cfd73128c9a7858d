// Models of every quantised type: what they compute is what the same values give in F32, but for the eight
// bits of activations.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>

#include "engine/model_draft.h"
#include "tensor/codec.h"

namespace weft {
namespace {

std::vector<DType> quantised_types() {
  std::vector<DType> types;
  for (const DTypeInfo& type : all_dtypes())
    if (type.kind == DTypeKind::kQuantised) types.push_back(type.type);
  return types;
}

/// The golden Llama's shape, wide enough for blocks of 256, with random weights: those of layer i in
/// types[i % n]; in F32 the same values.
test::Draft wide_llama(const std::vector<DType>& types, bool in_f32) {
  constexpr std::int64_t kWidth = 256, kFfn = 512, kHead = 64, kHeads = 4, kKvHeads = 2;
  constexpr std::int64_t kOwnRows = 23;  // And then again: some types are slow to pack.
  test::Draft draft("llama");
  draft.set("llama.embedding_length", static_cast<std::uint32_t>(kWidth))
      .set("llama.feed_forward_length", static_cast<std::uint32_t>(kFfn))
      .set("llama.attention.key_length", static_cast<std::uint32_t>(kHead))
      .set("llama.attention.value_length", static_cast<std::uint32_t>(kHead))
      .set("llama.rope.dimension_count", static_cast<std::uint32_t>(kHead));
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::size_t n_matrices = 0;
  for (test::Draft::Tensor& tensor : draft.tensors) {
    if (tensor.shape.size() == 1) {
      tensor.shape = {kWidth};
      tensor.fill([] { return 1.0f; });
      continue;
    }
    const auto is = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
    const std::int64_t rows = is("attn_q.")                                        ? kHeads * kHead
                              : is("attn_k.") || is("attn_v.")                     ? kKvHeads * kHead
                              : is("ffn_gate") || is("ffn_up")                     ? kFfn
                              : is("token_embd") || (is("output.") && !is("attn")) ? tensor.shape[0]
                                                                                   : kWidth;
    const std::int64_t columns = is("ffn_down") ? kFfn : kWidth;
    const DType type = types[n_matrices++ % types.size()];
    tensor.reshape({rows, columns}, in_f32 ? DType::kF32 : type);
    std::vector<float> row(static_cast<std::size_t>(columns));
    std::vector<std::byte> packed(row_bytes(type, columns));
    const std::size_t n = in_f32 ? row.size() * sizeof(float) : packed.size();
    for (std::int64_t r = 0; r < rows; ++r) {
      std::byte* const to = tensor.bytes.data() + static_cast<std::size_t>(r) * n;
      if (r >= kOwnRows) {
        std::memcpy(to, to - kOwnRows * n, n);
        continue;
      }
      for (float& value : row) value = normal(random) / std::sqrt(static_cast<float>(columns));
      pack_row(type, row, packed.data());
      unpack_row(type, packed.data(), row);
      std::memcpy(to, in_f32 ? static_cast<const void*>(row.data()) : packed.data(), n);
    }
  }
  return draft;
}

std::vector<float> logits_of(const test::Draft& draft, std::size_t piece) {
  const test::DraftFile file(draft);
  Context context(Model::load(file.path()),
                  {.n_ctx = 128, .k_type = CacheType::kF32, .v_type = CacheType::kF32});
  std::vector<Token> tokens = test::read_tokens(test::golden_dir() / "llama" / "tokens.json");
  tokens.resize(std::min<std::size_t>(tokens.size(), 40));
  return test::all_logits(context, tokens, piece);
}

void expect_like_f32(const std::vector<DType>& types) {
  const test::Draft draft = wide_llama(types, false);
  const std::vector<float> logits = logits_of(draft, 40);
  EXPECT_LT(test::nmse(logits, logits_of(wide_llama(types, true), 40)), 2e-3);
  EXPECT_EQ(logits, logits_of(draft, 7));
}

class WeightTypes : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, WeightTypes, testing::ValuesIn(quantised_types()),
                         [](const auto& test) { return std::string(weft::info(test.param).name); });

TEST_P(WeightTypes, ComputeWhatTheirValuesGiveInF32) { expect_like_f32({GetParam()}); }

TEST(WeightTypesOfAFile, MayBeAll) { expect_like_f32(quantised_types()); }

}  // namespace
}  // namespace weft
