// Adapters merged into a model's file. The engine's adapter tests check the outputs of the file; these check
// its contents.
#include "weft/merge_adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kIn = 64, kOut = 5;
const char* const kMatrix = "blk.0.attn_q.weight";

std::vector<float> random_numbers(std::uint32_t seed, std::int64_t n) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<std::size_t>(n));
  for (float& number : numbers) number = normal(random);
  return numbers;
}

class MergeAdapters : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("merge-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path path(const std::string& name) const { return folder_ / (name + ".gguf"); }

  std::filesystem::path write_model(const std::string& name, DType type) const {
    gguf::Writer writer;
    writer.set("general.architecture", "llama");
    writer.set("general.name", "tiny");
    const auto packed = [&](const std::vector<float>& values) {
      std::vector<std::byte> bytes(row_bytes(type, kIn) * values.size() / kIn);
      for (std::size_t row = 0; row * kIn < values.size(); ++row)
        pack_row(type, std::span(values).subspan(row * kIn, kIn), bytes.data() + row * row_bytes(type, kIn));
      return bytes;
    };
    const auto first = packed(weights_), second = packed(random_numbers(2, kOut * kIn));
    writer.add_tensor(kMatrix, type, {kOut, kIn}, first);
    writer.add_tensor("blk.0.attn_k.weight", type, {kOut, kIn}, second);
    writer.write_file(path(name));
    return path(name);
  }

  std::filesystem::path write_adapter(const std::string& name, std::int64_t rank, float alpha,
                                      std::uint32_t seed, const std::string& matrix = kMatrix,
                                      const char* architecture = "llama") const {
    gguf::Writer writer;
    writer.set("general.type", "adapter");
    writer.set("adapter.type", "lora");
    writer.set("general.architecture", architecture);
    writer.set("adapter.lora.alpha", alpha);
    const auto a = random_numbers(seed, rank * kIn), b = random_numbers(seed + 1, kOut * rank);
    writer.add_tensor(matrix + ".lora_a", DType::kF32, {rank, kIn}, std::as_bytes(std::span(a)));
    writer.add_tensor(matrix + ".lora_b", DType::kF32, {kOut, rank}, std::as_bytes(std::span(b)));
    writer.write_file(path(name));
    return path(name);
  }

  /// What an adapter of write_adapter adds to an element.
  static double added(std::int64_t rank, float alpha, std::uint32_t seed, std::int64_t row, std::int64_t i) {
    const auto a = random_numbers(seed, rank * kIn), b = random_numbers(seed + 1, kOut * rank);
    double sum = 0.0;
    for (std::int64_t r = 0; r < rank; ++r)
      sum += static_cast<double>(b[static_cast<std::size_t>(row * rank + r)]) *
             a[static_cast<std::size_t>(r * kIn + i)];
    return sum * alpha / static_cast<double>(rank);
  }

  std::vector<float> weights_ = random_numbers(1, kOut* kIn);
  std::filesystem::path folder_;
};

std::vector<float> values_of(const gguf::File& file, const char* name) {
  const gguf::TensorInfo& tensor = *file.find_tensor(name);
  std::vector<float> values(static_cast<std::size_t>(tensor.n_elements()));
  unpack_row(tensor.dtype, tensor.data.data(), values);
  return values;
}

template <typename F>
std::string merge_error(F f, ErrorCode code) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST_F(MergeAdapters, MatricesGetTheirSum) {
  const auto model = write_model("model", DType::kF32);
  const auto one = write_adapter("one", 4, 8.0f, 10), two = write_adapter("two", 2, 1.0f, 20);
  const auto changed =
      merge_adapters(model, path("merged"), {.adapters = {{one}, {two, -0.5f}}, .n_threads = 2});
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].name, kMatrix);
  EXPECT_EQ(changed[0].to, DType::kF32);
  const gguf::File before = gguf::File::open(model), after = gguf::File::open(path("merged"));
  EXPECT_EQ(after.get_string("general.name"), "tiny");
  EXPECT_EQ(values_of(before, "blk.0.attn_k.weight"), values_of(after, "blk.0.attn_k.weight"));
  const std::vector<float> values = values_of(after, kMatrix);
  for (std::int64_t row = 0; row < kOut; ++row)
    for (std::int64_t i = 0; i < kIn; ++i) {
      const auto at = static_cast<std::size_t>(row * kIn + i);
      const double truth = weights_[at] + added(4, 8.0f, 10, row, i) - 0.5 * added(2, 1.0f, 20, row, i);
      EXPECT_NEAR(values[at], truth, 1e-5 * std::abs(truth) + 1e-5);
    }
}

