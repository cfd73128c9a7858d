#include "terminal/line_editor.h"

#include <fmt/format.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/to_size.h"
#include "terminal/edit_buffer.h"
#include "terminal/graphemes.h"
#include "terminal/line_history.h"
#include "terminal/screen_lines.h"
#include "terminal/terminal.h"
#include "terminal/text_format.h"

namespace weft::cli {
namespace {

constexpr std::string_view kPasteBegin = "\033[200~";
constexpr std::string_view kPasteEnd = "\033[201~";
constexpr std::string_view kInterrupt = "\003", kEnd = "\004", kSearch = "\022", kCancel = "\007";
constexpr std::string_view kClear = "\014", kSuspend = "\032";
constexpr char kEscape = '\033';

/// The edits of keys. A key is the byte sequence that the terminal sends.
const std::map<std::string_view, void (EditBuffer::*)()>& edits() {
  static const std::map<std::string_view, void (EditBuffer::*)()> kEdits = {
      {"\001", &EditBuffer::move_home},
      {"\033[H", &EditBuffer::move_home},
      {"\033OH", &EditBuffer::move_home},
      {"\033[1~", &EditBuffer::move_home},
      {"\033[7~", &EditBuffer::move_home},
      {"\005", &EditBuffer::move_end},
      {"\033[F", &EditBuffer::move_end},
      {"\033OF", &EditBuffer::move_end},
      {"\033[4~", &EditBuffer::move_end},
      {"\033[8~", &EditBuffer::move_end},
      {"\002", &EditBuffer::move_left},
      {"\033[D", &EditBuffer::move_left},
      {"\033OD", &EditBuffer::move_left},
      {"\006", &EditBuffer::move_right},
      {"\033[C", &EditBuffer::move_right},
      {"\033OC", &EditBuffer::move_right},
      {"\033b", &EditBuffer::move_word_left},
      {"\033[1;5D", &EditBuffer::move_word_left},
      {"\033[1;3D", &EditBuffer::move_word_left},
      {"\033f", &EditBuffer::move_word_right},
      {"\033[1;5C", &EditBuffer::move_word_right},
      {"\033[1;3C", &EditBuffer::move_word_right},
      {"\010", &EditBuffer::erase_before},
      {"\177", &EditBuffer::erase_before},
      {"\004", &EditBuffer::erase_after},
      {"\033[3~", &EditBuffer::erase_after},
      {"\027", &EditBuffer::kill_word_before},
      {"\033\177", &EditBuffer::kill_word_before},
      {"\033d", &EditBuffer::kill_word_after},
      {"\025", &EditBuffer::kill_before},
      {"\013", &EditBuffer::kill_after},
      {"\031", &EditBuffer::yank},
      {"\024", &EditBuffer::transpose},
  };
  return kEdits;
}

bool is_enter(std::string_view key) { return key == "\r" || key == "\n"; }
bool is_text(std::string_view key) {
  const auto lead = static_cast<unsigned char>(key[0]);
  return key == "\t" || (lead >= 0x20 && lead != 0x7f);
}

/// While it lives, each key reaches the program at once, including Ctrl-C and Ctrl-Z, and pastes are marked.
class RawMode {
 public:
  RawMode() { enter(); }
  ~RawMode() { leave(); }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

  /// Suspends the program, as Ctrl-Z does outside; returns when it is resumed.
  void suspend() {
    leave();
    ::raise(SIGTSTP);
    enter();
  }

 private:
  void enter() {
    ::tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR | IXON | ISTRIP);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    print("\033[?2004h");
  }
  void leave() const {
    std::fputs("\033[?2004l", stdout);
    std::fflush(stdout);
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }

