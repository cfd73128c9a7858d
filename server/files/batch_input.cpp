#include "files/batch_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "files/line_reader.h"
#include "weft/error.h"

namespace weft::server {
namespace {

constexpr std::array<std::string_view, 4> kBatchEndpoints = {"/v1/chat/completions", "/v1/completions",
                                                             "/v1/embeddings", "/v1/responses"};
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kMostShown = 64;

/// Ends the reading of a line.
struct LineError {
  std::string code, message, param;
};

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r") == text.npos; }

std::string required_string(const Json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end())
    throw LineError{"missing_required_parameter", fmt::format("'{}' is missing", name), name};
  if (!found->is_string()) throw LineError{"invalid_type", fmt::format("'{}' must be a string", name), name};
  return found->get<std::string>();
}

}  // namespace

bool is_batch_endpoint(std::string_view endpoint) {
  return std::find(kBatchEndpoints.begin(), kBatchEndpoints.end(), endpoint) != kBatchEndpoints.end();
}

std::string batch_endpoints() { return fmt::format("{}", fmt::join(kBatchEndpoints, ", ")); }

/// Throws LineError.
BatchLine BatchInput::parse(std::string_view text) const {
  Json line;
  try {
    line = base::parse_json<Json>(text, {.depth = 128, .n_values = std::size_t{1} << 22});
  } catch (const base::JsonError& error) {
    throw LineError{"invalid_json_line", fmt::format("the line is not valid JSON: {}", error.what()), ""};
  }
  if (!line.is_object()) throw LineError{"invalid_json_line", "the line must be a JSON object", ""};
  BatchLine result{.custom_id = required_string(line, "custom_id")};
  if (result.custom_id.empty() || result.custom_id.size() > kMostIdBytes)
    throw LineError{"invalid_custom_id", fmt::format("'custom_id' must have 1 to {} bytes", kMostIdBytes),
                    "custom_id"};
  if (const std::string method = required_string(line, "method"); method != "POST")
    throw LineError{"invalid_method",
                    fmt::format("'method' must be POST, not '{}'", method.substr(0, kMostShown)), "method"};
  if (const std::string url = required_string(line, "url"); url != endpoint_)
    throw LineError{
        "invalid_url",
        fmt::format("'url' must be the batch's endpoint {}, not '{}'", endpoint_, url.substr(0, kMostShown)),
        "url"};
  const auto body = line.find("body");
  if (body == line.end()) throw LineError{"missing_required_parameter", "'body' is missing", "body"};
  if (!body->is_object()) throw LineError{"invalid_type", "'body' must be a JSON object", "body"};
  result.body = std::move(*body);
  return result;
}

BatchInput::Checked BatchInput::check(const std::function<bool()>& stopped) {
  Checked checked;
  places_.clear();
  LineReader reader(*file_, kMostLineBytes);
  std::size_t number = 0;
  while (auto line = reader.next()) {
    ++number;
    if (stopped() || checked.errors.size() == kMostErrors) return checked;
    std::size_t offset = line->offset;
    std::string_view text = line->text;
    if (number == 1 && text.starts_with(kByteOrderMark)) {
      text.remove_prefix(kByteOrderMark.size());
      offset += kByteOrderMark.size();
    }
    if (!line->too_long && is_blank(text)) continue;
    try {
      if (line->too_long)
        throw LineError{"line_too_long", fmt::format("the line has more than {} MiB", kMostLineBytes >> 20),
                        ""};
      if (places_.size() == most_lines_) {
        checked.errors.push_back({"too_many_requests",
                                  fmt::format("a batch may have at most {} requests", most_lines_), "",
                                  number});
        return checked;
      }
      std::string id = parse(text).custom_id;
      const auto [entry, is_new] = checked.by_id.emplace(std::move(id), places_.size());
      places_.push_back({offset, text.size()});
      if (!is_new)
        throw LineError{
            "duplicate_custom_id",
            fmt::format("an earlier line has the custom_id '{}', too", entry->first.substr(0, kMostShown)),
            "custom_id"};
    } catch (const LineError& error) {
      checked.errors.push_back({error.code, error.message, error.param, number});
    }
  }
  if (places_.empty() && checked.errors.empty())
    checked.errors.push_back({"empty_file", "the input file has no requests", "", std::nullopt});
  return checked;
}

BatchLine BatchInput::line(std::size_t index) const {
  const Place& place = places_.at(index);
  std::string text(place.size, '\0');
  const std::size_t n = file_->read_at(place.offset, std::as_writable_bytes(std::span(text)));
  try {
    if (n == text.size()) return parse(text);
  } catch (const LineError&) {
  }
  throw Error(ErrorCode::kIo, "the input file has changed");
}

}  // namespace weft::server
