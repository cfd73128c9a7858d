#include "weft/graph/shape.h"

#include <algorithm>
#include <compare>
#include <limits>

#include "base/check.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft {
namespace {

/// Parts of an expression at most. A quotient counts the parts of its dividend at every place. Otherwise
/// nested sums of two quotients would take exponential time.
constexpr std::size_t kMaxParts = 512;

[[noreturn]] void refuse_size() { throw Error(ErrorCode::kInvalidArgument, "a dimension exceeds 64 bits"); }
std::int64_t checked(bool overflow, std::int64_t result) {
  if (overflow) refuse_size();
  return result;
}
std::size_t checked_parts(std::size_t parts) {
  if (parts > kMaxParts)
    throw Error(ErrorCode::kInvalidArgument, "a dimension has more than " + std::to_string(kMaxParts) +
                                                 " parts; use a symbol for some of them");
  return parts;
}
std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  const bool overflow = __builtin_add_overflow(a, b, &result);
  return checked(overflow, result);
}
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &result);
  return checked(overflow, result);
}
std::int64_t floor_quotient(std::int64_t a, std::int64_t divisor) {
  return a / divisor - (a % divisor < 0 ? 1 : 0);
}

}  // namespace

/// A sum of terms in the order of their factors' atoms, none with the atoms of another, none of 0.
struct Dim::Expression {
  /// A symbol, or the quotient of an expression that no multiple of the divisor can be taken out of.
  struct Atom {
    SymbolId symbol = kNoSymbol;
    std::shared_ptr<const Expression> numerator;
    std::int64_t divisor = 1;
    friend std::strong_ordering operator<=>(const Atom& a, const Atom& b) {
      if (a.symbol != b.symbol) return a.symbol <=> b.symbol;
      if (a.divisor != b.divisor) return a.divisor <=> b.divisor;
      if (a.numerator == b.numerator) return std::strong_ordering::equal;
      if (a.numerator == nullptr || b.numerator == nullptr)
        return (a.numerator != nullptr) <=> (b.numerator != nullptr);
      return *a.numerator <=> *b.numerator;
    }
    friend bool operator==(const Atom& a, const Atom& b) { return (a <=> b) == 0; }
  };
  struct Term {
    std::vector<Atom> atoms;  // In order; a constant has none.
    std::int64_t factor = 0;
    friend std::strong_ordering operator<=>(const Term& a, const Term& b) = default;
  };
  std::vector<Term> terms;
  std::size_t parts = 0;  // The cost of evaluating a finished expression.

  /// To be called when all terms are there.
  void count() {
    parts = 0;
    for (const Term& term : terms) {
      ++parts;
      for (const Atom& atom : term.atoms)
        parts = checked_parts(parts + 1 + (atom.numerator != nullptr ? atom.numerator->parts : 0));
    }
  }
  friend std::strong_ordering operator<=>(const Expression& a, const Expression& b) {
    return a.terms <=> b.terms;
  }
  friend bool operator==(const Expression& a, const Expression& b) { return a.terms == b.terms; }

  void add(std::vector<Atom> atoms, std::int64_t factor) {
    const auto at = std::lower_bound(terms.begin(), terms.end(), atoms,
                                     [](const Term& term, const auto& key) { return term.atoms < key; });
    if (at == terms.end() || at->atoms != atoms) {
      if (factor != 0) terms.insert(at, {std::move(atoms), factor});
      checked_parts(terms.size());
      return;
    }
    at->factor = sum(at->factor, factor);
    if (at->factor == 0) terms.erase(at);
  }
};

std::int64_t Dim::value_of(const Expression& expression, std::span<const std::int64_t> symbols) {
  std::int64_t total = 0;
  for (const Expression::Term& term : expression.terms) {
    std::int64_t value = term.factor;
    for (const Expression::Atom& atom : term.atoms)
      value = product(value, atom.numerator != nullptr
                                 ? floor_quotient(value_of(*atom.numerator, symbols), atom.divisor)
                                 : symbols[to_size(atom.symbol)]);
    total = sum(total, value);
  }
  return total;
}