  termios before_{};
};

std::string line_of_paste(std::string_view pasted) {
  std::string text;
  for (std::size_t i = 0; i < pasted.size(); ++i) {
    const auto byte = static_cast<unsigned char>(pasted[i]);
    // Terminals send the ends of lines as the Enter key would.
    if (byte == '\r' && pasted.substr(i + 1).starts_with('\n')) continue;
    if (byte == '\r' || byte == '\n')
      text += '\n';
    else if (byte == '\t' || (byte >= 0x20 && byte != 0x7f))
      text += pasted[i];
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// Ends where a line ends. Signals without a handler may end the read as well.
LineEditor::Result read_plain(std::string& line) {
  char c = 0;
  while (true) {
    const int next = std::fgetc(stdin);
    if (next == EOF) {
      const bool interrupted = std::ferror(stdin) != 0 && errno == EINTR;
      std::clearerr(stdin);
      if (interrupted) return LineEditor::Result::kInterrupted;
      return line.empty() ? LineEditor::Result::kEnd : LineEditor::Result::kLine;
    }
    c = static_cast<char>(next);
    if (c == '\n') break;
    line += c;
  }
  if (line.ends_with('\r')) line.pop_back();
  return LineEditor::Result::kLine;
}

}  // namespace

class LineEditor::Terminal {
 public:
  explicit Terminal(std::filesystem::path history_file) : history_(std::move(history_file)) {}

  Result read(const std::string& prompt, bool color, std::string& line) {
    prompt_ = prompt;
    color_ = color;
    buffer_ = {};
    screen_.forget();
    columns_ = columns_of(STDOUT_FILENO);
    position_ = history_.lines().size();
    RawMode raw;
    const Result result = edit(raw);
    buffer_.move_to_end();
    draw();
    if (result != Result::kEnd) print(screen_.leave());
    line = buffer_.text();
    if (result == Result::kLine) history_.add(line);
    return result;
  }

 private:
  Result edit(RawMode& raw) {
    draw();
    while (true) {
      const std::optional<std::string> key = next_key();
      if (!key) return errno == EINTR ? Result::kInterrupted : Result::kEnd;
      if (is_text(*key)) {
        buffer_.insert(*key + take_text());
      } else if (const std::optional<Result> result = handle(*key, raw)) {
        return *result;
      }
      if (!has_input()) draw();
    }
  }

  // Returns nothing while the line is unfinished.
  std::optional<Result> handle(const std::string& key, RawMode& raw) {
    if (is_enter(key)) return Result::kLine;
    if (key == kInterrupt) return Result::kInterrupted;
    if (key == kEnd && buffer_.empty()) return Result::kEnd;
    if (key == kSearch) return search(raw);
    if (key == kSuspend) {
      print(screen_.leave());
      raw.suspend();
    } else if (key == kClear) {
      print("\033[H\033[2J");
      screen_.forget();
    } else if (key == kPasteBegin) {
      buffer_.insert(line_of_paste(read_paste()));
    } else if (key == "\033\r" || key == "\033\n") {
      buffer_.insert("\n");
    } else if (key == "\020" || key == "\033[A" || key == "\033OA") {
      show_history(-1);
    } else if (key == "\016" || key == "\033[B" || key == "\033OB") {
      show_history(1);
    } else if (is_text(key)) {
      buffer_.insert(key);
    } else if (const auto edit = edits().find(key); edit != edits().end()) {
      (buffer_.*edit->second)();
    }
    return std::nullopt;
  }

  // The line that is being typed follows the last line of the history.
  void show_history(int step) {
    const std::vector<std::string>& lines = history_.lines();
    if (step < 0 ? position_ == 0 : position_ == lines.size()) return;
    if (position_ == lines.size()) typed_ = buffer_.text();
    position_ = step < 0 ? position_ - 1 : position_ + 1;
    buffer_.set(position_ == lines.size() ? typed_ : lines[position_]);
  }

  // Searches the history backwards for the typed characters.
  std::optional<Result> search(RawMode& raw) {
    const EditBuffer before = buffer_;
    EditBuffer wanted;
    std::size_t found = history_.lines().size();
    const auto look = [&](std::size_t below) {
      for (std::size_t i = std::min(below, history_.lines().size()); i-- > 0;)
        if (history_.lines()[i].find(wanted.text()) != std::string::npos) {
          found = i;
          buffer_.set(history_.lines()[i]);
          return;
        }
    };
    while (true) {
      search_ = wanted.text();
      draw();
      const std::optional<std::string> key = next_key();
      if (key == kSearch) {
        look(found);
      } else if (key && is_text(*key)) {
        wanted.insert(*key);
        look(found + 1);
      } else if (key == "\177" || key == "\010") {
        wanted.erase_before();
        look(history_.lines().size());
      } else {
        search_.reset();
        if (key == kCancel) buffer_ = before;
        if (!key) return Result::kEnd;
        return key == kCancel ? std::nullopt : handle(*key, raw);
      }
    }
  }

  void draw() {
    std::string text = prompt_;
    if (search_) text = fmt::format("(search '{}') ", printable(*search_));
    int n_columns = 0;
    const std::vector<std::size_t> starts = grapheme_starts(text);
    for (std::size_t i = 0; i + 1 < starts.size(); ++i)
      n_columns += grapheme_columns(std::string_view(text).substr(starts[i], starts[i + 1] - starts[i]));
    print(screen_.draw({color_ ? fmt::format("\033[1;32m{}\033[0m", text) : text, n_columns}, buffer_.text(),
                       buffer_.cursor(), columns_, rows_of(STDOUT_FILENO)));
  }

  // The bytes of one key: a character, or an escape sequence. Returns nothing at the end of the input, or
  // after a signal (errno is EINTR).
  std::optional<std::string> next_key() {
    std::string key;
    const auto take = [&] {
      const std::optional<char> byte = next_byte();
      if (byte) key += *byte;
      return byte.has_value();
    };
    if (!take()) return std::nullopt;
    if (key[0] == kEscape) {
      if (!take()) return std::nullopt;
      if (key[1] == 'O') {
        if (!take()) return std::nullopt;
      } else if (key[1] == '[') {
        do {
          if (!take()) return std::nullopt;
        } while (key.back() < '@' || key.back() > '~');
      }
      return key;
    }
    const auto lead = static_cast<unsigned char>(key[0]);
    const std::size_t n_bytes = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    while (key.size() < n_bytes)
      if (!take()) return std::nullopt;
    return key;
  }

  // Returns the characters in the input buffer up to the next control key. Terminals without bracketed paste
  // send pastes like this.
  std::string take_text() {
    std::size_t end = next_;
    while (end < input_.size() && is_text(std::string_view(input_).substr(end, 1))) ++end;
    // The last character may not have been read to its end.
    const auto byte_before = [&] { return end > next_ ? static_cast<unsigned char>(input_[end - 1]) : 0; };
    if (end == input_.size()) {
      while ((byte_before() & 0xc0) == 0x80) --end;
      if (byte_before() >= 0xc0) --end;
    }
    std::string text = input_.substr(next_, end - next_);
    next_ = end;
    return text;
  }

  // A paste is one insertion, whatever lines it has: the terminal ends it with kPasteEnd.
  std::string read_paste() {
    std::string text;
    while (!text.ends_with(kPasteEnd)) {
      const std::optional<char> byte = next_byte();
      if (!byte) return text;
      text += *byte;
    }
    text.resize(text.size() - kPasteEnd.size());
    return text;
  }

  // Reads all available input. Meanwhile the window may get another size.
  std::optional<char> next_byte() {
    constexpr int kLook = 200;  // ms
    constexpr std::size_t kMost = 4096;
    if (next_ < input_.size()) return input_[next_++];
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    while (::poll(&input, 1, kLook) == 0) {
      const int now = columns_of(STDOUT_FILENO);
      if (std::exchange(columns_, now) == now) continue;
      screen_.resize(now);
      draw();
    }
    errno = 0;
    input_.resize(kMost);
    const ssize_t n = ::read(STDIN_FILENO, input_.data(), input_.size());
    input_.resize(n > 0 ? to_size(n) : 0);
    next_ = 0;
    return n > 0 ? std::optional(input_[next_++]) : std::nullopt;
  }

  bool has_input() const {
    if (next_ < input_.size()) return true;
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    return ::poll(&input, 1, 0) > 0;
  }

  std::string input_;     // Input bytes.
  std::size_t next_ = 0;  // Index of the first unused byte. The next line may begin with the rest.
  LineHistory history_;
  EditBuffer buffer_;
  ScreenLines screen_;
  std::string prompt_;
  bool color_ = false;
  int columns_ = 0;
  std::size_t position_ = 0;           // Index of the shown line in the history.
  std::string typed_;                  // The unfinished line, while another is shown.
  std::optional<std::string> search_;  // The search string.
};

LineEditor::LineEditor(std::filesystem::path history_file) {
  shows_prompt_ = is_terminal(STDIN_FILENO) && is_terminal(STDOUT_FILENO);
  if (shows_prompt_ && moves_cursor(STDOUT_FILENO))
    terminal_ = std::make_unique<Terminal>(std::move(history_file));
}

LineEditor::~LineEditor() = default;

LineEditor::Result LineEditor::read(const std::string& prompt, bool color, std::string& line) {
  line.clear();
  if (terminal_) return terminal_->read(prompt, color, line);
  if (shows_prompt_) print(prompt);
  const Result result = read_plain(line);
  if (shows_prompt_ && result == Result::kInterrupted) print("\n");
  if (std::exchange(is_first_line_, false)) drop_byte_order_mark(line);
  return result;
}

std::filesystem::path default_history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state != '\0') return std::filesystem::path(state) / "weft" / "history";
  const char* home = std::getenv("HOME");
  if (home == nullptr) return {};
  return std::filesystem::path(home) / ".local" / "state" / "weft" / "history";
}

}  // namespace weft::cli
