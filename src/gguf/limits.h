#pragma once
// Constants of the format and the bounds that reading sets, which keep memory and work within a small
// multiple of a file's size. All are far above what real files have.
#include <cstddef>
#include <cstdint>

namespace weft::gguf {

inline constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
inline constexpr std::uint32_t kVersion = 3;
inline constexpr std::size_t kHeaderBytes = 24;  // Magic, version, number of tensors, number of keys.
inline constexpr std::uint64_t kDefaultAlignment = 32;
inline constexpr std::uint64_t kMinAlignment = 8;  // For writing; smaller ones are read.
inline constexpr std::uint64_t kMaxAlignment = 65536;
inline constexpr std::size_t kMaxDims = 4;

inline constexpr std::uint64_t kMaxKeys = 65536;
inline constexpr std::uint64_t kMaxTensors = 1 << 20;
inline constexpr std::size_t kMaxKeyBytes = 65535;       // The format's own bound.
inline constexpr std::size_t kMaxTensorNameBytes = 255;  // The format says 64; some writers go beyond.
inline constexpr std::size_t kMaxNewNameBytes = 63;      // Other readers have 64, with the end of a C string.
inline constexpr int kMaxArrayDepth = 4;                 // An array of numbers has depth 1.
inline constexpr std::size_t kMaxNestedArrays =
    65536;  // In a file: their elements are the costly ones in memory.

inline constexpr const char* kAlignmentKey = "general.alignment";
inline constexpr const char* kSplitNumberKey = "split.no";
inline constexpr const char* kSplitCountKey = "split.count";
inline constexpr const char* kSplitTensorsKey = "split.tensors.count";

}  // namespace weft::gguf
