#include "grammar/schema/decimal.h"

#include <algorithm>
#include <vector>

#include "base/to_size.h"

namespace weft::grammar {
namespace {

constexpr int kMaxDigits = 400;

/// Adds what numbers without sign look like.
class Magnitudes {
 public:
  explicit Magnitudes(Builder& builder) : b_(builder) {}

  NodeId digit(char low, char high) {
    return b_.character(CharSet({{static_cast<char32_t>(low), static_cast<char32_t>(high)}}));
  }
  NodeId digits(int least, int most) { return b_.repeat(digit('0', '9'), least, most); }
  NodeId any_whole() {
    return b_.choice({b_.bytes("0"), b_.sequence({digit('1', '9'), digits(0, kUnlimited)})});
  }
  NodeId any_fraction() { return b_.optional(b_.sequence({b_.bytes("."), digits(1, kUnlimited)})); }
  NodeId any() { return b_.sequence({any_whole(), any_fraction()}); }
  NodeId zero() { return b_.sequence({b_.bytes("0"), zeros("")}); }

  NodeId above(const Decimal& d, bool or_equal) {
    std::vector<NodeId> choices = {b_.sequence({whole_above(d.whole), any_fraction()}),
                                   b_.sequence({b_.bytes(d.whole), fraction_above(d.fraction)})};
    if (or_equal) choices.push_back(b_.sequence({b_.bytes(d.whole), zeros(d.fraction)}));
    return b_.choice(choices);
  }
  NodeId below(const Decimal& d, bool or_equal) {
    std::vector<NodeId> choices = {b_.sequence({whole_below(d.whole), any_fraction()}),
                                   b_.sequence({b_.bytes(d.whole), fraction_below(d.fraction)})};
    if (or_equal) choices.push_back(b_.sequence({b_.bytes(d.whole), zeros(d.fraction)}));
    return b_.choice(choices);
  }

 private:
  int size_of(const std::string& text) { return static_cast<int>(text.size()); }

  NodeId whole_above(const std::string& whole) {
    const int n = size_of(whole);
    std::vector<NodeId> choices = {b_.sequence({digit('1', '9'), digits(n, kUnlimited)})};
    for (int i = 0; i < n; ++i) {
      const char c = whole[to_size(i)];
      if (c == '9') continue;
      choices.push_back(b_.sequence({b_.bytes(std::string_view(whole).substr(0, to_size(i))),
                                     digit(static_cast<char>(c + 1), '9'), digits(n - i - 1, n - i - 1)}));
    }
    return b_.choice(choices);
  }
  NodeId whole_below(const std::string& whole) {
    const int n = size_of(whole);
    std::vector<NodeId> choices;
    if (n > 1)
      choices.push_back(b_.choice({b_.bytes("0"), b_.sequence({digit('1', '9'), digits(0, n - 2)})}));
    for (int i = 0; i < n; ++i) {
      const char c = whole[to_size(i)], lowest = i == 0 && n > 1 ? '1' : '0';
      if (c <= lowest) continue;
      choices.push_back(b_.sequence({b_.bytes(std::string_view(whole).substr(0, to_size(i))),
                                     digit(lowest, static_cast<char>(c - 1)), digits(n - i - 1, n - i - 1)}));
    }
    return b_.choice(choices);
  }

  /// A fraction of the same value.
  NodeId zeros(const std::string& fraction) {
    const NodeId more = b_.repeat(b_.bytes("0"), fraction.empty() ? 1 : 0, kUnlimited);
    const NodeId written = b_.sequence({b_.bytes("." + fraction), more});
    return fraction.empty() ? b_.optional(written) : written;
  }
  NodeId fraction_above(const std::string& fraction) {
    std::vector<NodeId> choices = {
        b_.sequence({b_.bytes("." + fraction), b_.repeat(b_.bytes("0"), 0, kUnlimited), digit('1', '9'),
                     digits(0, kUnlimited)})};
    for (std::size_t i = 0; i < fraction.size(); ++i) {
      if (fraction[i] == '9') continue;
      choices.push_back(b_.sequence({b_.bytes("." + fraction.substr(0, i)),
                                     digit(static_cast<char>(fraction[i] + 1), '9'), digits(0, kUnlimited)}));
    }
    return b_.choice(choices);
  }
  NodeId fraction_below(const std::string& fraction) {
    std::vector<NodeId> choices;
    if (!fraction.empty()) choices.push_back(b_.empty());
    for (std::size_t i = 0; i < fraction.size(); ++i) {
      if (i > 0) choices.push_back(b_.bytes("." + fraction.substr(0, i)));
      if (fraction[i] == '0') continue;
      choices.push_back(b_.sequence({b_.bytes("." + fraction.substr(0, i)),
                                     digit('0', static_cast<char>(fraction[i] - 1)), digits(0, kUnlimited)}));
    }
    return b_.choice(choices);
  }

