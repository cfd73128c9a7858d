#pragma once
// A language to the automaton that runs it.
#include "grammar/automaton.h"
#include "grammar/budget.h"
#include "grammar/language.h"
#include "grammar/special_tokens.h"

namespace weft::grammar {

/// Throws Error kInvalidArgument for a language without a text, for rules that begin with themselves, and
/// where the budget is exceeded.
Automaton compile(const Language& language, const SpecialTokens& special, Budget& budget);

}  // namespace weft::grammar
