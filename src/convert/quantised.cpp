#include "convert/quantised.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "base/to_size.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

using Sources = std::map<std::string, Source>;

[[noreturn]] void refuse(const std::string& name, const std::string& reason) {
  throw Error(ErrorCode::kInvalidFile, "tensor '" + name.substr(0, 120) + "' " + reason);
}

/// The quantization of the weights in config.json.
struct Scheme {
  std::string method;  ///< Empty: nothing is quantised.
  /// Rows and columns that share a scale; 0 if config.json lacks them.
  std::array<std::int64_t, 2> block = {0, 0};
  std::int64_t bits = 0;  ///< Bits of a packed code.
};

[[noreturn]] void refuse_method(const std::string& method) {
  throw Error(ErrorCode::kUnsupported,
              "weft cannot convert weights of this quantization method (" + method.substr(0, 60) +
                  "); known are mxfp4, fp8 and compressed-tensors' float-quantized, int-quantized and "
                  "pack-quantized. Convert a version of the model in one of these, BF16, F16 or F32; then "
                  "'weft quantize' makes it smaller");
}

void read_block(const Json& json, const char* name, Scheme& scheme) {
  const Json* const block = find(json, name);
  if (block == nullptr) return;
  const auto good = [](const Json& size) {
    return size.is_number_unsigned() && size > 0 && size <= std::numeric_limits<std::int32_t>::max();
  };
  if (!block->is_array() || block->size() != 2 || !good((*block)[0]) || !good((*block)[1]))
    throw Error(ErrorCode::kInvalidFile, "config.json: " + std::string(name) + " is " +
                                             block->dump().substr(0, 40) +
                                             ", expected two positive integers");
  scheme.block = {(*block)[0].get<std::int64_t>(), (*block)[1].get<std::int64_t>()};
}

Scheme scheme_of(const Json& config) {
  Scheme scheme;
  const Json* quantised = find(config, "quantization_config");
  if (const Json* const text = find(config, "text_config"); quantised == nullptr && text != nullptr)
    quantised = find(*text, "quantization_config");
  if (quantised == nullptr) quantised = find(config, "compression_config");
  if (quantised == nullptr && find(config, "quantization") != nullptr) refuse_method("mlx");
  if (quantised == nullptr) return scheme;
  // MLX writes this without a method, and the same values under "quantization".
  const char* const unnamed = find(config, "quantization") != nullptr ? "mlx" : "quantization_config";
  scheme.method = find_text(*quantised, "quant_method").value_or(unnamed);
  if (scheme.method == "mxfp4" || scheme.method == "fbgemm_fp8") return scheme;
  if (scheme.method == "fp8") {
    read_block(*quantised, "weight_block_size", scheme);
    return scheme;
  }
  if (scheme.method != "compressed-tensors") refuse_method(scheme.method);
  const std::string format = find_text(*quantised, "format").value_or("dense");
  constexpr std::string_view kKnown[] = {"float-quantized", "int-quantized", "naive-quantized",
                                         "pack-quantized", "dense"};
  if (std::find(std::begin(kKnown), std::end(kKnown), format) == std::end(kKnown))
    refuse_method(scheme.method + ", " + format);
  if (const Json* const sparse = find(*quantised, "sparsity_config"))
    if (const auto kind = find_text(*sparse, "format"); kind && *kind != "dense")
      refuse_method(scheme.method + ", " + *kind);
  const Json* const groups = find(*quantised, "config_groups");
  if (groups == nullptr || !groups->is_object()) return scheme;
  for (const auto& [unused, group] : groups->items()) {
    const Json* const weights = find(group, "weights");
    if (weights == nullptr) continue;
    read_block(*weights, "block_structure", scheme);
    const Json* const bits = find(*weights, "num_bits");
    const std::int64_t n = bits != nullptr && bits->is_number_unsigned() ? bits->get<std::int64_t>() : 0;
    if (scheme.bits != 0 && scheme.bits != n)
      refuse_method(scheme.method + " with groups of " + std::to_string(scheme.bits) + " and " +
                    std::to_string(n) + " bits");
    scheme.bits = n;
  }
  return scheme;
}

