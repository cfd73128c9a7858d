// weft completion: prints completions for shells.
#include <map>
#include <memory>
#include <string>

#include "commands/command.h"
#include "help/completion.h"
#include "options/arguments.h"
#include "terminal/terminal.h"

namespace weft::cli {
namespace {

using Make = std::string (*)();

const std::map<std::string, Make>& shells() {
  static const std::map<std::string, Make> kShells = {
      {"bash", bash_completion}, {"fish", fish_completion}, {"zsh", zsh_completion}};
  return kShells;
}

std::function<int()> prepare_completion(CLI::App& app) {
  auto make = std::make_shared<Make>(nullptr);
  add_choice(app, "SHELL", *make, shells(), "the shell");
  return [make] {
    if (*make == nullptr) throw UsageError("name a shell: 'weft completion bash', zsh or fish");
    print((*make)());
    return kExitOk;
  };
}

}  // namespace

const Command kCompletionCommand = {
    "completion", "bash|zsh|fish", "print completions for a shell",
    "Prints what the shell reads. Packages of weft install it; without one:\n"
    "\n"
    "Examples:\n"
    "  weft completion bash > ~/.local/share/bash-completion/completions/weft\n"
    "  weft completion zsh > ~/.zfunc/_weft      (a folder of fpath)\n"
    "  weft completion fish > ~/.config/fish/completions/weft.fish\n",
    prepare_completion};

}  // namespace weft::cli
