#pragma once
// An answer as it comes, for people: on a terminal markdown is shown as what it means, thoughts are dim and
// lines are broken at words; elsewhere the text is written as it is.
#include <memory>
#include <string_view>

#include "weft/chat.h"

namespace weft::cli {

class AnswerView {
 public:
  struct Params {
    bool styled = false;    ///< Stdout is a terminal that shows styles: thoughts and calls are dim.
    bool markdown = false;  ///< Markdown is shown by styles.
    bool wraps = false;     ///< The terminal moves its cursor: lines are broken at words.
  };
  explicit AnswerView(Params params);
  ~AnswerView();

  void show(const AnswerEvent& event);
  bool any() const;  ///< Whether anything was shown.
  /// The answer has ended: its last line, too.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cli
