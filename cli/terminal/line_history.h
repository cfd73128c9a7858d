#pragma once
// The history of typed lines, and its file.
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

class LineHistory {
 public:
  /// Reads the file, if there is one; an empty path keeps nothing.
  explicit LineHistory(std::filesystem::path file);
  /// Writes the file, readable for its owner alone. Ignores write errors.
  ~LineHistory();
  LineHistory(const LineHistory&) = delete;
  LineHistory& operator=(const LineHistory&) = delete;

  /// Adds the line, unless it equals the last one.
  void add(const std::string& line);
  const std::vector<std::string>& lines() const { return lines_; }  ///< The oldest first.

 private:
  std::filesystem::path file_;
  std::vector<std::string> lines_;
};

/// A line as the history's file has it: spaces, backslashes and control characters are \ooo (octal), as
/// libedit writes them.
std::string encode_history_line(std::string_view line);
std::string decode_history_line(std::string_view line);

}  // namespace weft::cli
