// Filters of strings and numbers.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/to_size.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json.h"
#include "text/jinja/operators.h"
#include "text/jinja/strings.h"
#include "text/jinja/word_wrap.h"

namespace weft::text::jinja {
namespace {

using A = const Arguments&;
using I = Interpreter&;

template <Text (*kMap)(Budget&, const Text&)>
Value mapped(I interpreter, A arguments) {
  const Parameters given("filter", arguments, {"s"});
  return string(kMap(interpreter.budget(), to_text(interpreter.heap(), given[0])));
}

Value to_string(I interpreter, A arguments) {
  const Parameters given("string", arguments, {"value"});
  if (as_text(given[0])) return given[0];
  return string(to_text(interpreter.heap(), given[0]));
}

Value trim(I interpreter, A arguments) {
  const Parameters given("trim", arguments, {"value", "chars"});
  const Text text = to_text(interpreter.heap(), given[0]);
  std::optional<std::string_view> characters;
  if (!given.is_none(1)) characters = given.text(1).bytes();
  return string(strip(interpreter.budget(), text, Side::kBoth, characters));
}

Value replace_filter(I interpreter, A arguments) {
  const Parameters given("replace", arguments, {"s", "old", "new", "count"});
  Heap& heap = interpreter.heap();
  const std::size_t limit = given.is_none(3) || given.integer(3) < 0 ? kAll : to_size(given.integer(3));
  const Text text = to_text(heap, given[0]), what = to_text(heap, given[1]), with = to_text(heap, given[2]);
  return string(replace(heap.budget, text, what.bytes(), with, limit));
}

Text spaces(I interpreter, std::int64_t count) {
  if (count > static_cast<std::int64_t>(kMaxTextBytes)) throw Problem("too many spaces");
  const auto n = to_size(std::max<std::int64_t>(count, 0));
  interpreter.budget().spend_bytes(n);
  return {std::string(n, ' '), false};
}

Value indent(I interpreter, A arguments) {
  const Parameters given("indent", arguments, {"s", "width", "first", "blank"});
  Text text = given.text(0);
  const Text margin =
      given.has(1) && as_text(given[1]) ? given.text(1) : spaces(interpreter, given.integer(1, 4));
  // A trailing newline counts as one more, empty line, as in Jinja.
  text.append("\n", !text.empty() && text.from_template(text.size() - 1));
  const std::vector<Text> lines = split_lines(interpreter.budget(), text);
  Text out;
  if (given.flag(2)) out.append(margin);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    interpreter.budget().spend_bytes(lines[i].size() + margin.size());
    if (i > 0) out.append("\n", false);
    if (i > 0 && (given.flag(3) || !lines[i].empty())) out.append(margin);
    out.append(lines[i]);
  }
  return string(std::move(out));
}

Value center(I interpreter, A arguments) {
  const Parameters given("center", arguments, {"value", "width"});
  const Text text = to_text(interpreter.heap(), given[0]);
  const std::int64_t width = given.integer(1, 80);
  const auto size = static_cast<std::int64_t>(count_characters(text.bytes()));
  const std::int64_t n_missing = std::max<std::int64_t>(width - size, 0);
  const std::int64_t n_left =
      n_missing / 2 + (n_missing & width & 1);  // Python's way to halve an odd number.
  Text out = spaces(interpreter, n_left);
  out.append(text);
  out.append(spaces(interpreter, n_missing - n_left));
  return string(std::move(out));
}

Value truncate(I interpreter, A arguments) {
  const Parameters given("truncate", arguments, {"s", "length", "killwords", "end", "leeway"});
  // Jinja also accepts a list that is short enough.
  const std::size_t size = jinja::length(interpreter.heap(), given[0]);
  const Text end = given.has(3) ? given.text(3) : Text("...", false);
  const std::int64_t length = given.integer(1, 255), leeway = given.is_none(4) ? 5 : given.integer(4);
  const auto n_end = static_cast<std::int64_t>(count_characters(end.bytes()));
  if (length < n_end || leeway < 0) throw Problem("truncate: length or leeway is too small");
  if (static_cast<std::int64_t>(size) - leeway <= length) return given[0];
  const Text& text = given.text(0);
  Text kept = text.slice(0, character_position(text.bytes(), to_size(length - n_end)));
  const std::size_t space = kept.bytes().rfind(' ');
  if (!given.flag(2) && space != std::string_view::npos) kept = kept.slice(0, space);
  kept.append(end);
  return string(std::move(kept));
}

Value word_wrap(I interpreter, A arguments) {
  const Parameters given("wordwrap", arguments,
                         {"s", "width", "break_long_words", "wrapstring", "break_on_hyphens"});
  const WrapStyle style{given.integer(1, 79), !given.has(2) || given.flag(2), !given.has(4) || given.flag(4)};
  const Text between = given.is_none(3) ? Text("\n", false) : given.text(3);
  Text out;
  bool first = true;
  for (const Text& line : split_lines(interpreter.budget(), given.text(0))) {
    const auto add = [&](const Text& part) {
      if (!std::exchange(first, false)) out.append(between);
      out.append(part);
      interpreter.budget().spend_bytes(between.size() + part.size());
    };
    const std::vector<Text> parts = wrap_words(interpreter.budget(), line, style);
    if (parts.empty()) add({});
    for (const Text& part : parts) add(part);
  }
  return string(std::move(out));
}

Value word_count(I interpreter, A arguments) {
  const Parameters given("wordcount", arguments, {"s"});
  const Text text = to_text(interpreter.heap(), given[0]);
  interpreter.budget().spend(text.size() / 16);
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n_bytes = character_at(text.bytes(), i).n_bytes;
    const std::string_view character = text.bytes().substr(i, n_bytes);
    const bool was_inside = std::exchange(inside, character == "_" || is_alnum(character));
    count += inside && !was_inside ? 1 : 0;
    i += n_bytes;
  }
  return count;
}

