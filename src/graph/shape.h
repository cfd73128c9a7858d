#pragma once
// Shapes whose dimensions may be symbols. A graph is built once with symbols ("n_tokens" in [1, 512]); each
// step gives them values, and memory is laid out for their upper bounds.
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace weft {

/// An index into a graph's symbols.
using SymbolId = std::int32_t;
inline constexpr SymbolId kNoSymbol = -1;

struct Symbol {
  std::string name;
  std::int64_t min = 0;
  std::int64_t max = 0;
};

/// A constant (no symbol) or factor * symbol.
struct Dim {
  std::int64_t factor = 1;
  SymbolId symbol = kNoSymbol;

  Dim() = default;
  Dim(std::int64_t constant) : factor(constant) {}  // NOLINT: a number is a dimension
  Dim(std::int64_t factor_, SymbolId symbol_) : factor(factor_), symbol(symbol_) {}

  bool is_constant() const { return symbol == kNoSymbol; }
  /// With the values of all symbols of the graph.
  std::int64_t value(std::span<const std::int64_t> symbols) const {
    return is_constant() ? factor : factor * symbols[static_cast<std::size_t>(symbol)];
  }
  friend bool operator==(const Dim&, const Dim&) = default;
};

/// 0 to 4 dimensions, outermost first: a matrix is {rows, columns}, and columns lie next to each other in
/// memory.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<Dim> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  const Dim& operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  /// All dimensions as numbers.
  std::vector<std::int64_t> dims(std::span<const std::int64_t> symbols) const;
  const Dim& back() const { return dims_[static_cast<std::size_t>(rank_ - 1)]; }

  /// The columns, constant in all that has rows, and the product of all other dimensions.
  std::int64_t columns() const { return rank_ == 0 ? 1 : back().factor; }
  std::int64_t rows(std::span<const std::int64_t> symbols) const;
  std::int64_t elements(std::span<const std::int64_t> symbols) const;
  /// rows() as one dimension: a shape has at most one symbol.
  Dim row_dim() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<Dim, kMaxRank> dims_;
  int rank_ = 0;
};

std::string to_string(const Shape& shape, std::span<const Symbol> symbols);

}  // namespace weft
