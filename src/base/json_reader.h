#pragma once
// Reads JSON in one pass, in linear time. All JSON that weft parses passes through read_json. A header alone,
// because the kernels' build (WEFT_ONLY_KERNELS) has no nlohmann.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weft::base {

/// Limits of a document. No limit counts time.
struct JsonLimits {
  std::size_t depth = 64;
  std::size_t n_values = std::numeric_limits<std::size_t>::max();
  std::size_t n_members = std::numeric_limits<std::size_t>::max();  ///< Of each object.
};

/// The reason why a document is refused: "invalid JSON at byte 12".
struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Receives the values of a document in their order. It may move strings, and throw to end the reading.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void negative(std::int64_t value) = 0;
  virtual void natural(std::uint64_t value) = 0;  ///< 0 and more; "-0" as well.
  /// A number with a fraction or an exponent, or an integer beyond 64 bits. `spelling` is as in the document.
  virtual void real(double value, const std::string& spelling) = 0;
  virtual void string(std::string& value) = 0;
  virtual void begin_object() = 0;
  virtual void key(std::string& name) = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
};

namespace json_impl {

/// Checks the limits before the handler sees a value.
class LimitedSax final : public nlohmann::json_sax<nlohmann::json> {
 public:
  LimitedSax(const JsonLimits& limits, JsonHandler& handler) : limits_(limits), handler_(handler) {}

  bool null() override {
    count();
    handler_.null();
    return true;
  }
  bool boolean(bool value) override {
    count();
    handler_.boolean(value);
    return true;
  }
  bool number_integer(number_integer_t value) override {
    count();
    if (value < 0) {
      handler_.negative(value);
    } else {
      handler_.natural(static_cast<std::uint64_t>(value));
    }
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    count();
    handler_.natural(value);
    return true;
  }
  bool number_float(number_float_t value, const string_t& spelling) override {
    count();
    handler_.real(value, spelling);
    return true;
  }
  bool string(string_t& value) override {
    count();
    handler_.string(value);
    return true;
  }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON has none.
  bool start_object(std::size_t /*n*/) override {
    open();
    handler_.begin_object();
    return true;
  }
  bool start_array(std::size_t /*n*/) override {
    open();
    handler_.begin_array();
    return true;
  }
  bool key(string_t& name) override {
    if (++n_members_.back() > limits_.n_members) throw JsonError("an object has too many members");
    handler_.key(name);
    return true;
  }
  bool end_object() override {
    n_members_.pop_back();
    handler_.end_object();
    return true;
  }
  bool end_array() override {
    n_members_.pop_back();
    handler_.end_array();
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
  void count() {
    if (++n_values_ > limits_.n_values) throw JsonError("too many values");
  }
  void open() {
    count();
    n_members_.push_back(0);
    if (n_members_.size() > limits_.depth)
      throw JsonError("nested more than " + std::to_string(limits_.depth) + " levels deep");
  }

  const JsonLimits limits_;
  JsonHandler& handler_;
  std::size_t n_values_ = 0;
  std::vector<std::size_t> n_members_;  ///< Of each open object or array.
};

}  // namespace json_impl

/// Throws JsonError if the document is not JSON (RFC 8259) in UTF-8, has a lone surrogate or a number beyond
/// double, or exceeds `limits`. Equal keys are delivered as they come.
inline void read_json(std::string_view text, const JsonLimits& limits, JsonHandler& handler) {
  json_impl::LimitedSax sax(limits, handler);
  nlohmann::json::sax_parse(text, &sax);
}

}  // namespace weft::base
