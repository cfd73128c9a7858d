#pragma once
// JSON as a tree of nlohmann's library. Its own parser is not used: it compares each key of an ordered object
// with all earlier ones.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_reader.h"

namespace weft::base {

namespace json_impl {

/// Json is nlohmann::json or nlohmann::ordered_json.
template <typename Json>
class TreeBuilder final : public JsonHandler {
 public:
  void null() override { add(nullptr); }
  void boolean(bool value) override { add(value); }
  void negative(std::int64_t value) override { add(value); }
  void natural(std::uint64_t value) override { add(value); }
  void real(double value, const std::string& /*spelling*/) override { add(value); }
  void string(std::string& value) override { add(std::move(value)); }
  void begin_object() override { open_.push_back(add(Json::object())); }
  void begin_array() override { open_.push_back(add(Json::array())); }
  void key(std::string& name) override {
    auto& members = open_.back()->template get_ref<typename Json::object_t&>();
    if constexpr (kOrdered) {
      member_ = &static_cast<Members&>(members).emplace_back(std::move(name), nullptr).second;
    } else {
      member_ = &members[std::move(name)];
    }
  }
  void end_object() override {
    if constexpr (kOrdered) drop_replaced(open_.back()->template get_ref<typename Json::object_t&>());
    open_.pop_back();
  }
  void end_array() override { open_.pop_back(); }

  Json take() { return std::move(root_); }

 private:
  using Members = std::vector<std::pair<const std::string, Json>>;
  static constexpr bool kOrdered = std::is_base_of_v<Members, typename Json::object_t>;

  template <typename Value>
  Json* add(Value&& value) {
    if (open_.empty()) return &(root_ = Json(std::forward<Value>(value)));
    Json& parent = *open_.back();
    if (parent.is_object()) return &(*member_ = Json(std::forward<Value>(value)));
    return &parent.template get_ref<typename Json::array_t&>().emplace_back(std::forward<Value>(value));
  }

  /// Keeps the place of the first and the value of the last of equal keys. Sorting bounds the work,
  /// whatever the keys are.
  void drop_replaced(Members& members) {
    order_.resize(members.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      const int order = members[a].first.compare(members[b].first);
      return order != 0 ? order < 0 : a < b;
    });
    std::vector<bool> dropped;
    for (std::size_t i = 1, first = 0; i < order_.size(); ++i) {
      auto& [name, value] = members[order_[i]];
      if (name != members[order_[first]].first) {
        first = i;
        continue;
      }
      dropped.resize(members.size());
      dropped[order_[i]] = true;
      members[order_[first]].second = std::move(value);
    }
    if (dropped.empty()) return;
    Members kept;
    for (std::size_t i = 0; i < members.size(); ++i)
      if (!dropped[i]) kept.emplace_back(members[i].first, std::move(members[i].second));
    members.swap(kept);
  }

  Json root_;
  std::vector<Json*> open_;  ///< The last value of a container does not move before the next is added.
  Json* member_ = nullptr;   ///< The place of the next value in an object.
  std::vector<std::size_t> order_;
};

}  // namespace json_impl

/// Throws JsonError as read_json does. The last of equal keys counts.
template <typename Json>
Json parse_json(std::string_view text, const JsonLimits& limits = {}) {
  json_impl::TreeBuilder<Json> builder;
  read_json(text, limits, builder);
  return builder.take();
}

/// The same for documents of other programs, which may be anything; nothing for a refused one.
template <typename Json>
std::optional<Json> try_parse_json(std::string_view text, const JsonLimits& limits = {}) {
  try {
    return parse_json<Json>(text, limits);
  } catch (const JsonError&) {
    return std::nullopt;
  }
}

}  // namespace weft::base
