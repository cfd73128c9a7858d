#include "serving/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "files/json_output.h"
#include "terminal/text_format.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr const char* kTextPattern = "%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v";
constexpr const char* kJsonPattern = R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

/// A file that can be opened again. A line is passed to the system when write() returns, so it survives if
/// the process is killed.
class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(std::string path) : path_(std::move(path)), file_(open()) {
    if (file_ == nullptr)
      throw Error(ErrorCode::kIo,
                  fmt::format("--log-file: cannot write to '{}': {}", path_, std::strerror(errno)));
  }

  bool reopen() {
    const std::lock_guard lock(mutex_);
    File file = open();
    if (file == nullptr) return false;
    file_ = std::move(file);
    return true;
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;

  File open() const { return File(std::fopen(path_.c_str(), "abe")); }

  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size();
    const bool failed = std::fflush(file_.get()) != 0 || !written;
    // Reported once, until the file accepts lines again. The terminal has these lines, too.
    if (failed && !std::exchange(failed_, true))
      fmt::print(stderr, "weft: warning: --log-file: cannot write to '{}': {}\n", path_,
                 std::strerror(errno));
    if (!failed) failed_ = false;
    std::clearerr(file_.get());
  }
  void flush_() override { std::fflush(file_.get()); }

  std::string path_;
  File file_;
  bool failed_ = false;
};

std::string json_text(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string json_value(const LogField& field) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string_view>) return json_text(value);
        if constexpr (std::is_same_v<T, double>)
          return std::isfinite(value) ? fmt::format("{}", value) : "null";
        if constexpr (std::is_integral_v<T>) return fmt::format("{}", value);
      },
      field.second);
}

// Values that could be mistaken for more than one are quoted.
std::string text_value(const LogField& field) {
  const auto* const text = std::get_if<std::string_view>(&field.second);
  if (text == nullptr || text->empty() || text->find_first_of(" =\"\\") != std::string_view::npos)
    return json_value(field);
  const std::string plain = one_line(*text);
  return plain == *text ? plain : json_text(*text);
}

std::string line_of(bool json, std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = json ? fmt::format("\"message\":{}", json_text(message)) : one_line(message);
  for (const LogField& field : fields)
    line += json ? fmt::format(",{}:{}", json_text(field.first), json_value(field))
                 : fmt::format(" {}={}", field.first, text_value(field));
  return line;
}

}  // namespace

struct Log::Impl {
  bool json = false;
  std::shared_ptr<FileSink> file;
  std::unique_ptr<spdlog::logger> logger;
};

Log::Log(const LogOptions& options, const Verbosity& talk) : impl_(std::make_unique<Impl>()) {
  impl_->json = options.json;
  const auto level = talk.verbose ? spdlog::level::debug : spdlog::level::info;
  const bool color = !options.json && use_color(options.colors, 2);
  auto terminal = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(color ? spdlog::color_mode::always
                                                                              : spdlog::color_mode::never);
  terminal->set_level(talk.quiet ? spdlog::level::warn : level);
  std::vector<spdlog::sink_ptr> sinks = {terminal};
  if (!options.file.empty()) {
    impl_->file = std::make_shared<FileSink>(options.file);
    impl_->file->set_level(level);
    sinks.push_back(impl_->file);
  }
  impl_->logger = std::make_unique<spdlog::logger>("weft", sinks.begin(), sinks.end());
  impl_->logger->set_level(talk.quiet && impl_->file == nullptr ? spdlog::level::warn : level);
  impl_->logger->set_pattern(options.json ? kJsonPattern : kTextPattern, spdlog::pattern_time_type::utc);
  impl_->logger->set_error_handler([](const std::string&) {});  // There is nowhere left to say so.
}

Log::~Log() = default;

bool Log::enabled(LogLevel level) const { return impl_->logger->should_log(spdlog_level(level)); }

void Log::write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (enabled(level)) impl_->logger->log(spdlog_level(level), line_of(impl_->json, message, fields));
}

bool Log::reopen() { return impl_->file == nullptr || impl_->file->reopen(); }

}  // namespace weft::cli
