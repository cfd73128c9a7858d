#pragma once
// Configuration files in TOML: values of options by their long names, for all commands or in a table named as
// the command. Knows the syntax, not the options. toml++ is seen by config_file.cpp only.
//
//   ctx-size = 8192
//   [run]
//   stop = ["\n\n", "User:"]
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

struct ConfigEntry {
  std::string table;  ///< "run", or empty at the top.
  std::string key;
  std::vector<std::string> values;  ///< As they would be written on the command line.
  bool is_array = false;
  int line = 0;
};

struct ConfigFile {
  std::string path;
  /// Tables that the file has, with or without entries, and their lines.
  struct Table {
    std::string name;
    int line = 0;
  };
  std::vector<Table> tables;
  std::vector<ConfigEntry> entries;  ///< By line.

  /// "PATH:3"
  std::string place(int line) const;
};

/// Throws UsageError that names `path` and the line.
ConfigFile parse_config(const std::string& path, std::string_view text);

/// Returns the files in force. That is `named` alone, if given (if empty, no file); otherwise the user's
/// file, then the system's, if they exist. The first file that sets an option decides. `notes` receives why
/// the user's or the system's file could not be read. Throws UsageError, and Error kNotFound or kIo for a
/// named file that cannot be read.
std::vector<ConfigFile> read_configs(const std::optional<std::string>& named,
                                     std::vector<std::string>& notes);

}  // namespace weft::cli
