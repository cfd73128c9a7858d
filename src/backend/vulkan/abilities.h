#pragma once
//
// Missing abilities of a GPU select a form of a shader, not a condition in it. Products of quantised weights
// are integer products where the device has them, and integer matrix products where subgroups have them.
// Threads add their sums without memory where subgroups can exchange values. Bytes and halves are loaded as
// such where possible. Other devices run other shaders. Each form passes the same conformance.
namespace weft::vulkan {

/// What a device may lack, and weft uses where it is there: by forms of shaders, not by conditions in them.
struct Abilities {
  bool byte_dots = true;     ///< Dot products of four bytes.
  bool shuffles = true;      ///< Exchange of values among 8 threads of a subgroup, all of which are there.
  bool narrow_loads = true;  ///< Loads of 8 and of 16 bits.
  bool matrices = true;      ///< Products of matrices of bytes by subgroups; needs all of the above.
};

}  // namespace weft::vulkan