TEST_F(MergeAdapters, TypesAreKeptUnlessOneIsGiven) {
  const auto model = write_model("model", DType::kQ8_0);
  const auto one = write_adapter("one", 4, 8.0f, 10);
  EXPECT_EQ(merge_adapters(model, path("kept"), {.adapters = {{one}}})[0].to, DType::kQ8_0);
  EXPECT_EQ(merge_adapters(model, path("half"), {.adapters = {{one}}, .type = DType::kF16})[0].to,
            DType::kF16);
  const gguf::File file = gguf::File::open(path("half"));
  EXPECT_EQ(file.find_tensor(kMatrix)->dtype, DType::kF16);
  EXPECT_EQ(file.find_tensor("blk.0.attn_k.weight")->dtype, DType::kQ8_0);
  // Quantised again: near the sum.
  const auto kept = values_of(gguf::File::open(path("kept")), kMatrix), half = values_of(file, kMatrix);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_NEAR(kept[i], half[i], 0.2);
  EXPECT_THAT(
      merge_error([&] { merge_adapters(model, path("x"), {.adapters = {{one}}, .type = DType::kQ4_K}); },
                  ErrorCode::kInvalidArgument),
      HasSubstr("multiples of 256"));
}

TEST_F(MergeAdapters, RefusesValuesBeyondTheType) {
  const auto model = write_model("model", DType::kF16);
  const auto one = write_adapter("one", 4, 8.0f, 10);
  MergeAdaptersParams params{.adapters = {{one, 400000.0f}}, .n_threads = 1};
  const auto merge = [&] { merge_adapters(model, path("merged"), params); };
  EXPECT_NE(merge_error(merge, ErrorCode::kInvalidArgument).find("use a smaller scale"), std::string::npos);
  params.type = DType::kF32;
  EXPECT_NO_THROW(merge());
}

TEST_F(MergeAdapters, EachExpertGetsItsOwn) {
  constexpr std::int64_t kExperts = 3, kRank = 2;
  const std::string matrix = "blk.0.ffn_up_exps.weight";
  const auto w = random_numbers(1, kExperts * kOut * kIn), a = random_numbers(2, kExperts * kRank * kIn),
             b = random_numbers(3, kExperts * kOut * kRank);
  gguf::Writer model, adapter;
  model.set("general.architecture", "llama");
  model.add_tensor(matrix, DType::kF32, {kExperts, kOut, kIn}, std::as_bytes(std::span(w)));
  model.write_file(path("experts"));
  adapter.set("general.type", "adapter");
  adapter.set("adapter.type", "lora");
  adapter.set("general.architecture", "llama");
  adapter.set("adapter.lora.alpha", 4.0f);
  adapter.add_tensor(matrix + ".lora_a", DType::kF32, {kExperts, kRank, kIn}, std::as_bytes(std::span(a)));
  adapter.add_tensor(matrix + ".lora_b", DType::kF32, {kExperts, kOut, kRank}, std::as_bytes(std::span(b)));
  adapter.write_file(path("adapter"));
  merge_adapters(path("experts"), path("merged"), {.adapters = {{path("adapter")}}});
  const std::vector<float> values = values_of(gguf::File::open(path("merged")), matrix.c_str());
  for (std::int64_t row = 0; row < kExperts * kOut; ++row)
    for (std::int64_t i = 0; i < kIn; ++i) {
      double truth = w[static_cast<std::size_t>(row * kIn + i)];
      for (std::int64_t r = 0; r < kRank; ++r)
        truth += 4.0 / kRank * static_cast<double>(b[static_cast<std::size_t>(row * kRank + r)]) *
                 a[static_cast<std::size_t>((row / kOut * kRank + r) * kIn + i)];
      ASSERT_NEAR(values[static_cast<std::size_t>(row * kIn + i)], truth, 1e-5 * std::abs(truth) + 1e-5);
    }
}

