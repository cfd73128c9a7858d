#include "api/ollama/keep_alive.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>

#include "api/error.h"

namespace weft::server {
namespace {

/// Longer times have no end: ten years.
constexpr double kMostMs = 3.2e11;

/// In milliseconds. Nullopt for an unknown unit.
std::optional<double> ms_of_unit(std::string_view unit) {
  constexpr std::array<std::pair<std::string_view, double>, 8> kUnits = {{{"ns", 1e-6},
                                                                          {"us", 1e-3},
                                                                          {"\u00b5s", 1e-3},
                                                                          {"ms", 1.0},
                                                                          {"", 1e3},
                                                                          {"s", 1e3},
                                                                          {"m", 6e4},
                                                                          {"h", 3.6e6}}};
  for (const auto& [name, ms] : kUnits)
    if (name == unit) return ms;
  return std::nullopt;
}

/// The milliseconds of "1h30m", "-1" or "2.5s". Nullopt for other strings.
std::optional<double> parse_time(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double ms = 0.0;
  while (!text.empty()) {
    const std::size_t n_digits = std::min(text.find_first_not_of("0123456789."), text.size());
    double number = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + n_digits, number);
    if (error != std::errc{} || end != text.data() + n_digits) return std::nullopt;
    text.remove_prefix(n_digits);
    const std::size_t n_unit = std::min(text.find_first_of("0123456789."), text.size());
    const auto unit = ms_of_unit(text.substr(0, n_unit));
    if (!unit) return std::nullopt;
    ms += number * *unit;
    text.remove_prefix(n_unit);
  }
  return is_negative ? -ms : ms;
}

}  // namespace

KeepAlive read_keep_alive(Fields& fields) {
  const Json* const value = fields.find("keep_alive");
  if (value == nullptr || *value == "") return {};
  std::optional<double> ms;
  if (value->is_number())
    ms = 1e3 * value->get<double>();
  else if (value->is_string())
    ms = parse_time(value->get_ref<const std::string&>());
  if (!ms)
    throw bad_request(fields.path_of("keep_alive"),
                      fmt::format("'{}' must be seconds, or a time such as \"5m\"; -1 keeps the model loaded",
                                  fields.path_of("keep_alive")));
  if (*ms < 0.0 || *ms > kMostMs) return {.is_given = true};
  return {.is_given = true, .time = std::chrono::milliseconds(static_cast<std::int64_t>(*ms))};
}

}  // namespace weft::server