Dim::Expression Dim::expand(const Dim& dim) {
  if (dim.expression_ != nullptr) return *dim.expression_;
  Expression result;
  if (dim.symbol_ == kNoSymbol) {
    result.add({}, dim.factor_);
  } else if (dim.symbol_ < 0) {
    throw Error(ErrorCode::kInvalidArgument, "a dimension has an unknown symbol");
  } else {
    result.add({{.symbol = dim.symbol_, .numerator = nullptr, .divisor = 1}}, dim.factor_);
  }
  return result;
}

Dim Dim::shrink(Expression expression) {
  if (expression.terms.empty()) return {0};
  const Expression::Term& first = expression.terms.front();
  if (expression.terms.size() == 1 && first.atoms.empty()) return {first.factor};
  if (expression.terms.size() == 1 && first.atoms.size() == 1 && first.atoms.front().numerator == nullptr)
    return {first.factor, first.atoms.front().symbol};
  expression.count();
  Dim result;
  result.expression_ = std::make_shared<const Expression>(std::move(expression));
  return result;
}

void Dim::too_large() { refuse_size(); }

std::int64_t Dim::constant() const {
  WEFT_CHECK(is_constant());
  return factor_;
}

bool Dim::uses(SymbolId symbol) const {
  if (expression_ == nullptr) return symbol_ == symbol;
  return std::any_of(expression_->terms.begin(), expression_->terms.end(), [&](const auto& term) {
    return std::any_of(term.atoms.begin(), term.atoms.end(), [&](const Expression::Atom& atom) {
      return atom.numerator != nullptr ? shrink(*atom.numerator).uses(symbol) : atom.symbol == symbol;
    });
  });
}

SymbolId Dim::last_symbol() const {
  if (expression_ == nullptr) return symbol_;
  SymbolId last = kNoSymbol;
  for (const Expression::Term& term : expression_->terms)
    for (const Expression::Atom& atom : term.atoms)
      last = std::max(last, atom.numerator != nullptr ? shrink(*atom.numerator).last_symbol() : atom.symbol);
  return last;
}

std::optional<std::int64_t> Dim::multiple_of(const Dim& other) const {
  if (!is_expression() && !other.is_expression()) {
    if (factor_ == 0 || other.factor_ == 0 || symbol_ != other.symbol_ || factor_ % other.factor_ != 0)
      return std::nullopt;
    return factor_ / other.factor_;
  }
  const Expression a = expand(*this), b = expand(other);
  if (a.terms.size() != b.terms.size() || b.terms.empty()) return std::nullopt;
  const std::int64_t times = a.terms.front().factor / b.terms.front().factor;
  for (std::size_t i = 0; i < a.terms.size(); ++i)
    if (a.terms[i].atoms != b.terms[i].atoms || a.terms[i].factor != times * b.terms[i].factor)
      return std::nullopt;
  return times;
}

Dim Dim::with(std::span<const Dim> symbols) const {
  if (is_constant()) return *this;
  Dim total = 0;
  for (const Expression::Term& term : expand(*this).terms) {
    Dim value = term.factor;
    for (const Expression::Atom& atom : term.atoms)
      value = value * (atom.numerator != nullptr ? shrink(*atom.numerator).with(symbols) / atom.divisor
                                                 : symbols[to_size(atom.symbol)]);
    total = total + value;
  }
  return total;
}

// A size is the number of its terms. A term is its factor and the number of its atoms. An atom is a divisor
// and its dividend, or 0 and a symbol.
void Dim::encode(std::vector<std::int64_t>& code) const {
  const Expression sum_of = expand(*this);
  code.push_back(static_cast<std::int64_t>(sum_of.terms.size()));
  for (const Expression::Term& term : sum_of.terms) {
    code.push_back(term.factor);
    code.push_back(static_cast<std::int64_t>(term.atoms.size()));
    for (const Expression::Atom& atom : term.atoms) {
      if (atom.numerator == nullptr) {
        code.insert(code.end(), {0, atom.symbol});
      } else {
        code.push_back(atom.divisor);
        shrink(*atom.numerator).encode(code);
      }
    }
  }
}