TEST_F(MergeAdapters, ExpertFactorsApplyToAdapters) {
  // Gemma 4's router has such factors: they are not part of a matrix.
  constexpr std::int64_t kExperts = 2, kRank = 2;
  const std::string matrix = "blk.0.ffn_down_exps.weight";
  const auto w = random_numbers(1, kExperts * kOut * kIn), a = random_numbers(2, kExperts * kRank * kIn),
             b = random_numbers(3, kExperts * kOut * kRank);
  const auto merged = [&](std::vector<float> factors) {
    gguf::Writer writer;
    writer.set("general.architecture", "gemma4");
    writer.add_tensor(matrix, DType::kF32, {kExperts, kOut, kIn}, std::as_bytes(std::span(w)));
    writer.add_tensor("blk.0.ffn_down_exps.scale", DType::kF32, {kExperts},
                      std::as_bytes(std::span(factors)));
    writer.write_file(path("model"));
    gguf::Writer adapter;
    adapter.set("general.type", "adapter");
    adapter.set("adapter.type", "lora");
    adapter.set("general.architecture", "gemma4");
    adapter.add_tensor(matrix + ".lora_a", DType::kF32, {kExperts, kRank, kIn}, std::as_bytes(std::span(a)));
    adapter.add_tensor(matrix + ".lora_b", DType::kF32, {kExperts, kOut, kRank}, std::as_bytes(std::span(b)));
    adapter.write_file(path("adapter"));
    merge_adapters(path("model"), path("merged"), {.adapters = {{path("adapter")}}});
    return values_of(gguf::File::open(path("merged")), matrix.c_str());
  };
  EXPECT_EQ(merged({0.5f, 3.0f}), merged({1.0f, 1.0f}));
}

TEST_F(MergeAdapters, FactorsBesideMatricesStayTheirs) {
  // What the model multiplies with is the matrix times its factor: that gets the sum.
  constexpr std::int64_t kExperts = 3, kRank = 2;
  const std::string experts = "blk.0.ffn_up_exps.weight";
  const auto w = random_numbers(1, kExperts * kOut * kIn), a = random_numbers(2, kExperts * kRank * kIn),
             b = random_numbers(3, kExperts * kOut * kRank);
  const auto write = [&](const char* name, std::vector<float> of_matrix, std::vector<float> of_experts) {
    gguf::Writer writer;
    writer.set("general.architecture", "llama");
    writer.add_tensor(kMatrix, DType::kF32, {kOut, kIn}, std::as_bytes(std::span(weights_)));
    writer.add_tensor(experts, DType::kF32, {kExperts, kOut, kIn}, std::as_bytes(std::span(w)));
    writer.add_tensor("blk.0.attn_q.scale", DType::kF32, {std::ssize(of_matrix)},
                      std::as_bytes(std::span(of_matrix)));
    writer.add_tensor("blk.0.ffn_up_exps.scale", DType::kF32, {std::ssize(of_experts)},
                      std::as_bytes(std::span(of_experts)));
    writer.write_file(path(name));
    return path(name);
  };
  gguf::Writer of_experts;
  of_experts.set("general.type", "adapter");
  of_experts.set("adapter.type", "lora");
  of_experts.set("general.architecture", "llama");
  of_experts.add_tensor(experts + ".lora_a", DType::kF32, {kExperts, kRank, kIn},
                        std::as_bytes(std::span(a)));
  of_experts.add_tensor(experts + ".lora_b", DType::kF32, {kExperts, kOut, kRank},
                        std::as_bytes(std::span(b)));
  of_experts.write_file(path("experts"));
  const MergeAdaptersParams params = {.adapters = {{write_adapter("one", 4, 8.0f, 10)}, {path("experts")}}};
  const auto merged = [&](const std::filesystem::path& model) {
    merge_adapters(model, path("merged"), params);
    return gguf::File::open(path("merged"));
  };
  const gguf::File plain = merged(write("plain", {1.0f}, {1.0f, 1.0f, 1.0f}));
  const std::vector<float> of = {0.5f, -2.0f, 3.0f};
  const gguf::File scaled = merged(write("scaled", {0.25f}, of));
  const auto expect_sums = [&](const char* name, std::vector<float> before, std::vector<float> factors) {
    const auto expected = values_of(plain, name), values = values_of(scaled, name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float factor = factors[i * factors.size() / values.size()];
      const double added = static_cast<double>(expected[i]) - before[i];
      EXPECT_NEAR((values[i] - before[i]) * static_cast<double>(factor), added, 1e-4) << name << " " << i;
    }
  };
  expect_sums(kMatrix, weights_, {0.25f});
  expect_sums(experts.c_str(), w, of);
  EXPECT_EQ(values_of(scaled, "blk.0.ffn_up_exps.scale"), of);
  EXPECT_THAT(merge_error([&] { merged(write("zero", {0.0f}, of)); }, ErrorCode::kInvalidFile),
              HasSubstr("blk.0.attn_q.scale"));
  EXPECT_THAT(merge_error([&] { merged(write("two", {1.0f}, {1.0f, 2.0f})); }, ErrorCode::kInvalidFile),
              HasSubstr("2 factors"));
}

