#include "json.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "api/error.h"
#include "base/json.h"

namespace weft::server {

namespace {

/// Builds a checked document in linear time. nlohmann's parser compares the key of an ordered object with all
/// earlier ones. The last of equal keys counts.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON has none.
  bool start_object(std::size_t /*n*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*n*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    Open& object = open_.back();
    const auto [found, added] = object.places.emplace(key, object.value->size());
    // As a vector, whose insertion compares nothing.
    Json::object_t::Container& members = object.value->get_ref<Json::object_t&>();
    if (added) members.emplace_back(std::move(key), nullptr);
    member_ = &members[found->second].second;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
  Json take() { return std::move(root_); }

 private:
  struct Open {
    Json* value;
    std::unordered_map<std::string, std::size_t> places = {};  ///< Of an object's members.
  };

  template <typename Value>
  Json* place(Value&& value) {
    if (open_.empty()) return &(root_ = Json(std::forward<Value>(value)));
    Json& parent = *open_.back().value;
    if (parent.is_object()) return &(*member_ = Json(std::forward<Value>(value)));
    return &parent.get_ref<Json::array_t&>().emplace_back(std::forward<Value>(value));
  }
  template <typename Value>
  bool add(Value&& value) {
    place(std::forward<Value>(value));
    return true;
  }
  bool open(Json value) {
    open_.push_back({place(std::move(value))});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Open> open_;  ///< The last value does not move before its parent grows.
  Json* member_ = nullptr;  ///< The place of the next value in an object.
};

}  // namespace

Json parse_json(std::string_view text) {
  try {
    base::JsonBudget budget{.depth = 128, .n_values = std::size_t{1} << 22};
    base::json_impl::Check<Json> check(budget);
    Json::sax_parse(text, &check);
    Builder builder;
    Json::sax_parse(text, &builder);
    return builder.take();
  } catch (const base::JsonError& error) {
    throw bad_request("", std::string("the body: ") + error.what());
  }
}

std::optional<Json> parse_object(std::string_view text) try {
  Json json = parse_json(text);
  return json.is_object() ? std::optional(std::move(json)) : std::nullopt;
} catch (const ApiError&) {
  return std::nullopt;
}

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string json_text(std::string_view text) { return to_text(Json(text)); }

}  // namespace weft::server
