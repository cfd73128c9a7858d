#include "files/multipart.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "api/error.h"
#include "http/http_text.h"

namespace weft::server {
namespace {

constexpr std::size_t kMostBoundary = 70;  // RFC 2046.
constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";
/// Spaces and tabs after a boundary, which mail programs may add.
constexpr std::size_t kMostPadding = 256;

ApiError bad_form(const std::string& why) { return bad_request("", "the form: " + why); }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
  return text.substr(0, text.find_last_not_of(kSpaces) + 1);
}

/// "value; a=b; c="d"": the parameters of a header, with their names as sent. Nullopt if it is malformed.
std::optional<std::vector<std::pair<std::string, std::string>>> parameters_of(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> parameters;
  text.remove_prefix(std::min(text.find(';'), text.size()));
  while (!text.empty()) {
    text.remove_prefix(1);  // The semicolon.
    const std::size_t mark = text.find_first_of("=;");
    if (mark == text.npos || text[mark] == ';') {
      if (!trimmed(text.substr(0, mark)).empty()) return std::nullopt;
      text.remove_prefix(std::min(mark, text.size()));
      continue;
    }
    std::string name(trimmed(text.substr(0, mark)));
    text = trimmed(text.substr(mark + 1));
    std::string value;
    if (text.starts_with('"')) {
      std::size_t i = 1;
      for (; i < text.size() && text[i] != '"'; ++i) {
        // Only quotes and backslashes are escaped: old browsers send paths with backslashes.
        if (text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '"' || text[i + 1] == '\\')) ++i;
        value += text[i];
      }
      if (i >= text.size()) return std::nullopt;
      text = trimmed(text.substr(i + 1));
      if (!text.empty() && text.front() != ';') return std::nullopt;
    } else {
      const std::size_t end = std::min(text.find(';'), text.size());
      value = trimmed(text.substr(0, end));
      text.remove_prefix(end);
    }
    parameters.emplace_back(std::move(name), std::move(value));
  }
  return parameters;
}

/// "utf-8''na%20me" (RFC 5987).
std::optional<std::string> extended_value(std::string_view text) {
  const std::size_t first = text.find('\'');
  const std::size_t second = first == text.npos ? first : text.find('\'', first + 1);
  if (second == text.npos) return std::nullopt;
  return percent_decode(text.substr(second + 1));
}

FormPart part_of(std::string_view disposition) {
  const auto parameters = parameters_of(disposition);
  if (!same_word(trimmed(disposition.substr(0, disposition.find(';'))), "form-data") || !parameters)
    throw bad_form("a part's Content-Disposition must be form-data with a name");
  FormPart part;
  std::optional<std::string> extended;
  bool has_name = false;
  for (const auto& [name, value] : *parameters) {
    if (same_word(name, "name")) {
      if (std::exchange(has_name, true)) throw bad_form("a part has two names");
      part.name = value;
    } else if (same_word(name, "filename")) {
      part.filename = value;
    } else if (same_word(name, "filename*")) {
      extended = extended_value(value);
    }
  }
  if (!has_name) throw bad_form("a part has no name");
  if (extended) part.filename = std::move(extended);
  return part;
}

FormPart parse_head(std::string_view head) {
  std::optional<FormPart> part;
  while (!head.empty()) {
    const std::size_t end = std::min(head.find(kLineEnd), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + kLineEnd.size(), head.size()));
    const std::size_t colon = line.find(':');
    if (colon == line.npos) throw bad_form("a part has a malformed header");
    const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
    if (same_word(name, "Content-Disposition")) {
      if (part) throw bad_form("a part has two Content-Dispositions");
      part = part_of(value);
    } else if (same_word(name, "Content-Transfer-Encoding") && !same_word(value, "binary") &&
               !same_word(value, "8bit") && !same_word(value, "7bit")) {
      throw bad_form("a Content-Transfer-Encoding is not supported; send the bytes as they are");
    }
  }
  if (!part) throw bad_form("a part has no Content-Disposition");
  return std::move(*part);
}

}  // namespace

std::optional<std::string> boundary_of(std::string_view content_type) {
  if (!same_word(trimmed(content_type.substr(0, content_type.find(';'))), "multipart/form-data"))
    return std::nullopt;
  const auto parameters = parameters_of(content_type);
  if (!parameters) return std::nullopt;
  for (const auto& [name, value] : *parameters)
    if (same_word(name, "boundary") && !value.empty() && value.size() <= kMostBoundary) return value;
  return std::nullopt;
}

MultipartReader::MultipartReader(std::string_view boundary, FormHandler& handler)
    : delimiter_("\r\n--" + std::string(boundary)), handler_(handler) {}

void MultipartReader::read(std::string_view bytes) {
  if (state_ == State::kEpilogue) return;
  unread_ += bytes;
  while (step()) {
  }
  unread_.erase(0, std::exchange(n_read_, 0));
}

void MultipartReader::finish() const {
  if (state_ != State::kEpilogue) throw bad_form("it ends without its final boundary");
}

/// False if more bytes are needed.
bool MultipartReader::step() {
  switch (state_) {
    case State::kPreamble:
    case State::kContent:
      return read_content();
    case State::kBoundary:
      return read_boundary_end();
    case State::kHead:
      return read_head();
    case State::kEpilogue:
      break;
  }
  n_read_ = unread_.size();
  return false;
}

/// Passes on all bytes that cannot belong to a delimiter.
bool MultipartReader::read_content() {
  const std::string_view left = std::string_view(unread_).substr(n_read_);
  const std::size_t found = left.find(delimiter_);
  const bool is_whole = found != left.npos;
  const std::size_t n = is_whole ? found : left.size() - std::min(left.size(), delimiter_.size() - 1);
  if (state_ == State::kContent && n > 0) handler_.add(left.substr(0, n));
  n_read_ += is_whole ? n + delimiter_.size() : n;
  if (!is_whole) return false;
  if (state_ == State::kContent) handler_.end_part();
  state_ = State::kBoundary;
  return true;
}

bool MultipartReader::read_boundary_end() {
  const std::string_view left = std::string_view(unread_).substr(n_read_);
  if (left.starts_with("--")) {
    state_ = State::kEpilogue;
    return true;
  }
  const std::size_t end = left.find(kLineEnd);
  const bool has_end = end != left.npos;
  std::string_view padding = left.substr(0, end);
  if (padding.size() > kMostPadding) throw bad_form("the line of a boundary is too long");
  if (!has_end && (padding == "-" || padding.ends_with('\r'))) padding.remove_suffix(1);
  if (!trimmed(padding).empty()) throw bad_form("a boundary is followed by other characters");
  if (!has_end) return false;
  if (++n_parts_ > kMostParts) throw bad_form(fmt::format("it has more than {} parts", kMostParts));
  n_read_ += end;  // The line break may also end an empty head.
  state_ = State::kHead;
  return true;
}

bool MultipartReader::read_head() {
  const std::string_view left = std::string_view(unread_).substr(n_read_);
  const std::size_t end = left.find(kHeadEnd);
  if (std::min(end, left.size()) > kMostHeadBytes)
    throw bad_form(fmt::format("the headers of a part have more than {} KiB", kMostHeadBytes >> 10));
  if (end == left.npos) return false;
  const std::string_view head = left.substr(0, end);
  FormPart part = parse_head(head.substr(std::min(kLineEnd.size(), head.size())));
  n_read_ += end + kHeadEnd.size();
  handler_.begin_part(std::move(part));
  state_ = State::kContent;
  return true;
}

}  // namespace weft::server
