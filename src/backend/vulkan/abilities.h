#pragma once
namespace weft::vulkan {

/// What a device may lack, and weft uses where it is there: by forms of shaders, not by conditions in them.
struct Abilities {
  bool byte_dots = true;     ///< Dot products of four bytes.
  bool shuffles = true;      ///< Exchange of values among 8 threads of a subgroup.
  bool narrow_loads = true;  ///< Loads of 8 and of 16 bits.
};

}  // namespace weft::vulkan
