#pragma once
// Lines from the user: with editing and history on a terminal, plain lines from a file or a pipe.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace weft::cli {

class LineEditor {
 public:
  /// The history is read from that file and written back at the end; empty: none is kept.
  explicit LineEditor(std::filesystem::path history_file);
  ~LineEditor();

  enum class Result {
    kLine,
    kInterrupted,  ///< Ctrl-C; what was typed is gone.
    kEnd,          ///< Ctrl-D, or the end of the file.
  };
  /// Reads a line, without its newline; what was pasted on a terminal may have several. `prompt`, which must
  /// not be empty, is shown on a terminal only.
  Result read(const std::string& prompt, bool color, std::string& line);

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // null off a terminal
};

/// ${XDG_STATE_HOME:-$HOME/.local/state}/weft/history
std::filesystem::path default_history_file();

}  // namespace weft::cli
