// weft man: prints manual pages, and installs them with completions below share/.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "commands/command.h"
#include "help/completion.h"
#include "help/man_page.h"
#include "options/arguments.h"
#include "terminal/terminal.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

namespace fs = std::filesystem;

struct ManOptions {
  std::string command;
  std::string folder;
};

int install(const fs::path& folder) {
  struct File {
    fs::path path;
    std::string text;
  };
  std::vector<File> files = {{"man/man1/weft.1", man_page(WEFT_DATE)},
                             {"bash-completion/completions/weft", bash_completion()},
                             {"zsh/site-functions/_weft", zsh_completion()},
                             {"fish/vendor_completions.d/weft.fish", fish_completion()}};
  for (const Command& command : commands())
    files.push_back({fmt::format("man/man1/weft-{}.1", command.name), man_page(command, WEFT_DATE)});
  for (const File& file : files) {
    const fs::path path = folder / file.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error)
      throw Error(ErrorCode::kIo,
                  fmt::format("cannot make {}: {}", path.parent_path().string(), error.message()));
    base::AtomicFile out(path);
    out.write(std::as_bytes(std::span(file.text)));
    out.commit();
  }
  return kExitOk;
}

int run(const ManOptions& options) {
  if (!options.folder.empty()) return install(options.folder);
  if (options.command.empty()) {
    print(man_page(WEFT_DATE));
    return kExitOk;
  }
  for (const Command& command : commands())
    if (options.command == command.name) {
      print(man_page(command, WEFT_DATE));
      return kExitOk;
    }
  throw UsageError(fmt::format("unknown command '{}'; 'weft help' lists the commands", options.command));
}

std::function<int()> prepare_man(CLI::App& app) {
  auto options = std::make_shared<ManOptions>();
  app.add_option("COMMAND", options->command, "print the page of this command (default: weft's own page)");
  app.add_option("--install", options->folder,
                 "write all pages and the completions of all shells below this folder, as share/ has them")
      ->type_name("FOLDER")
      ->group("Output");
  return [options] { return run(*options); };
}

}  // namespace

const Command kManCommand = {"man", "[COMMAND]", "print the manual",
                             "Prints a manual page for man.\n"
                             "\n"
                             "Examples:\n"
                             "  weft man run | man -l -\n"
                             "  weft man --install ~/.local/share\n",
                             prepare_man};

}  // namespace weft::cli
