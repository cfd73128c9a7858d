// weft version.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "commands/command.h"
#include "files/json_output.h"
#include "options/arguments.h"
#include "terminal/terminal.h"
#include "weft/version.h"

namespace weft::cli {
namespace {

std::function<int()> prepare_version(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  add_switch(app, "--json", *json, "print one JSON object")->group("Output");
  return [json] {
    constexpr std::string_view kSanitizer = WEFT_SANITIZER;
    const std::string compiler = fmt::format("{} {}",
#if defined(__clang__)
                                             "clang",
#else
                                             "gcc",
#endif
                                             __VERSION__);
    if (*json) {
      Json out;
      out["version"] = WEFT_VERSION;
      out["build_type"] = WEFT_BUILD_TYPE;
      out["compiler"] = compiler;
      out["sanitizer"] = kSanitizer;
      print(to_text(out, 2));
    } else {
      print(fmt::format("weft {} ({}{}{}, {})\n", WEFT_VERSION, WEFT_BUILD_TYPE,
                        kSanitizer.empty() ? "" : ", sanitizer ", kSanitizer, compiler));
    }
    return kExitOk;
  };
}

}  // namespace

const Command kVersionCommand = {"version", "[--json]", "print the version",
                                 "Example:\n  weft version --json\n", prepare_version};

}  // namespace weft::cli
