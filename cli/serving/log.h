#pragma once
// The log of a long-running program: lines with a time and a level on stderr, and optionally in a file. The
// content of requests and responses is never logged.
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

#include "terminal/terminal.h"

namespace weft::cli {

/// --log-file, --log-json, --log-colors (add_log_options). -v and -q say how much is logged.
struct LogOptions {
  std::string file;
  bool json = false;
  ColorMode colors = ColorMode::kAuto;
};

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Additional fields of a line. Their names have no spaces.
using LogField = std::pair<std::string_view, std::variant<std::string_view, std::int64_t, double, bool>>;

/// May be used by any thread. Never throws after construction: a full disk loses lines, not requests.
class Log {
 public:
  /// Logs kInfo and above; with --verbose everything, with --quiet only kWarning and above on stderr. Throws
  /// Error kIo where the file cannot be written.
  Log(const LogOptions& options, const Verbosity& talk);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Whether lines of that level are logged, so that callers can skip expensive messages.
  bool enabled(LogLevel level) const;
  /// Writes one line: control characters are escaped, and bytes that are not UTF-8 replaced.
  void write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});
  /// Opens the file again, after it was moved away (logrotate, SIGHUP). On an error it keeps the old file and
  /// returns false.
  bool reopen();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cli
