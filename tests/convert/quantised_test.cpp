// Quantized weights of folders, compared with values that the test computes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <functional>
#include <random>

#include "convert/folder_testing.h"
#include "tensor/codec.h"
#include "weft/convert.h"
#include "weft/error.h"

namespace weft {
namespace {

const std::filesystem::path kData = WEFT_TEST_DATA;
constexpr int kRows = 96, kColumns = 64;
const std::string kName = "model.layers.0.mlp.fc1.weight";

class Quantised : public testing::Test {
 protected:
  Quantised() {
    std::filesystem::remove_all(scratch_);
    std::filesystem::create_directories(scratch_);
    std::filesystem::copy(kData / "convert/phi2", scratch_ / "folder");
    tensors_ = test::read_tensors(scratch_ / "folder/model.safetensors");
    tensors_.erase(kName);
  }
  ~Quantised() override { std::filesystem::remove_all(scratch_); }

  /// Numbers 0 to 255, and scales from 0.5 to 2.
  std::vector<std::uint8_t> codes(int n) {
    std::vector<std::uint8_t> values(static_cast<std::size_t>(n));
    for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(random_() & 255);
    return values;
  }
  std::vector<float> scales(int n) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& value : values) value = 0.5f + static_cast<float>(random_() % 97) / 64.0f;
    return values;
  }

  void write(const std::string& quantisation) {
    test::write_safetensors(scratch_ / "folder/model.safetensors", tensors_);
    std::ifstream file(kData / "convert/phi2/config.json", std::ios::binary);
    std::string config{std::istreambuf_iterator<char>(file), {}};
    config.replace(config.find('{'), 1, R"({"quantization_config": )" + quantisation + ",");
    test::write_text(scratch_ / "folder/config.json", config);
  }

  /// That the matrix is `value(row, column)`.
  void expect_values(const std::string& quantisation, const std::function<float(int, int)>& value) {
    write(quantisation);
    convert(scratch_ / "folder", scratch_ / "made.gguf", {.type = "f32"});
    const WeightFile file(scratch_ / "made.gguf");
    const WeightFile::Tensor* const tensor = file.find("blk.0.ffn_up.weight");
    ASSERT_NE(tensor, nullptr);
    ASSERT_EQ(tensor->shape, (std::vector<std::int64_t>{kRows, kColumns}));
    std::vector<std::byte> bytes(tensor->bytes.size());
    file.read(tensor->bytes, bytes);
    std::vector<float> values(kRows * kColumns);
    unpack_row(tensor->dtype, bytes.data(), values);
    for (int row = 0; row < kRows; ++row)
      for (int column = 0; column < kColumns; ++column)
        ASSERT_EQ(values[static_cast<std::size_t>(row * kColumns + column)], value(row, column))
            << row << ", " << column;
  }

  void expect_refused(const std::string& quantisation, const std::string& text) {
    write(quantisation);
    try {
      convert(scratch_ / "folder", scratch_ / "result.gguf");
      ADD_FAILURE() << "was converted, expected: " << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "result.gguf"));
  }

  /// A sign, 4 bits of exponent, 3 of the mantissa.
  static float fp8(std::uint8_t code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                      : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    return code > 127 ? -value : value;
  }
  std::vector<std::uint8_t> fp8_codes() {
    std::vector<std::uint8_t> values = codes(kRows * kColumns);
    for (std::uint8_t& value : values)
      if ((value & 127) == 127) value = 3;  // No NaNs.
    return values;
  }
  static std::size_t at(int row, int column) { return static_cast<std::size_t>(row * kColumns + column); }

  const std::filesystem::path scratch_ =
      std::filesystem::temp_directory_path() / ("weft_quantised_" + std::to_string(getpid()));
  test::StoredTensors tensors_;
  std::minstd_rand random_{7};
};

constexpr const char* kFloats = R"({"quant_method": "compressed-tensors", "format": "float-quantized"})";
constexpr const char* kWhole = R"({"quant_method": "compressed-tensors", "format": "int-quantized"})";

