#include "line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "terminal.h"

namespace weft::cli {
namespace {

constexpr int kHistorySize = 1000;
constexpr char kEscapeMark = '\1';  // around what takes no room in a prompt

}  // namespace

struct LineEditor::Terminal {
  explicit Terminal(std::filesystem::path file) : history_file(std::move(file)) {
    // libedit reads UTF-8 only where the locale says so.
    if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
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
    // While a line is typed Ctrl-C is a key, not a signal: a signal between two reads would be lost.
    ::el_set(editor, EL_SETTY, "-d", "intr=", nullptr);
    // The wide form keeps these literals; the narrow one leaks its copies of them.
    ::el_wset(editor, EL_ADDFN, L"weft-interrupt", L"give the line up", &Terminal::on_interrupt);
    ::el_set(editor, EL_BIND, "^C", "weft-interrupt", nullptr);
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

  std::filesystem::path history_file;
  std::string prompt;
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
  terminal_->prompt = color ? mark("\033[1;32m") + prompt + mark("\033[0m") : prompt;
  terminal_->interrupted = false;
  int n = 0;
  const char* text = ::el_gets(terminal_->editor, &n);
  if (terminal_->interrupted) return Result::kInterrupted;
  // Another signal may end the read as well; it has had its effect.
  if (n < 0 && errno == EINTR) return Result::kInterrupted;
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
