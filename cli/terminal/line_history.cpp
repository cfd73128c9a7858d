#include "terminal/line_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "terminal/graphemes.h"

namespace weft::cli {
namespace {

constexpr std::size_t kMostLines = 1000;
constexpr std::string_view kHeader = "_HiStOrY_V2_";  // libedit's.

bool is_octal(char c) { return c >= '0' && c <= '7'; }

}  // namespace

std::string encode_history_line(std::string_view line) {
  std::string out;
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7f || c == '\\')
      out += fmt::format("\\{:03o}", byte);
    else
      out += c;
  }
  return out;
}

std::string decode_history_line(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const std::string_view digits = line.substr(std::min(i + 1, line.size())).substr(0, 3);
    if (line[i] == '\\' && digits.size() == 3 && std::all_of(digits.begin(), digits.end(), is_octal)) {
      out += static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0'));
      i += 3;
    } else if (line[i] == '\\' && digits.starts_with('\\')) {
      out += '\\';
      ++i;
    } else {
      out += line[i];
    }
  }
  return valid_utf8(out);
}

LineHistory::LineHistory(std::filesystem::path file) : file_(std::move(file)) {
  if (file_.empty()) return;
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line != kHeader) add(decode_history_line(line));
}

LineHistory::~LineHistory() {
  if (file_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  std::ofstream out(file_, std::ios::trunc);
  // Before anything is written.
  std::filesystem::permissions(
      file_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, ignored);
  out << kHeader << '\n';
  for (const std::string& line : lines_) out << encode_history_line(line) << '\n';
}

void LineHistory::add(const std::string& line) {
  if (line.empty() || (!lines_.empty() && lines_.back() == line)) return;
  lines_.push_back(line);
  if (lines_.size() > kMostLines) lines_.erase(lines_.begin());
}

}  // namespace weft::cli