std::string packed(int bits) {
  return R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
             "config_groups": {"group_0": {"weights": {"num_bits": )" +
         std::to_string(bits) + "}}}}";
}

TEST_F(Quantised, Fp8WithOneScale) {
  const auto stored = fp8_codes();
  tensors_[kName] = {"F8_E4M3", {kRows, kColumns}, test::bytes_of(stored)};
  tensors_[kName + "_scale"] = {"F32", {1}, test::bytes_of(std::vector<float>{0.75f})};
  expect_values(kFloats, [&](int r, int c) { return fp8(stored[at(r, c)]) * 0.75f; });
}

TEST_F(Quantised, Fp8WithAScaleForEachRow) {
  const auto stored = fp8_codes();
  const auto factors = scales(kRows);
  tensors_[kName] = {"F8_E4M3", {kRows, kColumns}, test::bytes_of(stored)};
  tensors_[kName + "_scale"] = {"F32", {kRows, 1}, test::bytes_of(factors)};
  expect_values(kFloats,
                [&](int r, int c) { return fp8(stored[at(r, c)]) * factors[static_cast<std::size_t>(r)]; });
}

TEST_F(Quantised, Fp8WithAScaleForEachBlockOfWhichTheLastAreCut) {
  constexpr int kDown = 40, kAcross = 48, n_down = 3, n_across = 2;
  const auto stored = fp8_codes();
  const auto factors = scales(n_down * n_across);
  tensors_[kName] = {"F8_E4M3", {kRows, kColumns}, test::bytes_of(stored)};
  tensors_[kName + "_scale_inv"] = {"F32", {n_down, n_across}, test::bytes_of(factors)};
  const std::string scheme = R"({"quant_method": "fp8", "weight_block_size": [40, 48]})";
  expect_values(scheme, [&](int r, int c) {
    return fp8(stored[at(r, c)]) * factors[static_cast<std::size_t>(r / kDown * n_across + c / kAcross)];
  });
  tensors_[kName + "_scale_inv"].shape = {n_across, n_down};
  expect_refused(scheme, "a shape that does not match the scales");
  tensors_.erase(kName + "_scale_inv");
  expect_refused(scheme, "of the type F8_E4M3");
}

TEST_F(Quantised, WholeNumbersOf8Bits) {
  const auto stored = codes(kRows * kColumns);
  const auto factors = scales(kRows);
  tensors_[kName] = {"I8", {kRows, kColumns}, test::bytes_of(stored)};
  tensors_[kName + "_scale"] = {"F32", {kRows, 1}, test::bytes_of(factors)};
  expect_values(kWhole, [&](int r, int c) {
    return static_cast<float>(static_cast<std::int8_t>(stored[at(r, c)])) *
           factors[static_cast<std::size_t>(r)];
  });
}

TEST_F(Quantised, PackedNumbersOf4And8Bits) {
  for (const int bits : {4, 8}) {
    const int in_word = 32 / bits, group = 16;
    const auto stored = codes(kRows * kColumns);
    const auto factors = scales(kRows * kColumns / group);
    const int mask = (1 << bits) - 1;
    std::vector<std::uint32_t> words(kRows * kColumns / static_cast<std::size_t>(in_word));
    for (std::size_t i = 0; i < stored.size(); ++i)
      words[i / static_cast<std::size_t>(in_word)] |=
          static_cast<std::uint32_t>(stored[i] & mask)
          << (i % static_cast<std::size_t>(in_word) * static_cast<std::size_t>(bits));
    tensors_[kName + "_packed"] = {"I32", {kRows, kColumns / in_word}, test::bytes_of(words)};
    tensors_[kName + "_scale"] = {"F32", {kRows, kColumns / group}, test::bytes_of(factors)};
    tensors_[kName + "_shape"] = {"I64", {2}, test::bytes_of(std::vector<std::int64_t>{kRows, kColumns})};
    expect_values(packed(bits), [&](int r, int c) {
      return static_cast<float>((stored[at(r, c)] & mask) - (1 << (bits - 1))) *
             factors[at(r, c) / static_cast<std::size_t>(group)];
    });
  }
  expect_refused(packed(3), "with 3 bits");
  tensors_[kName + "_shape"].bytes = test::bytes_of(std::vector<std::int64_t>{kRows, -1});
  expect_refused(packed(8), "has a shape that contradicts");
  tensors_[kName + "_shape"].bytes = test::bytes_of(std::vector<std::int64_t>{kRows, INT64_MAX});
  expect_refused(packed(8), "has a shape that contradicts");
  tensors_[kName + "_zero_point"] = {"I32", {1}, "1234"};
  expect_refused(packed(8), "weight_zero_point");
}

TEST_F(Quantised, ATensorHasOneFormAndOneScale) {
  const std::string whole(kRows * kColumns, '\0'), scale(4, '\0');
  tensors_[kName] = {"F8_E4M3", {kRows, kColumns}, whole};
  tensors_[kName + "_scale"] = tensors_[kName + "_scale_inv"] = {"F32", {1}, scale};
  expect_refused(kFloats, "'" + kName + "_scale_inv' is not part of any known model");
  tensors_.erase(kName + "_scale_inv");
  tensors_[kName + "_packed"] = {"I32", {kRows, kColumns / 4}, whole};
  tensors_[kName + "_shape"] = {"I64", {2}, test::bytes_of(std::vector<std::int64_t>{kRows, kColumns})};
  tensors_[kName] = {"F16", {kRows, kColumns}, whole + whole};
  expect_refused(packed(8), "'" + kName + "' occurs twice");
}

/// Whose rows must be whole blocks, and stay so: other shapes and orders have no such types.
TEST_F(Quantised, BlocksAreOfMatricesAlone) {
  const auto in_blocks = [&](const std::string& name, std::vector<std::int64_t> shape) {
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    tensors_.erase(name);
    tensors_[name + "_scales"] = {"U8", shape, std::string(static_cast<std::size_t>(n), 'x')};
    shape.push_back(16);
    tensors_[name + "_blocks"] = {"U8", shape, std::string(static_cast<std::size_t>(n) * 16, 'x')};
  };
  const std::string norm = "model.layers.0.input_layernorm.weight";
  in_blocks(kName, {kRows, kColumns / 32});
  in_blocks(norm, {kColumns / 32});
  expect_refused(
      R"({"quant_method": "mxfp4"})",
      "'" + norm + "' is stored in quantized blocks (mxfp4), which weft does not support for this tensor");
}

TEST_F(Quantised, Mxfp4OfExpertsWhoseGateAndUpAlternate) {
  constexpr std::array<float, 8> kValues = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  constexpr int n_experts = 4, n_ff = 48, n_blocks = kColumns / 32, kCodes = 16;
  const std::filesystem::path folder = scratch_ / "gpt-oss";
  std::filesystem::copy(kData / "convert/gpt-oss", folder);
  test::StoredTensors tensors = test::read_tensors(folder / "model.safetensors");
  const std::string name = "model.layers.0.mlp.experts.gate_up_proj";
  ASSERT_EQ(tensors.erase(name), 1u);
  constexpr int n_rows = n_experts * 2 * n_ff;
  const auto stored = codes(n_rows * n_blocks * kCodes);
  std::vector<std::uint8_t> exponents = codes(n_rows * n_blocks);
  for (std::uint8_t& exponent : exponents) exponent = static_cast<std::uint8_t>(120 + exponent % 16);
  tensors[name + "_blocks"] = {"U8", {n_experts, 2 * n_ff, n_blocks, kCodes}, test::bytes_of(stored)};
  tensors[name + "_scales"] = {"U8", {n_experts, 2 * n_ff, n_blocks}, test::bytes_of(exponents)};
  test::write_safetensors(folder / "model.safetensors", tensors);
  convert(folder, scratch_ / "made.gguf");
  const WeightFile file(scratch_ / "made.gguf");
  for (const int part : {0, 1}) {
    const WeightFile::Tensor* const tensor =
        file.find(part == 0 ? "blk.0.ffn_gate_exps.weight" : "blk.0.ffn_up_exps.weight");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->dtype, DType::kMXFP4);
    ASSERT_EQ(tensor->shape, (std::vector<std::int64_t>{n_experts, n_ff, kColumns}));
    std::vector<std::byte> bytes(tensor->bytes.size());
    file.read(tensor->bytes, bytes);
    std::vector<float> values(n_experts * n_ff * kColumns);
    unpack_row(tensor->dtype, bytes.data(), values);
    for (int row = 0; row < n_experts * n_ff; ++row)
      for (int column = 0; column < kColumns; ++column) {
        const int block = (2 * row + part) * n_blocks + column / 32, within = column % 32;
        const int byte = stored[static_cast<std::size_t>(block * kCodes + within / 2)];
        const int code = within % 2 == 0 ? byte & 15 : byte >> 4;
        const float size = std::ldexp(kValues[static_cast<std::size_t>(code & 7)],
                                      exponents[static_cast<std::size_t>(block)] - 127);
        ASSERT_EQ(values[at(row, column)], code < 8 ? size : -size) << row << ", " << column;
      }
  }
}

}  // namespace
}  // namespace weft
