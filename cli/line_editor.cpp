#include "line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <iostream>
#include <string_view>
#include <utility>

#include "terminal.h"

namespace weft::cli {
namespace {

constexpr int kHistorySize = 1000;
constexpr char kEscapeMark = '\1';  // around what takes no room in a prompt
constexpr std::wstring_view kPasteEnd = L"\033[201~";

}  // namespace

struct LineEditor::Terminal {
  explicit Terminal(std::filesystem::path file) : history_file(std::move(file)) {
    use_utf8();
    HistEvent event;
    history = ::history_init();
    ::history(history, &event, H_SETSIZE, kHistorySize);
    ::history(history, &event, H_SETUNIQUE, 1);
    if (!history_file.empty()) ::history(history, &event, H_LOAD, history_file.c_str());
    editor = ::el_init("weft", stdin, stdout, stderr);
    ::el_set(editor, EL_CLIENTDATA, this);
    ::el_set(editor, EL_PROMPT_ESC, &Terminal::prompt_of, kEscapeMark);
    ::el_set(editor, EL_EDITOR, "emacs");
    ::el_set(editor, EL_HIST, ::history, history);
    ::el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    ::el_source(editor, nullptr);  // ~/.editrc
    // The wide form keeps these literals; the narrow one leaks its copies of them.
    ::el_wset(editor, EL_ADDFN, L"weft-interrupt", L"give the line up", &Terminal::on_interrupt);
    ::el_set(editor, EL_BIND, "^C", "weft-interrupt", nullptr);
    ::el_wset(editor, EL_ADDFN, L"weft-paste", L"insert what is pasted", &Terminal::on_paste);
    ::el_set(editor, EL_BIND, "\\e[200~", "weft-paste", nullptr);
    ::el_wset(editor, EL_GETCFN, &Terminal::read_character);
    columns = columns_of(STDOUT_FILENO);
  }
  ~Terminal() {
    HistEvent event;
    if (!history_file.empty()) {
      std::error_code ignored;
      std::filesystem::create_directories(history_file.parent_path(), ignored);
      ::history(history, &event, H_SAVE, history_file.c_str());
      // What was typed is nobody else's business.
      std::filesystem::permissions(
          history_file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, ignored);
    }
    ::el_end(editor);
    ::history_end(history);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static Terminal* of(EditLine* editor) {
    Terminal* self = nullptr;
    ::el_get(editor, EL_CLIENTDATA, &self);
    return self;
  }
  static char* prompt_of(EditLine* editor) { return of(editor)->prompt.data(); }
  static unsigned char on_interrupt(EditLine* editor, int /*key*/) {
    of(editor)->interrupted = true;
    return CC_EOF;
  }

  // A pasted text is one text, whatever lines it has: the terminal puts kPasteEnd behind it.
  static unsigned char on_paste(EditLine* editor, int /*key*/) {
    std::wstring text;
    wchar_t c = 0;
    while (!text.ends_with(kPasteEnd)) {
      if (::el_wgetc(editor, &c) != 1) return CC_EOF;
      // Terminals send lines as the return key would.
      if (c == L'\n' && text.ends_with(L'\r')) continue;
      text += c;
    }
    text.resize(text.size() - kPasteEnd.size());
    std::replace(text.begin(), text.end(), L'\r', L'\n');
    std::erase_if(text, [](wchar_t at) { return at < L' ' && at != L'\n' && at != L'\t'; });
    while (text.ends_with(L'\n')) text.pop_back();
    return ::el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }

  // While a line is typed Ctrl-C is a key, not a signal: a signal between two reads would be lost. (libedit's
  // own setting for this is undone when it copies what the terminal had before.)
  static void take_interrupt_as_key() {
    termios mode{};
    if (::tcgetattr(STDIN_FILENO, &mode) != 0 || mode.c_cc[VINTR] == _POSIX_VDISABLE) return;
    mode.c_cc[VINTR] = _POSIX_VDISABLE;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &mode);
  }

  // As libedit's own, but it sees that the window changed its size.
  static int read_character(EditLine* editor, wchar_t* character) {
    constexpr int kLook = 200;  // ms
    std::mbstate_t state{};
    take_interrupt_as_key();
    while (true) {
      pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      const int ready = ::poll(&input, 1, kLook);
      if (ready < 0 && errno != EINTR) return -1;
      if (ready <= 0) {
        of(editor)->follow_window();
        continue;
      }
      char byte = 0;
      const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return static_cast<int>(n);
      const std::size_t used = std::mbrtowc(character, &byte, 1, &state);
      if (used == static_cast<std::size_t>(-1)) {
        state = {};  // No UTF-8: it is left out.
      } else if (used != static_cast<std::size_t>(-2)) {
        return 1;
      }
    }
  }

  void follow_window() {
    const int now = columns_of(STDOUT_FILENO);
    if (std::exchange(columns, now) == now) return;
    ::el_resize(editor);
    ::el_set(editor, EL_REFRESH);
  }

  std::filesystem::path history_file;
  std::string prompt;
  int columns = 0;
  bool interrupted = false;
  History* history = nullptr;
  EditLine* editor = nullptr;
};

LineEditor::LineEditor(std::filesystem::path history_file) {
  if (is_terminal(STDIN_FILENO) && is_terminal(STDOUT_FILENO)) {
    terminal_ = std::make_unique<Terminal>(std::move(history_file));
  }
}

LineEditor::~LineEditor() = default;

LineEditor::Result LineEditor::read(const std::string& prompt, bool color, std::string& line) {
  line.clear();
  if (!terminal_) return std::getline(std::cin, line) ? Result::kLine : Result::kEnd;

  const auto mark = [](std::string_view escape) { return kEscapeMark + std::string(escape) + kEscapeMark; };
  // The colour ends before the last character: libedit loses an escape sequence at the prompt's end.
  const std::string_view visible = prompt, sign = visible.substr(0, visible.size() - 1);
  terminal_->prompt =
      color ? mark("\033[1;32m") + std::string(sign) + mark("\033[0m") + prompt.back() : prompt;
  terminal_->interrupted = false;
  terminal_->follow_window();
  int n = 0;
  const bool marks_pastes = moves_cursor(STDOUT_FILENO);
  if (marks_pastes) print("\033[?2004h");
  const char* text = ::el_gets(terminal_->editor, &n);
  const int error = errno;
  if (marks_pastes) print("\033[?2004l");
  if (terminal_->interrupted) return Result::kInterrupted;
  // Another signal may end the read as well; it has had its effect.
  if (n < 0 && error == EINTR) return Result::kInterrupted;
  if (text == nullptr || n <= 0) return Result::kEnd;
  line.assign(text, static_cast<std::size_t>(n));
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  if (!line.empty()) {
    HistEvent event;
    ::history(terminal_->history, &event, H_ENTER, line.c_str());
  }
  return Result::kLine;
}

std::filesystem::path default_history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state != '\0') return std::filesystem::path(state) / "weft" / "history";
  const char* home = std::getenv("HOME");
  if (home == nullptr) return {};
  return std::filesystem::path(home) / ".local" / "state" / "weft" / "history";
}

}  // namespace weft::cli
