// The program weft: finds the subcommand, parses its options, runs it, and turns exceptions into one line and
// an exit code.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "commands/command.h"
#include "help/help.h"
#include "options/arguments.h"
#include "options/option_table.h"
#include "options/options.h"
#include "terminal/terminal.h"
#include "terminal/text_format.h"
#include "weft/device.h"
#include "weft/error.h"

namespace weft::cli {

namespace {

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

/// The parts of the command line that error reports need.
struct Context {
  std::string hint;  ///< After a wrong command line: the command's help.
  ColorMode color = ColorMode::kAuto;
};

int dispatch(std::vector<std::string> arguments, Context& context) {
  if (arguments.empty()) {
    fmt::print(stderr, "{}", overview());
    return kExitUsage;
  }
  std::string first = arguments.front();
  if (first == "--version") first = "version";
  const bool help = first == "help" || first == "--help" || first == "-h";
  if (help) {
    print(arguments.size() > 1 ? help_text(find_command(arguments[1])) : overview());
    return kExitOk;
  }
  const Command& command = find_command(first);
  context.hint = fmt::format(" (weft help {})", command.name);
  arguments.erase(arguments.begin());

  CLI::App app;
  const std::function<int()> run = set_up(command, app);
  if (!parse(command, app, arguments)) {
    print(help_text(command));
    return kExitOk;
  }
  if (const CLI::Option* color = app.get_option_no_throw("--color"); color != nullptr && !color->empty())
    context.color = color_modes().at(color->results().back());
  return run();
}

void report(std::string_view text, ColorMode color) {
  fmt::print(stderr, "{} {}\n", styled("weft: error:", kRed, use_color(color, 2)), one_line(text));
}

/// Other users of the machine may read a program's arguments while it runs.
void hide_keys(char** arguments) {
  constexpr std::string_view kOption = "--api-key";
  for (; *arguments != nullptr; ++arguments) {
    const std::string_view given = *arguments;
    char* value = nullptr;
    if (given == kOption && arguments[1] != nullptr) value = *++arguments;
    if (given.starts_with(kOption) && given.substr(kOption.size()).starts_with('='))
      value = *arguments + kOption.size() + 1;
    if (value != nullptr) std::fill(value, value + std::strlen(value), '*');
  }
}

int run_program(std::vector<std::string> arguments) {
  Context context;
  try {
    if (init_worker_process()) return kExitOk;
    return dispatch(std::move(arguments), context);
  } catch (const UsageError& error) {
    report(error.what() + context.hint, context.color);
    return kExitUsage;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) {
      fmt::print(stderr, "weft: interrupted\n");
      return kExitInterrupted;
    }
    report(error.what(), context.color);
    return kExitFailure;
  } catch (const std::bad_alloc&) {
    report("out of memory; use a smaller context (-c) or a smaller model", context.color);
    return kExitFailure;
  } catch (const std::filesystem::filesystem_error& error) {
    report(fmt::format("{}: {}", error.path1().string(), error.code().message()), context.color);
    return kExitFailure;
  } catch (const std::exception& error) {
    report(fmt::format("{} (unexpected: please report this)", error.what()), context.color);
    return kExitFailure;
  }
}

}  // namespace
}  // namespace weft::cli

int main(int argc, char** argv) {
  // If the program starts with a standard descriptor closed, the next opened file would get its number: it
  // would be read as input or written to. A closed stdout is opened read-only, so that writes fail and the
  // program can report it.
  while (true) {
    const bool has_input = fcntl(STDIN_FILENO, F_GETFD) >= 0, has_output = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
    const int descriptor = open("/dev/null", has_input && !has_output ? O_RDONLY : O_RDWR);
    if (descriptor >= 0 && descriptor <= STDERR_FILENO) continue;
    if (descriptor >= 0) close(descriptor);
    break;
  }
  // A file larger than the limit (ulimit -f) is an error like a full disk, not a fatal signal.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    weft::cli::hide_keys(argv);
    return weft::cli::run_program(std::move(arguments));
  } catch (const std::bad_alloc&) {  // None for an error's words, either.
    std::fputs("weft: error: out of memory\n", stderr);
    return weft::cli::kExitFailure;
  }
}
