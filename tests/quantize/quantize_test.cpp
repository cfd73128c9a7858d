#include "weft/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "quantize/mixes.h"
#include "tensor/codec.h"
#include "weft/error.h"
#include "weft/model_files.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr int kWidth = 256, kLayers = 16;

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("weft-quantize-" + std::to_string(std::random_device()()));
  Folder() { std::filesystem::create_directory(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

std::vector<float> normal(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> values(0.0f, 0.05f);
  std::vector<float> result(n);
  for (float& value : result) value = values(random);
  return result;
}

class Quantize : public testing::Test {
 protected:
  Folder folder;
  std::filesystem::path model = folder.path / "model-f32.gguf", small = folder.path / "small.gguf";
  std::map<std::string, std::vector<float>> truth;

  void SetUp() override {
    gguf::Writer writer;
    writer.set("general.architecture", "llama");
    writer.set("general.name", "tiny");
    writer.set("llama.block_count", std::uint32_t{kLayers});
    writer.set("llama.attention.head_count", std::uint32_t{8});
    writer.set("llama.attention.head_count_kv", std::uint32_t{8});
    add(writer, "token_embd.weight", {64, kWidth});
    add(writer, "output.weight", {64, kWidth});
    add(writer, "output_norm.weight", {kWidth});
    for (int i = 0; i < kLayers; ++i) {
      const std::string layer = "blk." + std::to_string(i) + ".";
      add(writer, layer + "attn_norm.weight", {kWidth});
      add(writer, layer + "attn_q.weight", {16, kWidth});
      add(writer, layer + "attn_v.weight", {16, kWidth});
      add(writer, layer + "ffn_down.weight", {16, kWidth});
    }
    add(writer, "blk.0.ffn_up_exps.weight", {3, 8, kWidth});
    add(writer, "blk.0.ffn_gate_inp.weight", {3, kWidth});
    add(writer, "blk.0.attn_k.weight", {16, 96});
    writer.write_file(model);
  }

  void add(gguf::Writer& writer, const std::string& name, std::vector<std::int64_t> shape) {
    std::size_t n = 1;
    for (const std::int64_t dim : shape) n *= static_cast<std::size_t>(dim);
    const auto& values = truth[name] = normal(n, static_cast<unsigned>(truth.size()));
    writer.add_tensor(name, DType::kF32, std::move(shape), std::as_bytes(std::span(values)));
  }

  // Importances of some columns of a matrix, as GGUF.
  std::filesystem::path importances(const std::string& name, std::vector<std::int64_t> shape,
                                    const std::vector<float>& values, float rows = 10.0f) {
    gguf::Writer writer;
    writer.set("general.type", "imatrix");
    writer.set_array("imatrix.datasets", std::vector<std::string>{"texts.txt"});
    writer.set("imatrix.chunk_count", std::uint32_t{5});
    std::vector<float> sums = values;
    for (float& sum : sums) sum *= rows;
    const std::vector<float> counts(static_cast<std::size_t>(shape[0]), rows);
    writer.add_tensor(name + ".in_sum2", DType::kF32, shape, std::as_bytes(std::span(sums)));
    writer.add_tensor(name + ".counts", DType::kF32, {shape[0], 1}, std::as_bytes(std::span(counts)));
    const auto path = folder.path / "imatrix.gguf";
    writer.write_file(path);
    return path;
  }

  std::map<std::string, DType> types(const QuantizeResult& result) const {
    std::map<std::string, DType> types;
    for (const QuantizedTensor& tensor : result.tensors) types[tensor.name] = tensor.to;
    return types;
  }

  std::vector<float> values_of(const gguf::File& file, const std::string& name) const {
    const gguf::TensorInfo& tensor = *file.find_tensor(name);
    std::vector<float> values(static_cast<std::size_t>(tensor.n_elements()));
    unpack_row(tensor.dtype, tensor.data.data(), values);
    return values;
  }

  template <class F>
  std::string error_of(F f, ErrorCode code) {
    try {
      f();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }
};

TEST_F(Quantize, WritesAnnouncedTypesAndCodecValues) {
  const QuantizeResult planned = plan_quantize(model, {.mix = "q4_k_m"});
  const QuantizeResult result = quantize(model, small, {.mix = "q4_k_m", .n_threads = 3});
  EXPECT_EQ(result.mix, "Q4_K_M");
  EXPECT_EQ(types(planned), types(result));
  const gguf::File file = gguf::File::open(small);
  EXPECT_EQ(file.get_string("general.name"), "tiny");
  EXPECT_EQ(file.get_int("general.file_type"), 15);
  EXPECT_EQ(file.get_int("general.quantization_version"), 2);
  ASSERT_EQ(file.tensors().size(), truth.size());
  std::uint64_t bytes = 0;
  for (const QuantizedTensor& tensor : result.tensors) {
    const gguf::TensorInfo& written = *file.find_tensor(tensor.name);
    EXPECT_EQ(written.dtype, tensor.to) << tensor.name;
    EXPECT_EQ(written.shape, tensor.shape) << tensor.name;
    EXPECT_EQ(written.data.size(), tensor.bytes_to) << tensor.name;
    bytes += tensor.bytes_to;
    std::vector<std::byte> packed(tensor.bytes_to);
    pack_row(tensor.to, truth[tensor.name], packed.data());
    EXPECT_EQ(std::memcmp(packed.data(), written.data.data(), packed.size()), 0) << tensor.name;
  }
  EXPECT_EQ(bytes, result.bytes_to);
}

TEST_F(Quantize, MixesGiveImportantTensorsMoreBits) {
  const auto mixed = types(plan_quantize(model, {.mix = "Q4_K_M"}));
  EXPECT_EQ(mixed.at("output.weight"), DType::kQ6_K);
  EXPECT_EQ(mixed.at("token_embd.weight"), DType::kQ4_K);
  EXPECT_EQ(mixed.at("blk.0.attn_v.weight"), DType::kQ6_K) << "the first eighth";
  EXPECT_EQ(mixed.at("blk.2.attn_v.weight"), DType::kQ4_K);
  EXPECT_EQ(mixed.at("blk.4.attn_v.weight"), DType::kQ6_K) << "each third";
  EXPECT_EQ(mixed.at("blk.15.ffn_down.weight"), DType::kQ6_K) << "the last eighth";
  EXPECT_EQ(mixed.at("blk.15.attn_q.weight"), DType::kQ4_K);
  EXPECT_EQ(mixed.at("blk.0.attn_norm.weight"), DType::kF32);
  EXPECT_EQ(mixed.at("blk.0.ffn_gate_inp.weight"), DType::kF32) << "a router";
  EXPECT_EQ(mixed.at("blk.0.attn_k.weight"), DType::kQ5_0) << "rows of 96 have no blocks of 256";
  const auto pure = types(plan_quantize(model, {.mix = "Q4_K_M", .pure = true}));
  EXPECT_EQ(pure.at("output.weight"), DType::kQ4_K);
  EXPECT_EQ(pure.at("blk.0.attn_v.weight"), DType::kQ4_K);
}

TEST_F(Quantize, RulesComeBeforeTheMix) {
  const auto ruled =
      types(plan_quantize(model, {.mix = "Q4_0",
                                  .rules = {{"blk\\.[01]\\..*down", DType::kQ8_0}, {"down", DType::kF16}},
                                  .output_type = DType::kBF16,
                                  .embedding_type = DType::kQ5_0}));
  EXPECT_EQ(ruled.at("blk.1.ffn_down.weight"), DType::kQ8_0);
  EXPECT_EQ(ruled.at("blk.2.ffn_down.weight"), DType::kF16);
  EXPECT_EQ(ruled.at("output.weight"), DType::kBF16);
  EXPECT_EQ(ruled.at("token_embd.weight"), DType::kQ5_0);
  EXPECT_EQ(types(plan_quantize(model, {.mix = "Q4_0", .keep_output = true})).at("output.weight"),
            DType::kF32);
}

TEST_F(Quantize, EveryMixComesNearTheTruth) {
  for (const QuantizeMix& mix : quantize_mixes()) {
    quantize(model, small, {.mix = std::string(mix.name)});
    const gguf::File file = gguf::File::open(small);
    for (const auto& [name, values] : truth) {
      const std::vector<float> packed = values_of(file, name);
      double lost = 0.0, total = 0.0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        lost += std::pow(packed[i] - values[i], 2);
        total += std::pow(values[i], 2);
      }
      // A bit less is four times the error.
      const DTypeInfo& type = info(file.find_tensor(name)->dtype);
      const double bits = 8.0 * type.block_bytes / type.block_elements;
      EXPECT_LT(lost, (bits < 2.5 ? 0.75 : 16.0 * std::pow(4.0, -std::min(bits, 9.0))) * total)
          << mix.name << " " << name;
    }
  }
}

TEST_F(Quantize, ImportantColumnsLoseLess) {
  const std::string name = "blk.3.attn_q.weight";
  std::vector<float> columns(kWidth, 1e-3f);
  for (std::size_t i = 0; i < kWidth; i += 4) columns[i] = 1.0f;
  const auto lost_by = [&](const QuantizeParams& params) {
    quantize(model, small, params);
    const std::vector<float> packed = values_of(gguf::File::open(small), name);
    double lost = 0.0;
    for (std::size_t i = 0; i < packed.size(); i += 4) lost += std::pow(packed[i] - truth[name][i], 2);
    return lost;
  };
  for (const char* mix :
       {"Q2_K", "Q3_K_S", "Q4_0", "Q4_1", "Q4_K_S", "IQ2_XXS", "IQ3_S", "IQ4_NL", "IQ1_M"}) {
    const double alike = lost_by({.mix = mix, .pure = true});
    const double known =
        lost_by({.mix = mix, .importance = importances(name, {1, kWidth}, columns), .pure = true});
    EXPECT_LT(known, 0.9 * alike) << mix;
  }
  EXPECT_EQ(gguf::File::open(small).get_string("quantize.imatrix.dataset"), "texts.txt");
}

TEST_F(Quantize, ExpertsHaveImportancesOfTheirOwn) {
  std::vector<float> columns(3 * kWidth, 1.0f);
  for (std::size_t i = kWidth; i < 2 * kWidth; i += 2) columns[i] = 1e-4f;
  quantize(model, small,
           {.mix = "Q4_K_S",
            .importance = importances("blk.0.ffn_up_exps.weight", {3, kWidth}, columns),
            .pure = true});
  const gguf::File file = gguf::File::open(small);
  const gguf::TensorInfo& written = *file.find_tensor("blk.0.ffn_up_exps.weight");
  const auto& values = truth["blk.0.ffn_up_exps.weight"];
  const std::size_t row = row_bytes(DType::kQ4_K, kWidth);
  for (std::size_t r = 0; r < 24; ++r) {
    std::vector<std::byte> packed(row);
    const std::size_t expert = r / 8;
    pack_row(DType::kQ4_K, std::span(values).subspan(r * kWidth, kWidth), packed.data(),
             std::span(columns).subspan(expert * kWidth, kWidth));
    EXPECT_EQ(std::memcmp(packed.data(), written.data.data() + r * row, row), 0) << "row " << r;
  }
}

TEST_F(Quantize, TheOlderFormOfImportancesIsRead) {
  const auto path = folder.path / "imatrix.dat";
  const std::string name = "blk.3.attn_q.weight", dataset = "old.txt";
  std::vector<float> values(kWidth, 4.0f);
  std::ofstream file(path, std::ios::binary);
  const auto number = [&](std::int32_t n) { file.write(reinterpret_cast<const char*>(&n), 4); };
  number(1);
  number(static_cast<std::int32_t>(name.size()));
  file << name;
  number(4);
  number(kWidth);
  file.write(reinterpret_cast<const char*>(values.data()), kWidth * 4);
  number(7);
  number(static_cast<std::int32_t>(dataset.size()));
  file << dataset;
  file.close();
  quantize(model, small, {.mix = "Q4_0", .importance = path});
  const gguf::File result = gguf::File::open(small);
  EXPECT_EQ(result.get_string("quantize.imatrix.dataset"), "old.txt");
  EXPECT_EQ(result.get_int("quantize.imatrix.chunks_count"), 7);
  EXPECT_EQ(result.get_int("quantize.imatrix.entries_count"), 1);
  // Any cut of it is an error.
  const auto bytes = std::filesystem::file_size(path);
  for (std::uintmax_t cut = bytes - 50; cut > 0; cut -= std::min<std::uintmax_t>(cut, 97)) {
    std::filesystem::resize_file(path, cut);
    error_of([&] { quantize(model, small, {.mix = "Q4_0", .importance = path}); }, ErrorCode::kInvalidFile);
  }
}

TEST_F(Quantize, ErrorsNameTheCause) {
  const auto plan = [&](const QuantizeParams& params) { return [=, this] { plan_quantize(model, params); }; };
  EXPECT_THAT(error_of(plan({.mix = "Q4_Z"}), ErrorCode::kInvalidArgument), HasSubstr("Q4_K_M"));
  EXPECT_THAT(error_of(plan({.rules = {{"(", DType::kF16}}}), ErrorCode::kInvalidArgument),
              HasSubstr("regular expression"));
  EXPECT_THAT(error_of(plan({.rules = {{"x", DType::kI32}}}), ErrorCode::kInvalidArgument), HasSubstr("i32"));
  EXPECT_THAT(error_of(plan({.n_threads = -1}), ErrorCode::kInvalidArgument), HasSubstr("n_threads"));
  EXPECT_THAT(error_of([&] { quantize(model, model, {}); }, ErrorCode::kInvalidArgument),
              HasSubstr("overwrite"));
  EXPECT_THAT(error_of([&] { quantize(folder.path / "none.gguf", small, {}); }, ErrorCode::kNotFound),
              HasSubstr("none.gguf"));
  EXPECT_THAT(error_of(plan({.importance = model}), ErrorCode::kInvalidFile), HasSubstr("imatrix"));
  const auto wrong = importances("blk.3.attn_q.weight", {1, 128}, std::vector<float>(128, 1.0f));
  EXPECT_THAT(error_of(plan({.importance = wrong}), ErrorCode::kInvalidFile), HasSubstr("another model"));
  const auto negative = importances("blk.3.attn_q.weight", {1, kWidth}, std::vector<float>(kWidth, -1.0f));
  EXPECT_THAT(error_of(plan({.importance = negative}), ErrorCode::kInvalidFile), HasSubstr("blk.3.attn_q"));

  quantize(model, small, {.mix = "Q4_0"});
  const auto again = folder.path / "again.gguf";
  EXPECT_THAT(error_of([&] { quantize(small, again, {.mix = "Q8_0"}); }, ErrorCode::kInvalidArgument),
              HasSubstr("requantize"));
  EXPECT_FALSE(std::filesystem::exists(again));
  EXPECT_NO_THROW(quantize(small, again, {.mix = "Q8_0", .requantize = true}));
}

// Columns without importance in the calibration data still keep values.
TEST_F(Quantize, ColumnsOfNoImportanceStayNearTheTruth) {
  const std::string name = "blk.3.attn_q.weight";
  std::vector<float> columns(kWidth, 1.0f);
  std::fill_n(columns.begin() + 64, 32, 0.0f);
  for (const QuantizeMix& mix : quantize_mixes()) {
    if (mix.type == DType::kQ1_0 || mix.type == DType::kTQ1_0 || mix.type == DType::kTQ2_0) continue;
    const auto importance = importances(name, {1, kWidth}, columns);
    quantize(model, small, {.mix = std::string(mix.name), .importance = importance, .pure = true});
    const std::vector<float> packed = values_of(gguf::File::open(small), name);
    double lost = 0.0, total = 0.0;
    for (std::size_t i = 0; i < packed.size(); ++i) {
      if (columns[i % kWidth] > 0.0f) continue;
      lost += std::pow(packed[i] - truth[name][i], 2);
      total += std::pow(truth[name][i], 2);
    }
    EXPECT_LT(lost, 0.5 * total) << mix.name;
  }
}

TEST_F(Quantize, SplitSourcesAreReadAndNotOverwritten) {
  const auto parts = split_model(model, folder.path / "set", {.max_tensors = 30});
  ASSERT_GE(parts.size(), 2u);
  error_of([&] { quantize(parts[0].path, parts[1].path, {.mix = "Q4_0"}); }, ErrorCode::kInvalidArgument);
  quantize(parts[1].path, small, {.mix = "Q4_0"});
  EXPECT_EQ(gguf::File::open(small).tensors().size(), truth.size());
  EXPECT_EQ(gguf::File::open(small).find("split.count"), nullptr);
  error_of([&] { split_model(model, folder.path / "set", {.max_tensors = 30}); },
           ErrorCode::kInvalidArgument);
}

TEST_F(Quantize, FilesWithOddAlignmentsAndLongNamesAreCopied) {
  const std::string name = "blk.0." + std::string(100, 'x') + ".weight";
  // As other writers have it: the alignment is 4 or 64, of another type than weft writes.
  for (const std::uint64_t alignment : {4u, 64u}) {
    gguf::Writer writer;
    writer.set("general.architecture", "llama");
    writer.set("llama.block_count", std::uint32_t{kLayers});
    writer.set("general.alignmenT", alignment);
    add(writer, "token_embd.weight", {64, kWidth});
    add(writer, name, {16, kWidth});
    std::vector<std::byte> bytes = writer.to_bytes();
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    text[text.find("general.alignmenT") + 16] = 't';
    // The header ends at a multiple of 32; an alignment of 64 may need another 32 bytes.
    const std::size_t data_bytes = (64 + 16) * kWidth * sizeof(float);
    const std::size_t header = text.size() - data_bytes;
    text.insert(header, (alignment - header % alignment) % alignment, '\0');
    const std::filesystem::path odd = folder.path / "odd.gguf";
    std::ofstream(odd, std::ios::binary) << text;
    ASSERT_EQ(gguf::File::open(odd).get_int("general.alignment"), alignment);

    quantize(odd, small, {.mix = "Q8_0"});
    const auto parts =
        split_model(odd, folder.path / ("odd" + std::to_string(alignment)), {.max_tensors = 1});
    const std::filesystem::path merged = folder.path / ("merged" + std::to_string(alignment) + ".gguf");
    merge_model(parts[0].path, merged);
    for (const auto& path : {small, parts[0].path, merged}) {
      const gguf::File file = gguf::File::open(path);
      EXPECT_EQ(file.get_int("general.alignment"), std::max<std::uint64_t>(alignment, 8));
      EXPECT_NE(file.find_tensor(name), nullptr);
      if (path != small) {
        EXPECT_EQ(values_of(file, name), truth[name]);
      }
    }
  }
}

TEST_F(Quantize, NamesOfManyFamiliesAreKnown) {
  using quantize_impl::is_quantizable;
  for (const char* name : {"blk.0.time_mix_key.weight", "blk.0.time_mix_output.weight",
                           "blk.0.channel_mix_value.weight", "blk.0.ssm_in.weight", "blk.0.ssm_dt.weight",
                           "blk.0.attn_kv_a_mqa.weight", "output.weight", "per_layer_token_embd.weight"})
    EXPECT_TRUE(is_quantizable(name, 2)) << name;
  for (const char* name :
       {"blk.0.time_mix_w1.weight", "blk.0.time_mix_lerp_fused.weight", "blk.0.ssm_conv1d.weight",
        "blk.0.ffn_gate_inp.weight", "v.blk.0.attn_q.weight", "blk.0.attn_q.bias"})
    EXPECT_FALSE(is_quantizable(name, 2)) << name;
  // Without an output matrix the table of embeddings is one; another table is none.
  const quantize_impl::ModelShape tied{.n_layers = 4, .tied = true};
  const QuantizeMix& mix = *find_quantize_mix("Q2_K");
  EXPECT_EQ(quantize_impl::type_of(mix, tied, "token_embd.weight", false), DType::kQ6_K);
  EXPECT_EQ(quantize_impl::type_of(mix, tied, "per_layer_token_embd.weight", false), DType::kQ2_K);
}

TEST_F(Quantize, CancellingLeavesNoFile) {
  std::vector<double> told;
  const auto progress = [&](double fraction) {
    told.push_back(fraction);
    return told.size() < 5;
  };
  error_of([&] { quantize(model, small, {.progress = progress}); }, ErrorCode::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(small));
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  told.clear();
  quantize(model, small, {.progress = [&](double fraction) { return told.push_back(fraction), true; }});
  EXPECT_EQ(told.back(), 1.0);
}

TEST_F(Quantize, SaysWhichRulesHaveNoEffect) {
  const auto notes = [&](const QuantizeParams& params) { return plan_quantize(model, params).notes; };
  EXPECT_THAT(notes({.mix = "Q4_0", .rules = {{"ffn_down", DType::kQ8_0}, {"attn_(q|v)", DType::kF16}}}),
              testing::IsEmpty());
  EXPECT_THAT(notes({.mix = "Q4_0", .rules = {{"nosuch", DType::kQ8_0}}}),
              testing::ElementsAre(HasSubstr("'nosuch' matches no matrix")));
  // Norms are not matrices, so a rule for them has no effect.
  EXPECT_THAT(notes({.mix = "Q4_0", .rules = {{"attn_norm", DType::kQ8_0}}}),
              testing::ElementsAre(HasSubstr("'attn_norm' matches no matrix")));
  EXPECT_THAT(notes({.mix = "Q4_0", .rules = {{"blk", DType::kQ8_0}, {"ffn_down", DType::kF16}}}),
              testing::ElementsAre(HasSubstr("'ffn_down' has no effect")));
  EXPECT_THAT(notes({.keep_types = true, .rules = {{"FFN_DOWN", DType::kQ8_0}}}),
              testing::ElementsAre(HasSubstr("'FFN_DOWN'")));
}

TEST_F(Quantize, ReportsMissingAndMismatchedImportances) {
  const std::vector<float> ones(kWidth, 1.0f);
  const auto notes_with = [&](QuantizeParams params, const char* tensor) {
    params.importance = importances(tensor, {1, kWidth}, ones);
    return plan_quantize(model, params).notes;
  };
  // One layer of sixteen; the output matrix and the embeddings are usually missing.
  EXPECT_THAT(notes_with({.mix = "Q4_0"}, "blk.3.attn_q.weight"),
              testing::ElementsAre(testing::AllOf(HasSubstr("lack"), HasSubstr("blk.0."),
                                                  HasSubstr("all columns get the same weight"))));
  EXPECT_THAT(notes_with({.mix = "Q4_0", .important = {"blk.3.attn_q"}}, "blk.3.attn_q.weight"),
              testing::IsEmpty());
  EXPECT_THAT(notes_with({.mix = "Q4_0", .important = {"blk.3.attn_q", "nosuch"}}, "blk.3.attn_q.weight"),
              testing::ElementsAre(HasSubstr("'nosuch'")));
  EXPECT_THAT(notes_with({.mix = "F16"}, "blk.99.attn_q.weight"),
              testing::ElementsAre(HasSubstr("1 tensor (blk.99.attn_q.weight), which this model lacks")));
}

}  // namespace
}  // namespace weft
