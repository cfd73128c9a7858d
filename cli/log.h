#pragma once
// The log of a program that runs for long: lines with a time and a level on stderr, and in a file where one
// is wanted. stdout is for results. Texts of requests and answers are not for logs. spdlog is seen by log.cpp
// only.
//
//   2026-11-22T09:30:00.123Z info loaded model=tiny ms=42
//   {"time":"2026-11-22T09:30:00.123Z","level":"info","message":"loaded","model":"tiny","ms":42}
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "terminal.h"

namespace weft::cli {

/// --log-file, --log-json, --log-colors (add_log_options). -v and -q say how much is logged.
struct LogOptions {
  std::string file;
  bool json = false;
  ColorMode colors = ColorMode::kAuto;
};

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// What a line says beside its message. Names are words without spaces.
using LogField = std::pair<std::string_view, std::variant<std::string_view, std::int64_t, double, bool>>;

/// May be used by any thread. Never throws once it is made: a full disk loses lines, not requests.
class Log {
 public:
  /// Lines of kInfo and above; with --verbose all, with --quiet those of kWarning and above on stderr. Throws
  /// Error kIo where the file cannot be written.
  Log(const LogOptions& options, const Talk& talk);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Whether a line of that level is written anywhere: texts that are costly to make need not be.
  bool enabled(LogLevel level) const;
  /// One line, whatever the texts hold: control characters are escaped, bytes that are no UTF-8 replaced.
  void write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});
  /// Opens the file again, which may have been moved away (logrotate, SIGHUP). Returns false, and goes on
  /// with the old one, where that fails.
  bool reopen();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cli
