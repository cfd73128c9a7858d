#pragma once
// Stop strings: they end a text and are not part of it, wherever tokens cut them.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::engine {

/// Lets text through as soon as no stop string can begin in it any more. The list of stops must outlive it.
class StopFilter {
 public:
  explicit StopFilter(const std::vector<std::string>& stops) : stops_(&stops) {}

  /// Adds text; `out` gets what is free to go. True when a stop string was found: what precedes it is in
  /// `out`.
  bool push(std::string_view text, std::string& out) {
    held_ += text;
    std::size_t found = std::string::npos;
    for (std::size_t i = 0; i < stops_->size(); ++i) {
      if ((*stops_)[i].empty()) continue;
      const std::size_t at = held_.find((*stops_)[i]);
      if (at >= found) continue;
      found = at;
      found_ = static_cast<int>(i);
    }
    if (found != std::string::npos) {
      out = held_.substr(0, found);
      held_.clear();
      return true;
    }
    std::size_t keep = 0;
    for (const std::string& stop : *stops_)
      for (std::size_t n = std::min(stop.size(), held_.size()); n > keep; --n)
        if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) keep = n;
    out = held_.substr(0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
    return false;
  }

  /// What is still held back when the text is over.
  std::string rest() { return std::exchange(held_, {}); }
  /// The stop string that was found: the first of the list, where several begin at its place. -1: none was.
  int found() const { return found_; }

 private:
  const std::vector<std::string>* stops_;
  std::string held_;
  int found_ = -1;
};

}  // namespace weft::engine
