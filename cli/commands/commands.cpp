#include <array>

#include "commands/command.h"

namespace weft::cli {

std::span<const Command> commands() {
  // Copies of function pointers and literals, all of them constant-initialised.
  static const std::array kCommands = {
      kRunCommand,        kChatCommand,       kServeCommand,   kEmbedCommand,   kRerankCommand,
      kTranscribeCommand, kTokenizeCommand,   kInspectCommand, kConvertCommand, kQuantizeCommand,
      kImatrixCommand,    kPerplexityCommand, kSplitCommand,   kMergeCommand,   kLoraMergeCommand,
      kBenchCommand,      kPullCommand,       kModelsCommand,  kDevicesCommand, kTestBackendCommand,
      kHealthCommand,     kCompletionCommand, kManCommand,     kVersionCommand};
  return kCommands;
}

}  // namespace weft::cli