Dim Dim::decode(std::span<const std::int64_t>& code) {
  const auto take = [&] {
    if (code.empty()) throw Error(ErrorCode::kInvalidArgument, "the code of a dimension ends early");
    const std::int64_t number = code.front();
    code = code.subspan(1);
    return number;
  };
  const auto one = [&](const auto& self, std::size_t depth) -> Dim {
    checked_parts(depth);
    Dim total = 0;
    for (std::int64_t terms = take(); terms > 0; --terms) {
      Dim value = take();
      for (std::int64_t atoms = take(); atoms > 0; --atoms) {
        const std::int64_t divisor = take();
        if (divisor != 0) {
          value = value * (self(self, depth + 1) / divisor);
          continue;
        }
        const std::int64_t symbol = take();
        if (symbol < 0 || symbol > std::numeric_limits<SymbolId>::max())
          throw Error(ErrorCode::kInvalidArgument, "the code of a dimension has an unknown symbol");
        value = value * Dim(1, static_cast<SymbolId>(symbol));
      }
      total = total + value;
    }
    return total;
  };
  return one(one, 0);
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return sum(a.factor_, b.factor_);
  Dim::Expression result = Dim::expand(a);
  for (Dim::Expression::Term& term : Dim::expand(b).terms) result.add(std::move(term.atoms), term.factor);
  return Dim::shrink(std::move(result));
}

Dim operator-(const Dim& a, const Dim& b) {
  Dim::Expression result = Dim::expand(a);
  for (Dim::Expression::Term& term : Dim::expand(b).terms)
    result.add(std::move(term.atoms), product(term.factor, -1));
  if (!b.is_constant())
    for (const Dim::Expression::Term& term : result.terms)
      if (term.factor < 0 && !term.atoms.empty())
        throw Error(ErrorCode::kInvalidArgument,
                    "a dimension would shrink where a symbol grows: subtract constants, or what the other "
                    "side has");
  return Dim::shrink(std::move(result));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (b.is_constant() && !a.is_expression()) return {product(a.factor_, b.factor_), a.symbol_};
  if (a.is_constant() && !b.is_expression()) return {product(a.factor_, b.factor_), b.symbol_};
  Dim::Expression result;
  const Dim::Expression left = Dim::expand(a), right = Dim::expand(b);
  for (const Dim::Expression::Term& x : left.terms)
    for (const Dim::Expression::Term& y : right.terms) {
      std::vector<Dim::Expression::Atom> atoms = x.atoms;
      atoms.insert(atoms.end(), y.atoms.begin(), y.atoms.end());
      std::sort(atoms.begin(), atoms.end());
      result.add(std::move(atoms), product(x.factor, y.factor));
    }
  return Dim::shrink(std::move(result));
}

Dim operator/(const Dim& a, std::int64_t divisor) {
  if (divisor <= 0)
    throw Error(ErrorCode::kInvalidArgument, "a dimension can be divided by numbers above 0 only");
  // Multiples of the divisor are factored out: (6n + 5) / 3 is 2n + 1 + (0n + 2) / 3.
  Dim::Expression whole, rest;
  for (Dim::Expression::Term& term : Dim::expand(a).terms) {
    const std::int64_t remainder = term.factor - floor_quotient(term.factor, divisor) * divisor;
    const std::int64_t times = (term.factor - remainder) / divisor;
    if (term.atoms.empty() || remainder == 0) {
      whole.add(term.atoms, times);
      rest.add(std::move(term.atoms), remainder);
    } else {
      rest.add(std::move(term.atoms), term.factor);
    }
  }
  const bool is_constant = rest.terms.empty() || (rest.terms.size() == 1 && rest.terms.front().atoms.empty());
  if (!is_constant) {
    rest.count();
    auto numerator = std::make_shared<const Dim::Expression>(std::move(rest));
    whole.add({{.symbol = kNoSymbol, .numerator = std::move(numerator), .divisor = divisor}}, 1);
  }
  return Dim::shrink(std::move(whole));
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.expression_ == nullptr || b.expression_ == nullptr)
    return a.expression_ == b.expression_ && a.factor_ == b.factor_ && a.symbol_ == b.symbol_;
  return a.expression_ == b.expression_ || *a.expression_ == *b.expression_;
}