TEST_F(MergeAdapters, ASharedHeadBecomesATensorOfItsOwn) {
  const auto write = [&](const char* architecture) {
    gguf::Writer writer;
    writer.set("general.architecture", architecture);
    writer.add_tensor("token_embd.weight", DType::kF32, {kOut, kIn}, std::as_bytes(std::span(weights_)));
    writer.write_file(path("tied"));
    return path("tied");
  };
  const auto one = write_adapter("one", 4, 8.0f, 10, "output.weight");
  const auto changed = merge_adapters(write("llama"), path("merged"), {.adapters = {{one}}});
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].name, "output.weight");
  const gguf::File after = gguf::File::open(path("merged"));
  EXPECT_EQ(values_of(after, "token_embd.weight"), weights_);
  const std::vector<float> values = values_of(after, "output.weight");
  for (std::int64_t row = 0; row < kOut; ++row)
    for (std::int64_t i = 0; i < kIn; ++i) {
      const auto at = static_cast<std::size_t>(row * kIn + i);
      EXPECT_NEAR(values[at], weights_[at] + added(4, 8.0f, 10, row, i), 1e-4);
    }
  const auto t5 = write_adapter("t5", 4, 8.0f, 10, "output.weight", "t5");
  EXPECT_THAT(merge_error([&] { merge_adapters(write("t5"), path("x"), {.adapters = {{t5}}}); },
                          ErrorCode::kUnsupported),
              HasSubstr("apply the adapter with --lora"));
}

TEST_F(MergeAdapters, NamesMismatchedTensors) {
  const auto model = write_model("model", DType::kF32);
  const auto one = write_adapter("one", 4, 8.0f, 10);
  const auto merge = [&](std::vector<AdapterToMerge> adapters, const std::filesystem::path& to) {
    return [&model, adapters, to] { merge_adapters(model, to, {.adapters = adapters}); };
  };
  EXPECT_THAT(merge_error(merge({}, path("x")), ErrorCode::kInvalidArgument), HasSubstr("no adapter"));
  EXPECT_THAT(merge_error(merge({{one}}, model), ErrorCode::kInvalidArgument), HasSubstr("overwrite"));
  EXPECT_THAT(merge_error(merge({{one}}, one), ErrorCode::kInvalidArgument), HasSubstr("overwrite"));
  EXPECT_THAT(merge_error(merge({{one, 1e9f}}, path("x")), ErrorCode::kInvalidArgument),
              HasSubstr("million"));
  EXPECT_THAT(merge_error(merge({{model}}, path("x")), ErrorCode::kInvalidFile), HasSubstr("general.type"));
  const auto other = write_adapter("other", 4, 8.0f, 10, "blk.7.attn_q.weight");
  EXPECT_THAT(merge_error(merge({{other}}, path("x")), ErrorCode::kInvalidFile), HasSubstr("blk.7"));
  EXPECT_FALSE(std::filesystem::exists(path("x")));
}

}  // namespace
}  // namespace weft
