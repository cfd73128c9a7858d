#include "files/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>

namespace weft::server {
namespace {

constexpr std::size_t kIdLetters = 24;  // As make_id() has it.

}  // namespace

ListQuery read_list_query(const HttpRequest& request, std::size_t usual, std::size_t most) {
  ListQuery query{.limit = usual, .after = request.query_value("after")};
  if (const std::string text = request.query_value("limit"); !text.empty()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), query.limit);
    if (error != std::errc{} || end != text.data() + text.size() || query.limit < 1 || query.limit > most)
      throw bad_request("limit", fmt::format("'limit' must be from 1 to {}", most));
  }
  const std::string order = request.query_value("order");
  if (!order.empty() && order != "asc" && order != "desc")
    throw bad_request("order", "'order' must be asc or desc");
  query.ascending = order == "asc";
  return query;
}

Json list_json(Json data, bool has_more) {
  Json first, last;
  if (!data.empty()) {
    first = data.front()["id"];
    last = data.back()["id"];
  }
  return {{"object", "list"},
          {"data", std::move(data)},
          {"first_id", std::move(first)},
          {"last_id", std::move(last)},
          {"has_more", has_more}};
}

bool is_own_id(std::string_view text, std::string_view prefix) {
  return text.size() == prefix.size() + kIdLetters && text.starts_with(prefix) &&
         std::all_of(text.begin() + static_cast<std::ptrdiff_t>(prefix.size()), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

std::int64_t creation_time() {
  static std::atomic<std::int64_t> last{0};
  const std::int64_t now =
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  std::int64_t before = last.load();
  while (!last.compare_exchange_weak(before, std::max(now, before + 1))) {
  }
  return std::max(now, before + 1);
}

}  // namespace weft::server
