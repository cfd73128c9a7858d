// The program weft: finds the subcommand, parses its options, runs it, and turns what it throws into one line
// and an exit code.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "arguments.h"
#include "command.h"
#include "terminal.h"
#include "weft/error.h"

namespace weft::cli {

std::span<const Command> commands() {
  // Copies of function pointers and literals, all of them constant-initialised.
  static const std::array kCommands = {kRunCommand,     kChatCommand,        kTokenizeCommand,
                                       kInspectCommand, kBenchCommand,       kModelsCommand,
                                       kDevicesCommand, kTestBackendCommand, kVersionCommand};
  return kCommands;
}

namespace {

std::string overview() {
  std::string out =
      "weft runs language models from GGUF files.\n\nUsage: weft COMMAND [options]\n\nCommands:\n";
  for (const Command& command : commands()) out += fmt::format("  {:<14}{}\n", command.name, command.summary);
  out +=
      "  help          explain a command: weft help run\n"
      "\nExamples:\n"
      "  weft run -p \"Once upon a time\" -n 64     continue a text\n"
      "  weft chat -m gemma                       talk to a model of the cache\n"
      "  weft inspect model.gguf                  what a file holds\n"
      "\nModels are looked for in ${WEFT_CACHE:-$HOME/.cache/weft}/models.\n"
      "Exit codes: 0 done, 1 failed, 2 the command line is wrong, 130 interrupted with Ctrl-C.\n";
  return out;
}

const Command& find_command(const std::string& name) {
  std::vector<std::string> names = {"help"};
  for (const Command& command : commands()) {
    if (name == command.name) return command;
    names.emplace_back(command.name);
  }
  const std::string suggestion = nearest(name, names);
  throw UsageError(fmt::format("unknown command '{}'{}; 'weft help' lists the commands", name,
                               suggestion.empty() ? "" : fmt::format(" (did you mean {}?)", suggestion)));
}

std::string help_of(const Command& command) {
  CLI::App app;
  command.prepare(app);
  app.set_help_flag("-h,--help", "this text")->group("Output");
  return help_text(command, app);
}

// `context` takes the command's name once it is known, for the hint after a wrong command line.
int dispatch(std::vector<std::string> arguments, std::string& context) {
  if (arguments.empty()) {
    fmt::print(stderr, "{}", overview());
    return kExitUsage;
  }
  std::string first = arguments.front();
  if (first == "--version") first = "version";
  const bool help = first == "help" || first == "--help" || first == "-h";
  if (help) {
    print(arguments.size() > 1 ? help_of(find_command(arguments[1])) : overview());
    return kExitOk;
  }
  const Command& command = find_command(first);
  context = fmt::format(" (weft help {})", command.name);
  arguments.erase(arguments.begin());

  CLI::App app;
  const std::function<int()> run = command.prepare(app);
  app.set_help_flag("-h,--help", "this text")->group("Output");
  if (!parse(command, app, arguments)) {
    print(help_text(command, app));
    return kExitOk;
  }
  return run();
}

// An error's text may hold what a hostile file says: one line, and no control characters that a terminal
// obeys.
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

void report(std::string_view text) {
  const bool color = use_color(ColorMode::kAuto, 2);
  fmt::print(stderr, "{} {}\n", styled("weft: error:", kRed, color), one_line(text));
}

int run_program(std::vector<std::string> arguments) {
  std::string context;
  try {
    return dispatch(std::move(arguments), context);
  } catch (const UsageError& error) {
    report(error.what() + context);
    return kExitUsage;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) {
      fmt::print(stderr, "weft: interrupted\n");
      return kExitInterrupted;
    }
    report(error.what());
    return kExitFailure;
  } catch (const std::bad_alloc&) {
    report("out of memory; a smaller context (-c) or model needs less");
    return kExitFailure;
  } catch (const std::exception& error) {
    report(fmt::format("{} (unexpected: please report this)", error.what()));
    return kExitFailure;
  }
}

}  // namespace
}  // namespace weft::cli

int main(int argc, char** argv) {
  return weft::cli::run_program(std::vector<std::string>(argv + 1, argv + argc));
}
