#pragma once
// The grammar constraint of one completion.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/configuration.h"
#include "grammar/token_masks.h"
#include "grammar/token_table.h"
#include "grammar/walker.h"
#include "weft/batcher.h"

namespace weft::grammar {

/// A compiled grammar's parts. Immutable but for the masks, which any number of threads may use.
struct Program {
  Program(std::shared_ptr<const TokenTable> table_in, Automaton automaton_in, std::size_t mask_bytes)
      : table(std::move(table_in)),
        automaton(std::move(automaton_in)),
        short_masks(automaton, table->short_tokens(), table->n_vocab(), mask_bytes),
        long_masks(automaton, table->long_tokens(), table->n_vocab(), mask_bytes / 4) {}

  std::shared_ptr<const TokenTable> table;
  Automaton automaton;
  TokenMasks short_masks, long_masks;
};

/// Whether the automaton accepts the whole string. Special tokens are given by their spelling.
bool allows_text(const Program& program, std::string_view text);

/// Throws Error kInvalidArgument for tokens that were not allowed.
class Constraint final : public TokenConstraint {
 public:
  /// `owner` keeps `program` alive.
  Constraint(std::shared_ptr<const void> owner, const Program& program);

  void accept(Token token) override;
  void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) override;
  bool allows(std::span<const Token> draft, Token next) override;
  void forced(std::span<const Token> draft, std::vector<Token>& tokens) override;

 private:
  struct Place {
    Configuration configuration;
    bool is_over = false;  // An end token was written.
  };

  bool advance(const Place& from, Token token, Place& to);
  const Place& behind(std::span<const Token> draft);
  bool try_behind(std::span<const Token> draft);
  /// The only byte, or the only special token, that may follow; kNone where there is a choice.
  struct Only {
    enum class Kind { kNone, kByte, kToken } kind = Kind::kNone;
    std::uint8_t byte = 0;
    Token token = kNoToken;
  };
  Only only_way(const Configuration& from) const;
  void append_forced(std::string_view text, const Configuration& end, std::vector<Token>& tokens);
  void drop_unused_stacks();

  std::shared_ptr<const void> owner_;
  const Program& program_;
  Stacks stacks_;
  Stepper stepper_;
  Walker walker_;
  std::size_t stacks_kept_ = 0;
  // The place after the accepted tokens, then one after each token of the last draft.
  std::vector<Place> places_;
  std::size_t n_places_ = 1;
  std::vector<Token> draft_;
  Configuration scratch_;
};

}  // namespace weft::grammar
