#pragma once
// Texts of slots, kept in files: llama.cpp's /slots/N?action=save, restore, erase. Weft has no slots; what a
// request with "id_slot": N has read and written last is what slot N holds.
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
  /// An empty folder: sessions are refused. Throws Error kIo where it is none.
  explicit Sessions(const std::filesystem::path& folder);
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  /// What a slot holds, and what it was written with.
  struct Text {
    std::vector<Token> tokens;
    std::vector<AdapterUse> adapters;
  };

  bool enabled() const { return folder_ >= 0; }
  /// `owner`: as Job has it. Owners have slots and files of their own.
  void remember(const std::string& owner, const std::string& model, int slot, Text text);
  /// Answers POST /slots/`slot`?action=...
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
