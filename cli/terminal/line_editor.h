#pragma once
// Lines from the user: with editing and history on a terminal, plain lines from a file, a pipe, or a terminal
// that cannot move its cursor.
//
// Keys are as in Emacs and shells: arrows, Home, End, Delete, Ctrl-A E B F H D K U W Y T L P N R, Alt-B F D.
// Alt-Enter begins a new line.
#include <filesystem>
#include <memory>
#include <string>

namespace weft::cli {

class LineEditor {
 public:
  /// The history is read from that file and written back at the end; empty: none is kept.
  explicit LineEditor(std::filesystem::path history_file);
  ~LineEditor();

  enum class Result {
    kLine,
    kInterrupted,  ///< Ctrl-C; `line` has the typed characters.
    kEnd,          ///< Ctrl-D in an empty line, or the end of the file.
  };
  /// Reads a line without its final newline; a line pasted on a terminal may contain newlines. `prompt` is
  /// shown on a terminal only.
  Result read(const std::string& prompt, bool color, std::string& line);

 private:
  class Terminal;
  std::unique_ptr<Terminal> terminal_;  // Null where the cursor cannot be moved.
  bool shows_prompt_ = false;           // Without a Terminal.
  bool is_first_line_ = true;
};

/// ${XDG_STATE_HOME:-$HOME/.local/state}/weft/history
std::filesystem::path default_history_file();

}  // namespace weft::cli
