#include "terminal/text_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/to_size.h"

namespace weft::cli {
std::size_t text_width(std::string_view text) {
  return to_size(std::count_if(text.begin(), text.end(),
                               [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < std::size(kUnits)) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string count_text(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.2f}B", value / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.1f}M", value / 1e6);
  if (count >= 1'000) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{}", count);
}

void drop_byte_order_mark(std::string& text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.erase(0, kMark.size());
}

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else if (c == '\n') {
      out += out.empty() || out.back() == ' ' ? "" : " ";
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out;
}

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], text_width(row[i]));
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += printable(row[i]);
      if (i + 1 < row.size()) out.append(widths[i] - text_width(row[i]) + 2, ' ');
    }
    out += '\n';
  }
  return out;
}

}  // namespace weft::cli