  Builder& b_;
};

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view number) {
  Decimal d;
  d.negative = number.starts_with('-');
  if (d.negative) number.remove_prefix(1);
  const std::size_t e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, e);
  int exponent = 0;
  if (e < number.size()) {
    std::string_view text = number.substr(e + 1);
    const bool minus = text.starts_with('-');
    if (minus || text.starts_with('+')) text.remove_prefix(1);
    for (const char c : text) exponent = std::min(kMaxDigits * 2, exponent * 10 + (c - '0'));
    if (minus) exponent = -exponent;
  }
  const std::size_t point = std::min(digits.find('.'), digits.size());
  std::string all(digits.substr(0, point));
  if (point < digits.size()) all += digits.substr(point + 1);
  if (all.size() > to_size(kMaxDigits) || std::abs(exponent) > kMaxDigits) return std::nullopt;
  int whole = static_cast<int>(point) + exponent;  // Digits before the point.
  if (whole < 0) {
    all.insert(0, to_size(-whole), '0');
    whole = 0;
  }
  if (whole > static_cast<int>(all.size())) all.append(to_size(whole) - all.size(), '0');
  d.whole = all.substr(0, to_size(whole));
  d.fraction = all.substr(to_size(whole));
  d.whole.erase(0, std::min(d.whole.find_first_not_of('0'), d.whole.size()));
  if (d.whole.empty()) d.whole = "0";
  const std::size_t last = d.fraction.find_last_not_of('0');
  d.fraction.resize(last == std::string::npos ? 0 : last + 1);
  if (d.is_zero()) d.negative = false;
  return d;
}

NodeId add_number(bool integer, bool plain, Builder& b) {
  Magnitudes m(b);
  std::vector<NodeId> parts = {b.optional(b.bytes("-")), m.any_whole()};
  if (!integer) parts.push_back(m.any_fraction());
  // Exponents up to 299: JSON readers would take larger numbers for infinity.
  if (!integer && !plain)
    parts.push_back(b.optional(
        b.sequence({b.character(CharSet({{'e', 'e'}, {'E', 'E'}})),
                    b.optional(b.character(CharSet({{'+', '+'}, {'-', '-'}}))),
                    b.choice({m.digits(1, 2), b.sequence({m.digit('0', '2'), m.digits(2, 2)})})})));
  return b.sequence(parts);
}

NodeId add_bounded(const Decimal& bound, bool exclusive, bool from_below, Builder& b) {
  Magnitudes m(b);
  const NodeId minus = b.bytes("-");
  const bool outwards = from_below != bound.negative;
  if (outwards) {
    // Numbers of the bound's sign that are at least as far from zero; of zero itself "-0" is one, too.
    const NodeId far = m.above(bound, !exclusive);
    if (bound.negative) return b.sequence({minus, far});
    return bound.is_zero() && !exclusive ? b.choice({far, b.sequence({minus, m.zero()})}) : far;
  }
  // All numbers of the other sign, and numbers of the bound's sign that are not farther from zero.
  const NodeId near = m.below(bound, !exclusive);
  if (bound.negative) return b.choice({m.any(), b.sequence({minus, near})});
  if (bound.is_zero())
    return b.choice({b.sequence({minus, exclusive ? m.above(bound, false) : m.any()}),
                     exclusive ? b.nothing() : m.zero()});
  return b.choice({near, b.sequence({minus, m.any()})});
}

std::optional<NodeId> add_multiple(const Decimal& step, Builder& b) {
  Magnitudes m(b);
  const NodeId sign = b.optional(b.bytes("-"));
  if (step.negative || step.is_zero()) return std::nullopt;
  const NodeId whole_only = b.optional(b.sequence({b.bytes("."), b.repeat(b.bytes("0"), 1, kUnlimited)}));
  if (step.fraction.empty() && (step.whole == "2" || step.whole == "5")) {
    const CharSet last = step.whole == "2"
                             ? CharSet({{'0', '0'}, {'2', '2'}, {'4', '4'}, {'6', '6'}, {'8', '8'}})
                             : CharSet({{'0', '0'}, {'5', '5'}});
    return b.sequence({sign, m.digits(0, kUnlimited), b.character(last), whole_only});
  }
  // Powers of ten.
  if (step.fraction.empty() && step.whole[0] == '1' &&
      step.whole.find_first_not_of('0', 1) == std::string::npos) {
    const auto zeros = static_cast<std::int32_t>(step.whole.size()) - 1;
    return b.choice(
        {b.sequence({sign, m.digits(1, kUnlimited), b.repeat(b.bytes("0"), zeros, zeros), whole_only}),
         b.sequence({sign, b.bytes("0"), whole_only})});
  }
  if (step.whole == "0" && step.fraction.find_first_not_of('0') == step.fraction.size() - 1 &&
      step.fraction.back() == '1') {
    const auto n = static_cast<std::int32_t>(step.fraction.size());
    return b.sequence(
        {sign, m.digits(1, kUnlimited), b.optional(b.sequence({b.bytes("."), m.digits(1, n)}))});
  }
  return std::nullopt;
}

}  // namespace weft::grammar
