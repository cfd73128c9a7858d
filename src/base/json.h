#pragma once
// Parses JSON of strangers in linear time. A check against a budget comes first, then a plain parse:
// nlohmann's callback parser is quadratic in the length of arrays.
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weft::base {

/// Limits of what parsing costs. Documents that share a budget spend it together. No limit counts time.
struct JsonBudget {
  std::size_t depth = 64;                                          ///< Of each document.
  std::size_t n_values = std::numeric_limits<std::size_t>::max();  ///< Values that are left.
  std::size_t n_comparisons =
      std::numeric_limits<std::size_t>::max();  ///< Comparisons of keys that are left.
};

/// The reason why a document is refused: "invalid JSON at byte 12".
struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace json_impl {

/// Walks a document and builds nothing. Ordered objects compare a new key with each earlier one.
template <typename Json>
class Check final : public nlohmann::json_sax<Json> {
 public:
  using Base = nlohmann::json_sax<Json>;
  explicit Check(JsonBudget& budget) : budget_(budget) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(typename Base::number_integer_t) override { return value(); }
  bool number_unsigned(typename Base::number_unsigned_t) override { return value(); }
  bool number_float(typename Base::number_float_t, const typename Base::string_t&) override {
    return value();
  }
  bool string(typename Base::string_t&) override { return value(); }
  bool binary(typename Base::binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(typename Base::string_t&) override {
    const std::size_t n_earlier = n_members_.back()++;
    if (n_earlier > budget_.n_comparisons) throw JsonError("an object has too many members");
    budget_.n_comparisons -= n_earlier;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    const bool is_number = dynamic_cast<const nlohmann::detail::out_of_range*>(&error) != nullptr;
    const bool is_half = std::string_view(error.what()).find("surrogate") != std::string_view::npos;
    throw JsonError((is_number ? "the number " + token.substr(0, 40) + " is out of range" : "invalid JSON") +
                    " at byte " + std::to_string(position) +
                    (is_half ? ": a lone surrogate, half of a character; send both halves or U+FFFD" : ""));
  }

 private:
  bool value() {
    if (budget_.n_values == 0) throw JsonError("too many values");
    --budget_.n_values;
    return true;
  }
  bool open() {
    n_members_.push_back(0);
    if (n_members_.size() > budget_.depth)
      throw JsonError("nested more than " + std::to_string(budget_.depth) + " levels deep");
    return value();
  }
  bool close() {
    n_members_.pop_back();
    return true;
  }

  JsonBudget& budget_;
  std::vector<std::size_t> n_members_;  ///< Of each open object or array.
};

}  // namespace json_impl

/// Throws JsonError if the document is not JSON in UTF-8, or costs more than `budget` has left. The last of
/// equal keys counts.
template <typename Json>
Json parse_json(std::string_view text, JsonBudget& budget) {
  json_impl::Check<Json> check(budget);
  Json::sax_parse(text, &check);
  return Json::parse(text);
}
template <typename Json>
Json parse_json(std::string_view text, JsonBudget&& budget = {}) {
  return parse_json<Json>(text, budget);
}

}  // namespace weft::base