/// The values of the 256 bytes. The highest bit is the sign. E4M3 has no infinities.
const std::array<float, 256>& e4m3() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> all{};
    for (int code = 0; code < 256; ++code) {
      const float value = (code & 127) == 127 ? std::numeric_limits<float>::quiet_NaN()
                                              : e4m3_magnitude(static_cast<std::uint8_t>(code));
      all[to_size(code)] = code < 128 ? value : -value;
    }
    return all;
  }();
  return values;
}

/// Maps elements to their scales.
struct BlockScales {
  Source source;
  std::int64_t rows = 1, columns = 1;     ///< Size of one scaled matrix.
  std::int64_t n_down = 1, n_across = 1;  ///< BlockScales of one matrix.
  std::int64_t block_rows = 1, block_columns = 1;

  /// The line of scales for a row.
  std::int64_t line(std::int64_t row) const { return row / rows * n_down + row % rows / block_rows; }
  /// Reads n lines.
  std::vector<float> read(std::int64_t first, std::int64_t n) const {
    std::vector<float> values(to_size(n * n_across));
    std::vector<std::byte> bytes(row_bytes(*source.dtype, n * n_across));
    source.read(first * n_across, bytes);
    unpack_row(*source.dtype, bytes.data(), values);
    return values;
  }
};

BlockScales scales_of(const std::string& name, const std::vector<std::int64_t>& shape, const Source& source,
                      const Scheme& scheme) {
  if (source.dtype != DType::kF32 && source.dtype != DType::kF16 && source.dtype != DType::kBF16)
    refuse(source.name, "is of the type " + source.stored + ", expected scales of F32, F16 or BF16");
  if (shape.size() < 2) refuse(name, "is quantized but not a matrix");
  BlockScales scales{.source = source, .rows = shape[shape.size() - 2], .columns = shape.back()};
  std::int64_t n_matrices = 1;
  for (std::size_t i = 0; i + 2 < shape.size(); ++i) n_matrices *= shape[i];
  std::vector<std::int64_t> given = source.shape;
  if (source.n_elements() == 1) given.assign(shape.size(), 1);
  if (given.size() + 1 == shape.size()) given.push_back(1);
  const auto bad = [&] {
    refuse(source.name, "has a shape that does not match the scales of '" + name.substr(0, 120) + "'");
  };
  if (given.size() != shape.size()) bad();
  std::int64_t n_given = 1;
  for (std::size_t i = 0; i + 2 < given.size(); ++i) n_given *= given[i];
  if (n_given != n_matrices) bad();
  scales.n_down = given[given.size() - 2];
  scales.n_across = given.back();
  const auto block = [&](std::int64_t n, std::int64_t n_scales, std::int64_t said) {
    if (said > 0 && (n + said - 1) / said == n_scales) return said;
    if (n_scales <= 0 || n % n_scales != 0 || (said > 0 && n_scales != 1 && n_scales != n)) bad();
    return n / n_scales;
  };
  scales.block_rows = block(scales.rows, scales.n_down, scheme.block[0]);
  scales.block_columns = block(scales.columns, scales.n_across, scheme.block[1]);
  return scales;
}

/// Elements from `first` on: `code(i)` is the number of the i-th without its scale.
template <class Code>
void scaled(const BlockScales& scales, std::int64_t first, std::span<std::byte> to, const Code& code) {
  const auto n = static_cast<std::int64_t>(to.size() / sizeof(float));
  const std::int64_t first_line = scales.line(first / scales.columns);
  const std::int64_t last_line = scales.line((first + n - 1) / scales.columns);
  const std::vector<float> factors = scales.read(first_line, last_line - first_line + 1);
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t at = first + i, row = at / scales.columns, column = at % scales.columns;
    const std::int64_t across = column / scales.block_columns;
    const float factor = factors[to_size((scales.line(row) - first_line) * scales.n_across + across)];
    const std::int64_t end =
        std::min({n, i + scales.block_columns - column % scales.block_columns, i + scales.columns - column});
    for (; i < end; ++i) {
      const float value = code(first + i) * factor;
      std::memcpy(to.data() + to_size(i) * sizeof value, &value, sizeof value);
    }
  }
}

