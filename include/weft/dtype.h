// Since 0.1
#pragma once
// Element types of tensors. all_dtypes() is the table that sizes, codecs, packing and kernels use.
//
// A quantised type stores a row as blocks: `block_elements` consecutive elements in `block_bytes` bytes.
// Layouts are as in GGUF files, little-endian.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "weft/language.h"

#pragma GCC visibility push(default)

namespace weft {

/// Values are the type ids of GGUF files.
enum class DType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
};

enum class DTypeKind : std::uint8_t { kFloat, kInteger, kQuantised };

struct DTypeInfo {
  DType type;
  std::string_view name;  ///< As in options and files: "f16", "q4_K", ...
  DTypeKind kind;
  std::int32_t block_elements;
  std::int32_t block_bytes;
};

/// All types, in the order of their ids.
std::span<const DTypeInfo> all_dtypes();

/// The table's entry of a type, which must be one of the enumerators.
const DTypeInfo& info(DType type);

/// The type with a GGUF id, or with a name in any case; nullopt: none.
std::optional<DType> dtype_from_id(std::uint32_t id);
std::optional<DType> dtype_from_name(std::string_view name);

/// The bytes of a row of n elements. n must be a multiple of block_elements.
std::size_t row_bytes(DType type, std::int64_t n);

}  // namespace weft

#pragma GCC visibility pop
