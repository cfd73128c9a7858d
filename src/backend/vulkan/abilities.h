#pragma once
//
// What a GPU may lack is a form of a shader, not a condition. Products of quantised weights are products of
// integers where the device has them, of matrices of integers where subgroups multiply them; threads add
// their sums without memory where subgroups can exchange values, and bytes and halves are loaded as such
// where they can be; other devices run other shaders (src/backend/vulkan/abilities.h). Each form passes the
// same conformance.
namespace weft::vulkan {

/// What a device may lack, and weft uses where it is there: by forms of shaders, not by conditions in them.
struct Abilities {
  bool byte_dots = true;     ///< Dot products of four bytes.
  bool shuffles = true;      ///< Exchange of values among 8 threads of a subgroup, all of which are there.
  bool narrow_loads = true;  ///< Loads of 8 and of 16 bits.
  bool matrices = true;      ///< Products of matrices of bytes by subgroups; needs all of the above.
};

}  // namespace weft::vulkan