Value escape(I interpreter, A arguments) {
  const Parameters given("escape", arguments, {"s"});
  const Text text = to_text(interpreter.heap(), given[0]);
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text.bytes()[i]) {
      case '&':
        out.append("&amp;", false);
        break;
      case '<':
        out.append("&lt;", false);
        break;
      case '>':
        out.append("&gt;", false);
        break;
      case '\'':
        out.append("&#39;", false);
        break;
      case '"':
        out.append("&#34;", false);
        break;
      default:
        out.append(text, i, i + 1);
    }
  }
  interpreter.budget().spend(out.size() / 16);
  return string(std::move(out));
}

Value format(I interpreter, A arguments) {
  if (arguments.positional.empty()) throw Problem("format() needs a string");
  Heap& heap = interpreter.heap();
  const Text pattern = to_text(heap, arguments.positional.front());
  if (!arguments.named.empty() && arguments.positional.size() > 1) {
    throw Problem("format() takes values by position or by name, not both");
  }
  if (arguments.named.empty()) {
    std::vector<Value> values(arguments.positional.begin() + 1, arguments.positional.end());
    return string(format_percent(heap, pattern, heap.list(std::move(values), ListKind::kTuple)));
  }
  Dict* values = heap.make<Dict>();
  for (const auto& [name, value] : arguments.named) set(heap, *values, name, value);
  return string(format_percent(heap, pattern, values));
}

