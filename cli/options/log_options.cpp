#include "options/log_options.h"

#include <CLI/CLI.hpp>
#include <string>

#include "options/arguments.h"

namespace weft::cli {

void add_log_options(CLI::App& app, LogOptions& options) {
  const std::string group = "Logging";
  app.add_option("--log-file", options.file, "write the log to this file, too; SIGHUP reopens it")
      ->type_name("FILE")
      ->group(group);
  add_switch(app, "--log-json", options.json, "write log lines as JSON objects")->group(group);
  add_choice<ColorMode>(
      app, "--log-colors", options.colors,
      {{"auto", ColorMode::kAuto}, {"on", ColorMode::kAlways}, {"off", ColorMode::kNever}},
      "colour of the log on stderr; auto: on a terminal, unless NO_COLOR is set (default auto)")
      ->group(group);
}

}  // namespace weft::cli
