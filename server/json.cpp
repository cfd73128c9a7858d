#include "json.h"

#include <fmt/format.h>

#include <vector>

#include "api/error.h"

namespace weft::server {
namespace {

/// Walks a text without making anything of it: what would cost too much is refused first. Objects look a key
/// up among all that they have, so members count by their number.
class Check : public nlohmann::json_sax<Json> {
 public:
  explicit Check(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool key(string_t&) override {
    work_ += ++n_members_.back();
    if (work_ > kMaxWork) throw bad_request("", "the JSON has objects with too many members");
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception& error) override {
    // Numbers that no double holds come here too.
    if (dynamic_cast<const Json::out_of_range*>(&error) != nullptr)
      throw bad_request("", "the body is no JSON: a number is out of range");
    throw bad_request("", fmt::format("the body is no JSON: byte {} cannot stand there", position));
  }

 private:
  static constexpr std::size_t kMaxWork = std::size_t{1} << 25;

  bool value() {
    if (++n_values_ > limits_.n_values)
      throw bad_request("", fmt::format("the JSON has more than {} values", limits_.n_values));
    return true;
  }
  bool open() {
    n_members_.push_back(0);
    if (n_members_.size() > static_cast<std::size_t>(limits_.depth))
      throw bad_request("", fmt::format("the JSON is nested more than {} levels deep", limits_.depth));
    return value();
  }
  bool close() {
    n_members_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  std::vector<std::size_t> n_members_;  ///< Of the objects and arrays that are open.
  std::size_t n_values_ = 0;
  std::size_t work_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, const JsonLimits& limits) {
  Check check(limits);
  Json::sax_parse(text, &check);
  return Json::parse(text);
}

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string json_text(std::string_view text) { return to_text(Json(text)); }

}  // namespace weft::server
