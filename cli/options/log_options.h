#pragma once
// The options of the log.

#include "options/option_types.h"
#include "serving/log.h"

namespace weft::cli {

/// --log-file, --log-json, --log-colors: of commands that run for long.
void add_log_options(CLI::App& app, LogOptions& options);

}  // namespace weft::cli
