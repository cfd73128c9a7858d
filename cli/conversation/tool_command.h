#pragma once
// Runs the user's program for tool calls.
#include <string>

namespace weft::cli {

struct ToolResult {
  std::string output;    ///< Its stdout as valid UTF-8, without trailing newlines.
  int exit_code = 0;     ///< 128 + N if signal N ended it.
  bool was_cut = false;  ///< It wrote more than kMaxToolOutput bytes; the rest is lost.
};

inline constexpr std::size_t kMaxToolOutput = std::size_t{1} << 20;

/// Runs `command` with the shell and `input` on its stdin; its stderr is ours. `input` is not part of the
/// command line. Ctrl-C ends it as it ends any program of the terminal. Throws Error if it cannot be started.
ToolResult run_tool(const std::string& command, const std::string& input);

}  // namespace weft::cli
