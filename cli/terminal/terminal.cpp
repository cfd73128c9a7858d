#include "terminal/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "weft/error.h"

namespace weft::cli {

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1; }

bool use_color(ColorMode mode, int descriptor) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return false;
  if (term == nullptr || std::string_view(term) == "dumb") return false;
  return is_terminal(descriptor);
}

int columns_of(int descriptor) {
  constexpr int kUsual = 80;
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

int rows_of(int descriptor) {
  constexpr int kUsual = 24;
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kUsual;
}

bool moves_cursor(int descriptor) {
  const char* term = std::getenv("TERM");
  return is_terminal(descriptor) && term != nullptr && std::string_view(term) != "dumb";
}

void use_utf8() {
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
}

std::string styled(std::string_view text, std::string_view style, bool on) {
  return on ? fmt::format("{}{}\033[0m", style, text) : std::string(text);
}

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0)
    throw Error(ErrorCode::kIo, std::string("cannot write to the standard output: ") + std::strerror(errno));
}

void note(const Verbosity& talk, std::string_view line) {
  if (!talk.quiet) fmt::print(stderr, "{}\n", line);
}

bool is_there(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

void note_replaced(const Verbosity& talk, const std::filesystem::path& file) {
  note(talk, fmt::format("weft: note: replaced the existing file {}", file.string()));
}

Progress::Progress(const Verbosity& talk, std::string label)
    : label_(std::move(label)),
      enabled_(talk.progress && !talk.quiet && moves_cursor(STDERR_FILENO)),
      next_(Clock::now() + std::chrono::milliseconds(330)) {}

void Progress::begin(std::string label, double fraction) {
  label_ = std::move(label);
  if (enabled_) show(fraction);
}

void Progress::update(double fraction) {
  if (enabled_ && Clock::now() >= next_) show(fraction);
}

void Progress::show(double fraction) {
  next_ = Clock::now() + std::chrono::milliseconds(50);
  shown_ = true;
  fraction = std::clamp(fraction, 0.0, 1.0);
  const int width = std::clamp(columns_of(STDERR_FILENO) - static_cast<int>(label_.size()) - 9, 0, 40);
  const int filled = static_cast<int>(fraction * width);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
  fmt::print(stderr, "\r{} {} {:3.0f}%\033[K", label_, bar, fraction * 100.0);
  std::fflush(stderr);
}

void Progress::done() {
  if (shown_) {
    std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
  }
  shown_ = false;
  enabled_ = false;
}

}  // namespace weft::cli
