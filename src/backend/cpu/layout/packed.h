#pragma once
// Weights as the CPU's matrix kernels read them, and activations as they multiply them.
//
// A packed matrix is a run of panels of 16 output rows (vector lane = row). In a panel the columns are walked
// in blocks of 32, and each block is one contiguous record. So a matrix-vector product is one linear stream,
// and a matrix-matrix product reads the same bytes. Rows past the last one are zero. packed.cpp chooses the
// layout of a type (its planes and scales) from the table of types.
//
// A tall matrix has many times more rows than columns, like the head over a large vocabulary. Often only its
// best rows are wanted. If its type allows, its codes' low bits are stored separately, in two planes after
// all panels. So most rows can be ruled out without reading them (screen.inl).
//
// A BF16 matrix whose weights are of about one size is stored in compact panels instead, with 12 bits a
// weight (compact.h).
//
// Activations are rows of int8 with a scale for each 32 (kQ8). If the weights' own scales have two levels,
// there is one for each 128 (kQ8Wide), and a block's sum is an integer multiple of the inner scales. For F32,
// F16 and BF16 weights they are plain float rows.
#include <cstddef>
#include <cstdint>

#include "base/to_size.h"
#include "weft/dtype.h"

namespace weft::cpu {

inline constexpr int kPanelRows = 16;
inline constexpr int kBlockColumns = 32;
inline constexpr int kLowPlanes = 2;  ///< Of a tall matrix.

struct PackedMatrix {
  DType dtype = DType::kF32;        ///< Of the canonical weight.
  std::int64_t rows = 0;            ///< Outputs.
  std::int64_t columns = 0;         ///< Inputs.
  const std::byte* data = nullptr;  ///< 64-byte aligned; null where the matrix is not packed.
  std::size_t panel_bytes = 0;
  /// Canonical rows, instead of data: a matrix that is used as stored in the file. Kernels want it packed,
  /// panel by panel (pack_panels); rows may be unpacked.
  const std::byte* canonical = nullptr;
  std::size_t low_bytes = 0;  ///< Of each panel in each low plane; 0: there are none.
  bool compact = false;       ///< With panels as compact.h has them.

  std::int64_t n_panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
};
static inline const std::byte* panel_of(const PackedMatrix& matrix, std::int64_t panel) {
  return matrix.data + to_size(panel) * matrix.panel_bytes;
}
/// Its part of a low plane.
static inline const std::byte* low_of(const PackedMatrix& matrix, int plane, std::int64_t panel) {
  const std::int64_t n_panels = (matrix.rows + kPanelRows - 1) / kPanelRows;
  return panel_of(matrix, n_panels) + to_size(plane * n_panels + panel) * matrix.low_bytes;
}

/// A matrix of this type and shape, without its memory.
PackedMatrix packed_shape(DType dtype, std::int64_t rows, std::int64_t columns);
std::size_t packed_bytes(DType dtype, std::int64_t rows, std::int64_t columns);
/// What a product reads of this one: its panels, or its canonical rows.
std::size_t matrix_bytes(const PackedMatrix& matrix);
/// Whether the low bits of such a matrix lie apart.
bool is_tall(DType dtype, std::int64_t rows, std::int64_t columns);

/// Packs panels [begin, end) of a matrix from their canonical (GGUF) rows. `out` is the start of the whole
/// packed matrix. Panels are independent, so threads may share the work.
void pack_panels(DType dtype, std::int64_t rows, std::int64_t columns, const std::byte* canonical,
                 std::int64_t begin, std::int64_t end, std::byte* out);

/// One row of a matrix as floats: the values that the matrix kernels use, equal to the canonical ones.
void unpack_packed_row(const PackedMatrix& matrix, std::int64_t row, float* out);

/// The forms of a value's rows in memory.
enum class Form : std::uint8_t {
  kPlain,   ///< Floats (or an input's integers, a cache, a vector of weights).
  kQ8,      ///< Activations as the kernels of quantised weights read them ...
  kQ8Wide,  ///< ... and of those with super-blocks.
};
inline constexpr Form kForms[] = {Form::kPlain, Form::kQ8, Form::kQ8Wide};
/// In which form activations are multiplied.
Form activation_form(DType weight);

/// Bytes from one row of activations to the next, a multiple of 64.
std::size_t activation_row_bytes(Form form, std::int64_t columns);

}  // namespace weft::cpu