namespace {

/// The name of a symbol, which may belong to another graph.
std::string name_of(std::span<const Symbol> symbols, SymbolId symbol) {
  return symbol >= 0 && to_size(symbol) < symbols.size() ? symbols[to_size(symbol)].name : "?";
}

}  // namespace

std::string to_string(const Dim& dim, std::span<const Symbol> symbols) {
  std::string text;
  const Dim::Expression sum_of = Dim::expand(dim);
  // Symbols first, the constant last.
  std::vector<const Dim::Expression::Term*> order;
  for (const auto& term : sum_of.terms) order.push_back(&term);
  std::stable_partition(order.begin(), order.end(), [](const auto* term) { return !term->atoms.empty(); });
  for (const Dim::Expression::Term* term : order) {
    std::int64_t factor = term->factor;
    if (!text.empty()) {
      text += factor < 0 ? " - " : " + ";
      factor = std::abs(factor);
    }
    if (term->atoms.empty() || factor != 1) text += std::to_string(factor);
    bool first = term->atoms.empty() || factor == 1;
    for (const Dim::Expression::Atom& atom : term->atoms) {
      if (!first) text += "*";
      first = false;
      text += atom.numerator == nullptr ? name_of(symbols, atom.symbol)
                                        : "((" + to_string(Dim::shrink(*atom.numerator), symbols) + ") / " +
                                              std::to_string(atom.divisor) + ")";
    }
  }
  return text.empty() ? "0" : text;
}

namespace {

void check_rank(std::size_t rank) {
  if (rank > to_size(Shape::kMaxRank))
    throw Error(ErrorCode::kInvalidArgument, "a shape has at most 4 dimensions, got " + std::to_string(rank));
}

}  // namespace

Shape::Shape(std::initializer_list<Dim> dims) : rank_(static_cast<int>(dims.size())) {
  check_rank(dims.size());
  std::size_t i = 0;
  for (const Dim& dim : dims) dims_[i++] = dim;
}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  check_rank(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
}

Shape::Shape(std::span<const Dim> dims) : rank_(static_cast<int>(dims.size())) {
  check_rank(dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

std::int64_t Shape::rows(std::span<const std::int64_t> symbols) const {
  std::int64_t product = 1;
  for (int i = 0; i + 1 < rank_; ++i) product *= (*this)[i].value(symbols);
  return product;
}

std::int64_t Shape::elements(std::span<const std::int64_t> symbols) const {
  return rank_ == 0 ? 1 : rows(symbols) * back().value(symbols);
}

Dim Shape::row_dim() const {
  Dim product = 1;
  for (int i = 0; i + 1 < rank_; ++i) product = product * (*this)[i];
  return product;
}

bool operator==(const Shape& a, const Shape& b) {
  if (a.rank_ != b.rank_) return false;
  for (int i = 0; i < a.rank_; ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}

std::vector<std::int64_t> Shape::dims(std::span<const std::int64_t> symbols) const {
  std::vector<std::int64_t> result;
  for (int i = 0; i < rank_; ++i) result.push_back((*this)[i].value(symbols));
  return result;
}

std::string to_string(const Shape& shape, std::span<const Symbol> symbols) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ", ";
    text += to_string(shape[i], symbols);
  }
  return text + "]";
}

}  // namespace weft
