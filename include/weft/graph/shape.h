// Since 0.1
#pragma once
// Shapes with symbolic dimensions, such as "n_tokens" in [1, 512]. Each step gives symbols their values.
// Memory is reserved for the upper bounds.
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

/// An index into a graph's symbols.
using SymbolId = std::int32_t;
inline constexpr SymbolId kNoSymbol = -1;

/// The largest upper bound of a symbol. It keeps products of a few sizes within 64 bits, so that they fail
/// with an out-of-memory error and not by overflow.
inline constexpr std::int64_t kMaxSymbol = std::int64_t{1} << 31;

struct Symbol {
  std::string name;
  std::int64_t min = 0;
  std::int64_t max = 0;
  friend bool operator==(const Symbol&, const Symbol&) = default;
};

/// A size: a constant, a symbol, or an expression such as 2 * n, n + m or (n + 2 * p - k) / s + 1. Sums and
/// products have a normal form, so equal sizes compare equal.
///
/// Memory is reserved for the upper bounds of all symbols, so a size must not grow when a symbol shrinks.
/// Differences that might do so are refused. Products with negative constants are checked in each step.
class Dim {
 public:
  Dim() = default;                                   ///< 1
  Dim(std::int64_t constant) : factor_(constant) {}  // NOLINT: a number is a dimension
  Dim(std::int64_t factor, SymbolId symbol) : factor_(factor), symbol_(factor == 0 ? kNoSymbol : symbol) {}

  bool is_constant() const { return expression_ == nullptr && symbol_ == kNoSymbol; }
  /// The value of a constant size.
  std::int64_t constant() const;
  /// The value for these values of the graph's symbols. Throws Error kInvalidArgument on 64-bit overflow.
  std::int64_t value(std::span<const std::int64_t> symbols) const {
    if (expression_ != nullptr) return value_of(*expression_, symbols);
    if (symbol_ == kNoSymbol) return factor_;
    std::int64_t result = 0;
    if (__builtin_mul_overflow(factor_, symbols[static_cast<std::size_t>(symbol_)], &result)) too_large();
    return result;
  }
  /// Whether it is neither a constant nor a multiple of one symbol.
  bool is_expression() const { return expression_ != nullptr; }
  bool uses(SymbolId symbol) const;
  /// The highest id of its symbols, or kNoSymbol.
  SymbolId last_symbol() const;
  /// This size / `other`, if that is a whole number for all values of the symbols.
  std::optional<std::int64_t> multiple_of(const Dim& other) const;
  /// The same with each symbol s replaced by `symbols[s]`.
  Dim with(std::span<const Dim> symbols) const;
  /// Appends the size to `code` as numbers, to send it to another process.
  void encode(std::vector<std::int64_t>& code) const;
  /// Reads a size that `encode` wrote, and removes it from the front of `code`. Throws Error kInvalidArgument
  /// if there is none.
  static Dim decode(std::span<const std::int64_t>& code);

  // These throw Error kInvalidArgument for 64-bit overflow and for results with more than some hundred parts
  // (symbols and quotients), as each step computes their values.
  friend Dim operator+(const Dim& a, const Dim& b);
  /// Also throws if the difference might shrink when a symbol grows.
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  /// Rounded down. Also throws if `divisor` is not above 0.
  friend Dim operator/(const Dim& a, std::int64_t divisor);
  friend bool operator==(const Dim& a, const Dim& b);
  friend std::string to_string(const Dim& dim, std::span<const Symbol> symbols);

 private:
  struct Expression;
  static std::int64_t value_of(const Expression& expression, std::span<const std::int64_t> symbols);
  static Expression expand(const Dim& dim);
  static Dim shrink(Expression expression);
  [[noreturn]] static void too_large();

  // A constant, or a multiple of a symbol; all else is an expression, which is never one of these.
  std::int64_t factor_ = 1;
  SymbolId symbol_ = kNoSymbol;
  std::shared_ptr<const Expression> expression_;
};
// Declared again here: a library does not export a function that is only a friend.
Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);
Dim operator/(const Dim& a, std::int64_t divisor);
bool operator==(const Dim& a, const Dim& b);
std::string to_string(const Dim& dim, std::span<const Symbol> symbols);

/// 0 to 4 dimensions, outermost first: a matrix is {rows, columns}, and columns lie next to each other in
/// memory.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<Dim> dims);
  explicit Shape(std::span<const std::int64_t> dims);
  explicit Shape(std::span<const Dim> dims);

  int rank() const { return rank_; }
  const Dim& operator[](int i) const& { return dims_[static_cast<std::size_t>(i)]; }
  Dim operator[](int i) && { return std::move(dims_[static_cast<std::size_t>(i)]); }
  /// All dimensions as numbers.
  std::vector<std::int64_t> dims(std::span<const std::int64_t> symbols) const;
  const Dim& back() const& { return (*this)[rank_ - 1]; }
  Dim back() && { return std::move(*this)[rank_ - 1]; }

  /// A shape as a matrix: columns() is the last dimension, which must be constant, and rows() the product of
  /// the others.
  std::int64_t columns() const { return rank_ == 0 ? 1 : back().constant(); }
  std::int64_t rows(std::span<const std::int64_t> symbols) const;
  std::int64_t elements(std::span<const std::int64_t> symbols) const;
  /// rows() as one dimension.
  Dim row_dim() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<Dim, kMaxRank> dims_;
  int rank_ = 0;
};

bool operator==(const Shape& a, const Shape& b);
std::string to_string(const Shape& shape, std::span<const Symbol> symbols);

}  // namespace weft

#pragma GCC visibility pop
