// Sums of squares of what matrices are multiplied with (ContextParams::sum_columns).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "engine/test_support.h"
#include "gguf/gguf.h"
#include "tensor/codec.h"
#include "weft/context.h"

namespace weft {
namespace {

using test::golden_file;

const std::vector<Token> kSummedText = {5,  17, 3, 90, 41, 17, 8,  8,  33, 60,
                                        12, 77, 2, 9,  51, 28, 44, 19, 6,  70};

std::map<std::string, ColumnSums> sums_of(const std::string& family, ContextParams params,
                                          const std::vector<Token>& text = kSummedText) {
  params.sum_columns = true;
  params.n_ctx = 64;
  Context context(Model::load(golden_file(family)), params);
  Batch batch;
  for (const Token token : text) {
    batch.add(token, 0, {.embedding = true});
  }
  EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
  std::map<std::string, ColumnSums> result;
  for (ColumnSums& of : context.column_sums()) result.emplace(of.tensor, std::move(of));
  return result;
}

double total(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

std::vector<float> row_of(const gguf::File& file, const std::string& name, std::int64_t row) {
  const gguf::TensorInfo& tensor = *file.find_tensor(name);
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.back()));
  const std::size_t bytes = row_bytes(tensor.dtype, tensor.shape.back());
  unpack_row(tensor.dtype, tensor.data.data() + static_cast<std::size_t>(row) * bytes, values);
  return values;
}

TEST(ColumnSums, OfTheFirstLayerAreThoseOfNormalisedEmbeddings) {
  const gguf::File file = gguf::File::open(golden_file("llama"));
  const auto weight = row_of(file, "blk.0.attn_norm.weight", 0);
  const double eps = file.get_float("llama.attention.layer_norm_rms_epsilon").value_or(1e-5);
  std::vector<double> truth(weight.size());
  for (const Token token : kSummedText) {
    const auto x = row_of(file, "token_embd.weight", token);
    double squares = 0.0;
    for (const float value : x) squares += static_cast<double>(value) * value;
    const double scale = 1.0 / (squares / static_cast<double>(x.size()) + eps);
    for (std::size_t i = 0; i < x.size(); ++i)
      truth[i] += std::pow(static_cast<double>(x[i]) * weight[i], 2) * scale;
  }
  const auto sums = sums_of("llama", {});
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"}) {
    const ColumnSums& of = sums.at(name);
    EXPECT_THAT(of.counts, testing::ElementsAre(static_cast<double>(kSummedText.size())));
    ASSERT_EQ(of.sums.size(), truth.size());
    for (std::size_t i = 0; i < truth.size(); ++i) EXPECT_NEAR(of.sums[i], truth[i], 1e-4 * truth[i] + 1e-9);
  }
}

TEST(ColumnSums, AreOfAllLayersAndNoneElse) {
  const gguf::File file = gguf::File::open(golden_file("llama"));
  const auto sums = sums_of("llama", {});
  std::size_t n_matrices = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.shape.size() < 2 || tensor.name == "token_embd.weight") continue;
    ++n_matrices;
    const auto found = sums.find(tensor.name);
    ASSERT_NE(found, sums.end()) << tensor.name;
    EXPECT_EQ(static_cast<std::int64_t>(found->second.sums.size()), tensor.shape.back());
    // Nobody asked for logits.
    EXPECT_EQ(found->second.counts[0], tensor.name == "output.weight" ? 0.0 : double(kSummedText.size()));
  }
  EXPECT_EQ(sums.size(), n_matrices);
}

TEST(ColumnSums, DoNotDependOnBatches) {
  for (const char* family : {"llama", "qwen3moe", "deepseek2-lite", "mamba", "gemma3", "gpt2", "gpt-oss"}) {
    SCOPED_TRACE(family);
    const auto whole = sums_of(family, {}), parts = sums_of(family, {.n_ubatch = 3});
    ASSERT_EQ(whole.size(), parts.size());
    for (const auto& [name, of] : whole) {
      const ColumnSums& other = parts.at(name);
      EXPECT_EQ(of.counts, other.counts) << name;
      ASSERT_EQ(of.sums.size(), other.sums.size());
      for (std::size_t i = 0; i < of.sums.size(); ++i)
        ASSERT_NEAR(of.sums[i], other.sums[i], 1e-5 * of.sums[i] + 1e-9) << name << " column " << i;
    }
  }
}

TEST(ColumnSums, OfExpertsAddUpToThoseOfTheirRouter) {
  const auto sums = sums_of("qwen3moe", {});
  const gguf::File file = gguf::File::open(golden_file("qwen3moe"));
  const std::int64_t n_used = *file.get_int("qwen3moe.expert_used_count");
  const ColumnSums& router = sums.at("blk.0.ffn_gate_inp.weight");
  for (const char* name : {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight"}) {
    const ColumnSums& of = sums.at(name);
    const std::size_t n = router.sums.size();
    EXPECT_EQ(static_cast<std::int64_t>(of.counts.size()), file.find_tensor(name)->shape[0]);
    EXPECT_EQ(total(of.counts), static_cast<double>(n_used) * router.counts[0]);
    ASSERT_EQ(of.sums.size(), n * of.counts.size());
    for (std::size_t column = 0; column < n; ++column) {
      double all = 0.0;
      for (std::size_t expert = 0; expert < of.counts.size(); ++expert) all += of.sums[expert * n + column];
      EXPECT_NEAR(all, static_cast<double>(n_used) * router.sums[column], 1e-4 * all + 1e-9);
    }
    // An expert that met no row has no sums.
    for (std::size_t expert = 0; expert < of.counts.size(); ++expert)
      if (of.counts[expert] == 0.0) {
        EXPECT_EQ(total({of.sums.begin() + static_cast<std::ptrdiff_t>(expert * n),
                         of.sums.begin() + static_cast<std::ptrdiff_t>((expert + 1) * n)}),
                  0.0);
      }
  }
  const ColumnSums& down = sums.at("blk.0.ffn_down_exps.weight");
  EXPECT_EQ(down.counts, sums.at("blk.0.ffn_up_exps.weight").counts);
  EXPECT_GT(total(down.sums), 0.0);
}

TEST(ColumnSums, LeaveTheBitsOfLogits) {
  for (const char* family : {"llama", "qwen3moe", "gemma3"}) {
    SCOPED_TRACE(family);
    const auto model = Model::load(golden_file(family));
    const auto logits = [&](bool sum_columns) {
      Context context(model, {.n_ctx = 64, .sum_columns = sum_columns});
      Batch batch;
      batch.add(kSummedText, 0);
      EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
      const auto row = context.logits(batch.size() - 1);
      return std::vector<float>(row.begin(), row.end());
    };
    EXPECT_EQ(logits(true), logits(false));
  }
}

}  // namespace
}  // namespace weft