// As transformers defines it: strings are not escaped for HTML or ASCII, and keys keep their order.
Value to_json_filter(I interpreter, A arguments) {
  const Parameters given("tojson", arguments, {"x", "ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii_only = given.flag(1);
  style.sorted = given.flag(4);
  if (!given.is_none(2)) {
    style.indented = true;
    style.item_separator = ",";
    const Text* text = as_text(given[2]);
    style.indent =
        text ? std::string(text->bytes()) : std::string(spaces(interpreter, given.integer(2)).bytes());
  }
  if (!given.is_none(3)) {
    const std::vector<Value> pair = items_of(interpreter.heap(), given[3]);
    if (pair.size() != 2 || !as_text(pair[0]) || !as_text(pair[1]))
      throw Problem("tojson: separators needs two strings");
    style.item_separator = as_text(pair[0])->bytes();
    style.key_separator = as_text(pair[1])->bytes();
  }
  return string(to_json(interpreter.heap(), given[0], style));
}

// Numbers

std::string without_spaces_and_underscores(I interpreter, const Text& text) {
  std::string bytes(strip(interpreter.budget(), text, Side::kBoth).bytes());
  const bool misplaced =
      bytes.starts_with('_') || bytes.ends_with('_') || bytes.find("__") != std::string::npos;
  if (!misplaced) std::erase(bytes, '_');
  if (bytes.starts_with('+') && !bytes.starts_with("+-")) bytes.erase(0, 1);
  return bytes;
}

std::optional<std::int64_t> parse_integer(I interpreter, const Text& text, std::int64_t base) {
  std::string bytes = without_spaces_and_underscores(interpreter, text);
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const bool minus = bytes.starts_with('-');
  std::string_view digits = std::string_view(bytes).substr(minus ? 1 : 0);
  const auto prefix = [&](char letter, int of_base) {
    const bool fits = (base == 0 || base == of_base) && digits.size() > 2 && digits[0] == '0' &&
                      (digits[1] == letter || digits[1] == letter - 32);
    if (fits) digits.remove_prefix(2);
    if (fits) base = of_base;
  };
  prefix('x', 16);
  prefix('o', 8);
  prefix('b', 2);
  const std::string number = (minus ? "-" : "") + std::string(digits);
  if (digits.starts_with('-')) return std::nullopt;
  std::int64_t value = 0;
  const auto end = std::from_chars(number.data(), number.data() + number.size(), value,
                                   base == 0 ? 10 : static_cast<int>(base));
  if (end.ptr != number.data() + number.size()) return std::nullopt;
  if (end.ec == std::errc::result_out_of_range) fail_overflow();
  return end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<double> parse_float(I interpreter, const Text& text) {
  const std::string bytes = without_spaces_and_underscores(interpreter, text);
  double value = 0.0;
  const auto end = std::from_chars(bytes.data(), bytes.data() + bytes.size(), value);
  if (end.ec != std::errc() || end.ptr != bytes.data() + bytes.size()) return std::nullopt;
  return value;
}

void require_defined(const Value& value) {
  const auto* missing = std::get_if<Undefined>(&value);
  if (missing) throw Problem(missing->what ? *missing->what : "a value is undefined");
}

Value to_int(I interpreter, A arguments) {
  const Parameters given("int", arguments, {"value", "default", "base"});
  require_defined(given[0]);
  std::optional<std::int64_t> result = as_integer(given[0]);
  if (const Text* text = as_text(given[0])) {
    result = parse_integer(interpreter, *text, given.integer(2, 10));
    if (const auto number = result ? std::nullopt : parse_float(interpreter, *text))
      result = truncated(*number);
  } else if (const auto number = result ? std::nullopt : as_number(given[0])) {
    if (std::isinf(*number)) fail_overflow();
    result = truncated(*number);
  }
  return result ? Value(*result) : given.get(1, std::int64_t{0});
}

Value to_float(I interpreter, A arguments) {
  const Parameters given("float", arguments, {"value", "default"});
  require_defined(given[0]);
  std::optional<double> result = as_number(given[0]);
  if (const Text* text = as_text(given[0])) result = parse_float(interpreter, *text);
  return result ? Value(*result) : given.get(1, 0.0);
}

Value absolute(I, A arguments) {
  const Parameters given("abs", arguments, {"x"});
  if (const auto number = as_integer(given[0])) return *number < 0 ? negative(*number) : Value(*number);
  const auto number = as_number(given[0]);
  if (!number) throw Problem("bad operand type for abs(): '" + std::string(type_name(given[0])) + "'");
  return std::fabs(*number);
}

// Python rounds the exact decimal value, halves to even; so does printf.
double round_exactly(double value, int precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < 0) {
    const double unit = std::pow(10.0, -precision);
    return std::nearbyint(value / unit) * unit;
  }
  std::array<char, 700> digits;
  std::snprintf(digits.data(), digits.size(), "%.*f", precision, value);
  return std::strtod(digits.data(), nullptr);
}

Value round_filter(I, A arguments) {
  const Parameters given("round", arguments, {"value", "precision", "method"});
  const int precision = static_cast<int>(std::clamp<std::int64_t>(given.integer(1, 0), -400, 400));
  const std::string_view method = given.has(2) ? given.text(2).bytes() : "common";
  const auto number = as_number(given[0]);
  if (!number) throw Problem("round needs a number");
  if (method == "common") {
    if (const auto whole = as_integer(given[0]); whole && precision >= 0) return *whole;
    const double rounded = round_exactly(*number, precision);
    if (as_integer(given[0])) return *truncated(rounded);
    return rounded;
  }
  if (method != "ceil" && method != "floor") throw Problem("round: method must be common, ceil or floor");
  const double scale = std::pow(10.0, precision);
  return (method == "ceil" ? std::ceil(*number * scale) : std::floor(*number * scale)) / scale;
}

/// 1.5 kB, 2.0 MiB: in thousands, or with `binary` in powers of 1024.
Value file_size(I interpreter, A arguments) {
  const Parameters given("filesizeformat", arguments, {"value", "binary"});
  std::optional<double> bytes = as_number(given[0]);
  if (const Text* text = as_text(given[0])) bytes = parse_float(interpreter, *text);
  if (!bytes) throw Problem("filesizeformat needs a number");
  const bool binary = given.flag(1);
  const double base = binary ? 1024.0 : 1000.0;
  std::array<char, 400> out;
  if (*bytes < base) {
    const auto whole = truncated(*bytes);
    if (!whole) throw Problem("filesizeformat needs a number of bytes");
    return computed(*bytes == 1.0 ? "1 Byte" : std::to_string(*whole) + " Bytes");
  }
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  std::size_t i = 0;
  double unit = base;
  for (; i + 1 < kPrefixes.size() && !(*bytes < unit * base); ++i) unit *= base;
  const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
  std::snprintf(out.data(), out.size(), "%.1f %c%s", *bytes / unit, prefix, binary ? "iB" : "B");
  return computed(out.data());
}

constexpr FilterEntry kTextFilters[] = {
    {"upper", mapped<upper>},
    {"lower", mapped<lower>},
    {"capitalize", mapped<capitalize>},
    {"title", mapped<title_words>},
    {"trim", trim},
    {"replace", replace_filter},
    {"indent", indent},
    {"center", center},
    {"truncate", truncate},
    {"wordcount", word_count},
    {"wordwrap", word_wrap},
    {"format", format},
    {"tojson", to_json_filter},
    {"string", to_string},
    {"safe", to_string},  // There is no autoescape, so nothing needs marking as safe.
    {"escape", escape},
    {"e", escape},
    {"forceescape", escape},
};
constexpr FilterEntry kNumberFilters[] = {{"int", to_int},
                                          {"float", to_float},
                                          {"abs", absolute},
                                          {"round", round_filter},
                                          {"filesizeformat", file_size}};

}  // namespace

std::span<const FilterEntry> text_filters() { return kTextFilters; }
std::span<const FilterEntry> number_filters() { return kNumberFilters; }

}  // namespace weft::text::jinja