Source take(Sources& sources, const std::string& name) {
  auto node = sources.extract(name);
  if (node.empty()) refuse(name, "is missing");
  return std::move(node.mapped());
}

void put(Sources& sources, const std::string& name, Source joined) {
  if (!sources.emplace(name, std::move(joined)).second)
    refuse(name, "occurs twice, quantized and unquantized");
}

/// One byte for each element: FP8, or whole numbers.
void join_bytes(const std::string& name, const std::string& scale_name, const Scheme& scheme,
                Sources& sources) {
  const Source codes = take(sources, name);
  const BlockScales scales = scales_of(name, codes.shape, take(sources, scale_name), scheme);
  const bool whole = codes.dtype == DType::kI8;
  Source joined = codes;
  joined.dtype = DType::kF32;
  joined.read = [codes, scales, whole](std::int64_t first, std::span<std::byte> to) {
    std::vector<std::byte> raw(to.size() / sizeof(float));
    codes.read(first, raw);
    const std::array<float, 256>& table = e4m3();
    scaled(scales, first, to, [&](std::int64_t i) {
      const auto byte = static_cast<std::uint8_t>(raw[to_size(i - first)]);
      return whole ? static_cast<float>(static_cast<std::int8_t>(byte)) : table[byte];
    });
  };
  put(sources, name, std::move(joined));
}

/// Codes of several bits in whole numbers of 32, the first in the lowest.
void join_packed(const std::string& stem, const Scheme& scheme, Sources& sources) {
  const std::string name = stem + "weight";
  for (const char* end : {"weight_zero_point", "weight_g_idx"})
    if (sources.contains(stem + end)) refuse_method("compressed-tensors with " + std::string(end));
  if (scheme.bits != 4 && scheme.bits != 8)
    refuse_method("compressed-tensors' pack-quantized with " + std::to_string(scheme.bits) + " bits");
  const Source words = take(sources, name + "_packed");
  const Source said = take(sources, name + "_shape");
  if (words.dtype != DType::kI32 || words.shape.size() != 2) refuse(words.name, "is not a matrix of I32");
  std::array<std::int64_t, 2> shape{};
  if (said.dtype == DType::kI64 && said.n_elements() == 2) {
    said.read(0, std::as_writable_bytes(std::span(shape)));
  } else if (std::array<std::int32_t, 2> small{}; said.dtype == DType::kI32 && said.n_elements() == 2) {
    said.read(0, std::as_writable_bytes(std::span(small)));
    shape = {small[0], small[1]};
  } else {
    refuse(said.name, "is not a pair of integers");
  }
  const std::int64_t in_word = 32 / scheme.bits;
  const std::int64_t most = words.shape[1] * in_word;
  if (shape[0] != words.shape[0] || shape[1] <= 0 || shape[1] <= most - in_word || shape[1] > most)
    refuse(said.name, "has a shape that contradicts '" + words.name.substr(0, 120) + "' has");
  const BlockScales scales = scales_of(name, {shape[0], shape[1]}, take(sources, name + "_scale"), scheme);
  Source joined = words;
  joined.name = name;
  joined.dtype = DType::kF32;
  joined.shape = {shape[0], shape[1]};
  const std::int64_t bits = scheme.bits, row_words = words.shape[1];
  joined.read = [words, scales, bits, in_word, row_words](std::int64_t first, std::span<std::byte> to) {
    const std::int64_t last = first + static_cast<std::int64_t>(to.size() / sizeof(float)) - 1;
    const std::int64_t from = first / scales.columns * row_words;
    const std::int64_t end = (last / scales.columns + 1) * row_words;
    std::vector<std::uint32_t> raw(to_size(end - from));
    words.read(from, std::as_writable_bytes(std::span(raw)));
    scaled(scales, first, to, [&](std::int64_t i) {
      const std::int64_t column = i % scales.columns;
      const std::uint32_t word = raw[to_size(i / scales.columns * row_words + column / in_word - from)];
      const std::uint32_t code = (word >> (column % in_word * bits)) & ((1u << bits) - 1);
      return static_cast<float>(static_cast<std::int32_t>(code) - (1 << (bits - 1)));
    });
  };
  put(sources, name, std::move(joined));
}

