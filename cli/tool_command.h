#pragma once
// A program of the user's that answers calls of tools.
#include <string>

namespace weft::cli {

struct ToolResult {
  std::string output;    ///< What it wrote to stdout, valid UTF-8, without newlines at the end.
  int exit_code = 0;     ///< 128 + N where signal N ended it.
  bool was_cut = false;  ///< It wrote more than kMaxToolOutput bytes; the rest is lost.
};

inline constexpr std::size_t kMaxToolOutput = std::size_t{1} << 20;

/// Runs `command` by the shell, with `input` on its stdin; its stderr is ours. Nothing of `input` reaches the
/// command line. Ctrl-C ends it as it ends any program of the terminal. Throws Error where it cannot be run.
ToolResult run_tool(const std::string& command, const std::string& input);

}  // namespace weft::cli
