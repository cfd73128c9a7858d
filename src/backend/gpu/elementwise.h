#pragma once
// The operations of the kernel "elementwise", as in vulkan/shaders/elementwise.comp. CUDA's sources include
// this file, so it is C++17.
#include <cstdint>

namespace weft::gpu {

enum class Elementwise : std::uint32_t {
  kCopy,
  kUnary,
  kActivate,
  kClamp,
  kSoftcap,
  kBinary,
  kGlu,
  kCompareFloats,
  kCompareInts,
  kChoose,
};

}  // namespace weft::gpu
