#pragma once
// The opening of a chat as Python holds it.
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "binding.h"
#include "grammar.h"
#include "model.h"
#include "weft/chat.h"

namespace weft::python {

/// A prompt and the state for reading its response. Used by one thread at a time.
class Opening {
 public:
  /// An event: kind, string, index of the call, its name and its id.
  using Event = std::tuple<std::string_view, nb::str, int, nb::str, nb::str>;

  Opening(ModelPtr model, ChatOpening opening);

  const std::vector<Token>& tokens() const { return tokens_; }
  nb::str prompt() const { return to_str(prompt_); }
  const std::vector<std::string>& stop() const { return stop_; }
  /// Adds what the response needs: its stop strings, control tokens, constraint and snapshots.
  void add_to(RequestParams& params) const;
  std::vector<Event> push(std::string_view text);
  std::vector<Event> finish(bool was_cut);

 private:
  ModelPtr model_;
  std::vector<Token> tokens_;
  std::string prompt_;
  std::vector<std::string> stop_;
  std::vector<int> snapshot_at_;
  std::shared_ptr<const CompiledGrammar> grammar_;  ///< May be null.
  std::optional<ReasoningLimit> limit_;
  ResponseReader reader_;
  OneUser user_;
};

}  // namespace weft::python
