#pragma once
// Terminal output: colour, progress bars and messages. Results go to stdout, everything else to stderr.
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

namespace weft::cli {

enum class ColorMode { kAuto, kAlways, kNever };

/// How verbose the program is, from its options (--color, -q, -v, --no-progress).
struct Verbosity {
  ColorMode color = ColorMode::kAuto;
  bool quiet = false;
  bool verbose = false;
  bool progress = true;
};

bool is_terminal(int descriptor);
/// Whether to write colour to the descriptor. In kAuto mode it must be a terminal, without NO_COLOR and
/// TERM=dumb.
bool use_color(ColorMode mode, int descriptor);

inline constexpr std::string_view kBold = "\033[1m";
inline constexpr std::string_view kDim = "\033[2m";
inline constexpr std::string_view kRed = "\033[31m";
inline constexpr std::string_view kGreen = "\033[32m";
/// The terminal's width; 80 if unknown.
int columns_of(int descriptor);
/// Its height; 24 if unknown.
int rows_of(int descriptor);
/// Whether escape sequences that move the cursor work there.
bool moves_cursor(int descriptor);
/// Makes the C library read characters as UTF-8, whatever the user's locale.
void use_utf8();

/// `text` in that style if `on`.
std::string styled(std::string_view text, std::string_view style, bool on);

/// Writes to stdout and flushes. Throws Error kIo (a full disk); a closed pipe ends the process, as Unix
/// does.
void print(std::string_view text);
/// A line to stderr, unless quiet.
void note(const Verbosity& talk, std::string_view line);
/// Whether there is a file of that name; false if the system does not say.
bool is_there(const std::filesystem::path& file);
/// Notes that `file`, which existed before, was replaced.
void note_replaced(const Verbosity& talk, const std::filesystem::path& file);

/// A bar on stderr for work that takes long. Shows nothing off a terminal, in quiet mode, or within the first
/// third of a second; removes itself.
class Progress {
 public:
  Progress(const Verbosity& talk, std::string label);
  ~Progress() { done(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows a new label at once, for work that may take long until the next update.
  void begin(std::string label, double fraction);
  void update(double fraction);
  void done();

 private:
  using Clock = std::chrono::steady_clock;
  void show(double fraction);

  std::string label_;
  bool enabled_;
  bool shown_ = false;
  Clock::time_point next_;
};

}  // namespace weft::cli
