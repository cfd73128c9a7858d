#include <memory>
#include <utility>

#include "grammar/budget.h"
#include "grammar/compile.h"
#include "grammar/constraint.h"
#include "grammar/language.h"
#include "grammar/token_table.h"
#include "weft/grammar.h"

namespace weft {
namespace {

constexpr std::size_t kMaxAutomatonBytes = std::size_t{40} << 20;
// Together with the automaton and the masks of long tokens, 64 MiB.
constexpr std::size_t kMaxMaskBytes = std::size_t{18} << 20;
constexpr int kPreparedMasks = 8;

}  // namespace

struct CompiledGrammar::Impl {
  Impl(std::shared_ptr<const grammar::TokenTable> table, grammar::Automaton automaton)
      : program(std::move(table), std::move(automaton), kMaxMaskBytes) {}
  grammar::Program program;
};

CompiledGrammar::CompiledGrammar(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
CompiledGrammar::~CompiledGrammar() = default;

std::unique_ptr<TokenConstraint> CompiledGrammar::constraint() const {
  return std::make_unique<grammar::Constraint>(impl_, impl_->program);
}

bool CompiledGrammar::allows_text(std::string_view text) const {
  return grammar::allows_text(impl_->program, text);
}

std::size_t CompiledGrammar::bytes() const {
  return impl_->program.automaton.bytes() + impl_->program.short_masks.bytes() +
         impl_->program.long_masks.bytes();
}

struct GrammarCompiler::Impl {
  std::shared_ptr<const grammar::TokenTable> table;
};

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer)
    : impl_(std::make_shared<const Impl>(Impl{std::make_shared<const grammar::TokenTable>(tokenizer)})) {}
GrammarCompiler::~GrammarCompiler() = default;

std::shared_ptr<const CompiledGrammar> GrammarCompiler::compile(const Grammar& grammar,
                                                                const GrammarLimits& limits) const {
  grammar::Budget budget(limits);
  grammar::Automaton automaton = grammar::compile(grammar.rules_->language, impl_->table->special(), budget);
  if (automaton.bytes() > kMaxAutomatonBytes)
    grammar::refuse("the compiled grammar takes " + std::to_string(automaton.bytes() >> 20) +
                    " MiB, at most " + std::to_string(kMaxAutomatonBytes >> 20) +
                    " are allowed: use smaller repetitions or fewer alternatives");
  auto impl = std::make_shared<const CompiledGrammar::Impl>(impl_->table, std::move(automaton));
  impl->program.short_masks.prepare(kPreparedMasks);
  return std::shared_ptr<const CompiledGrammar>(new CompiledGrammar(std::move(impl)));
}

}  // namespace weft
