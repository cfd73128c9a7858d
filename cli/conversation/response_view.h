#pragma once
// Shows a response while it is generated. A terminal gets rendered Markdown, dim reasoning and lines wrapped
// at words; other outputs get the unchanged completion.
#include <memory>
#include <string_view>

#include "weft/chat.h"

namespace weft::cli {

class ResponseView {
 public:
  struct Params {
    bool styled = false;    ///< Stdout is a terminal that shows styles: thoughts and calls are dim.
    bool markdown = false;  ///< Markdown is shown by styles.
    bool wraps = false;     ///< The terminal moves its cursor: lines are broken at words.
  };
  explicit ResponseView(Params params);
  ~ResponseView();

  void show(const ResponseEvent& event);
  bool any() const;  ///< Whether anything was shown.
  /// Call at the end of the response: flushes its last line.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cli
