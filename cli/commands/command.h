#pragma once
// A subcommand of the program, and the exception for wrong command lines.
#include <functional>
#include <span>
#include <stdexcept>
#include <string>

#include "options/option_types.h"

namespace weft::cli {

// Exit codes of the program, as --help documents them.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;        // something went wrong while running
inline constexpr int kExitUsage = 2;          // the command line is wrong
inline constexpr int kExitInterrupted = 130;  // Ctrl-C

/// The command line is wrong: one line on stderr, exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Command {
  const char* name;
  const char* arguments;  ///< For the usage line, "[options] FILE".
  const char* summary;    ///< One line.
  const char* details;    ///< For --help: paragraphs and examples; ends with a newline.
  /// Adds the options to `app`; the result runs the command with their values and returns the exit code.
  std::function<int()> (*prepare)(CLI::App& app);
};

/// All commands, in the order in which help lists them.
std::span<const Command> commands();

// One a cmd_*.cpp.
extern const Command kRunCommand;
extern const Command kChatCommand;
extern const Command kServeCommand;
extern const Command kEmbedCommand;
extern const Command kRerankCommand;
extern const Command kTranscribeCommand;
extern const Command kTokenizeCommand;
extern const Command kInspectCommand;
extern const Command kBenchCommand;
extern const Command kConvertCommand;
extern const Command kQuantizeCommand;
extern const Command kPerplexityCommand;
extern const Command kImatrixCommand;
extern const Command kSplitCommand;
extern const Command kMergeCommand;
extern const Command kPullCommand;
extern const Command kLoraMergeCommand;
extern const Command kModelsCommand;
extern const Command kDevicesCommand;
extern const Command kTestBackendCommand;
extern const Command kHealthCommand;
extern const Command kCompletionCommand;
extern const Command kManCommand;
extern const Command kVersionCommand;

}  // namespace weft::cli
