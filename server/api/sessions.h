#pragma once
// Sequences of slots in files: llama.cpp's /slots/N?action=save, restore, erase. Weft has no slots: slot N is
// the prompt and completion of the last request with "id_slot": N.
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "api/job.h"

namespace weft::server {

/// Any number of threads.
class Sessions {
 public:
  /// With an empty path, sessions are refused. Throws Error kIo if it is not a folder.
  explicit Sessions(const std::filesystem::path& folder);
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  /// The sequence of a slot, and the adapters that it was computed with.
  struct Text {
    std::vector<Token> tokens;
    std::vector<AdapterUse> adapters;
    /// The lengths of prefixes at which the model may have left snapshots (BatcherParams::n_snapshots).
    std::vector<int> snapshots = {};
  };

  bool enabled() const { return folder_ >= 0; }
  /// `owner`: as Job has it. Owners have slots and files of their own.
  void remember(const std::string& owner, const std::string& model, int slot, Text text);
  /// Handles POST /slots/`slot`?action=...
  void act(Job& job, int slot, const std::string& action);

 private:
  Text text_of(const std::string& owner, const std::string& model, int slot) const;
  void save(Job& job, int slot, const std::string& name);
  void restore(Job& job, int slot, const std::string& name);

  int folder_ = -1;
  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, std::string, int>, Text> texts_;  ///< By owner, model and slot.
};

}  // namespace weft::server