/// GGUF has a block's scale in front, and in a byte the elements i and i + 16; the folder has neighbours.
void join_mxfp4(const std::string& name, Sources& sources) {
  constexpr std::size_t kCodes = 16, kBlock = 17;
  const Source codes = take(sources, name + "_blocks");
  const Source scales = take(sources, name + "_scales");
  std::vector<std::int64_t> expected = scales.shape;
  expected.push_back(kCodes);
  if (codes.stored != "U8" || scales.stored != "U8" || codes.shape != expected || scales.shape.empty())
    refuse(codes.name, "is not a U8 tensor with 16 bytes for each of '" + scales.name.substr(0, 120) + "'");
  Source joined = codes;
  joined.name = name;
  joined.dtype = DType::kMXFP4;
  joined.shape = scales.shape;
  joined.shape.back() *= info(DType::kMXFP4).block_elements;
  joined.read = [codes, scales](std::int64_t first, std::span<std::byte> to) {
    const std::size_t n = to.size() / kBlock;
    std::vector<std::byte> nibbles(n * kCodes), exponents(n);
    codes.read(first * static_cast<std::int64_t>(kCodes), nibbles);
    scales.read(first, exponents);
    for (std::size_t block = 0; block < n; ++block) {
      const std::byte* const in = nibbles.data() + block * kCodes;
      std::byte* const out = to.data() + block * kBlock;
      out[0] = exponents[block];
      const auto code = [&](std::size_t i) { return (in[i / 2] >> (i % 2 * 4)) & std::byte{15}; };
      for (std::size_t i = 0; i < kCodes; ++i) out[1 + i] = code(i) | code(i + kCodes) << 4;
    }
  };
  put(sources, name, std::move(joined));
}

}  // namespace

void join_quantised(const Json& config, Sources& sources) {
  const Scheme scheme = scheme_of(config);
  std::vector<std::string> names;
  for (const auto& [name, unused] : sources) names.push_back(name);
  const auto stem_of = [](const std::string& name, std::string_view end) {
    return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : std::string();
  };
  for (const std::string& name : names) {
    if (const std::string stem = stem_of(name, "_blocks");
        !stem.empty() && sources.contains(stem + "_scales"))
      join_mxfp4(stem, sources);
    if (const std::string stem = stem_of(name, "weight_packed"); !stem.empty())
      join_packed(stem, scheme, sources);
    for (const std::string_view end : {"_scale_inv", "_scale"}) {
      const std::string of = stem_of(name, end);
      const auto found = of.empty() ? sources.end() : sources.find(of);
      // A joined source is F32 and keeps `stored`. A second scale for it stays and is later refused as an
      // unknown tensor.
      if (found != sources.end() && found->second.dtype != DType::kF32 &&
          (found->second.stored == "F8_E4M3" || found->second.stored == "I8"))
        join_bytes(of, name, scheme, sources);
    }
    // Scales of activations and caches are not weights of the model.
    if (scheme.method.empty()) continue;
    for (const std::string_view end :
         {".input_scale", ".activation_scale", ".input_scale_ub", ".k_scale", ".v_scale", ".q_scale"})
      if (name.ends_with(end)) sources.erase(name);
  }
}

}  // namespace weft::convert_impl
