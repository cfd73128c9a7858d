#pragma once
// Python's string methods on Text. All keep the origin of every byte; inserted bytes (padding) count as not
// from the template. All take time linear in their input and output, find() included, and spend it from the
// budget. Positions are in bytes.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/limits.h"
#include "text/jinja/text.h"

namespace weft::text::jinja {

inline constexpr std::size_t kNotFound = SIZE_MAX;
/// As many as there are.
inline constexpr std::size_t kAll = SIZE_MAX;

std::size_t find(Budget& budget, std::string_view text, std::string_view what, std::size_t from = 0);
std::size_t find_last(Budget& budget, std::string_view text, std::string_view what);
/// Start positions of occurrences that do not overlap, from the left; an empty `what` is found before each
/// character and at the end.
std::vector<std::size_t> find_all(Budget& budget, std::string_view text, std::string_view what,
                                  std::size_t limit = kAll);

enum class Side { kLeft, kRight, kBoth };
/// Without `characters`: white space.
Text strip(Budget& budget, const Text& text, Side side, std::optional<std::string_view> characters = {});
Text replace(Budget& budget, const Text& text, std::string_view what, const Text& with,
             std::size_t limit = kAll);
std::vector<Text> split(Budget& budget, const Text& text, std::string_view separator,
                        std::size_t limit = kAll);
std::vector<Text> split_last(Budget& budget, const Text& text, std::string_view separator,
                             std::size_t limit = kAll);
std::vector<Text> split_at_space(Budget& budget, const Text& text, std::size_t limit = kAll);
std::vector<Text> split_last_at_space(Budget& budget, const Text& text, std::size_t limit = kAll);
std::vector<Text> split_lines(Budget& budget, const Text& text, bool keep_ends = false);

Text upper(Budget& budget, const Text& text);
Text lower(Budget& budget, const Text& text);
Text capitalize(Budget& budget, const Text& text);
Text swap_case(Budget& budget, const Text& text);
/// A capital at the start of each run of letters (Python's str.title).
Text title(Budget& budget, const Text& text);
/// A capital after white space and ( { [ < - only (Jinja's filter title).
Text title_words(Budget& budget, const Text& text);

bool is_upper(std::string_view text);
bool is_lower(std::string_view text);
bool is_digit(std::string_view text);
bool is_alpha(std::string_view text);
bool is_alnum(std::string_view text);
bool is_blank(std::string_view text);

}  // namespace weft::text::jinja
