#pragma once
// Compiles a language to an automaton.
#include "grammar/automaton.h"
#include "grammar/budget.h"
#include "grammar/language.h"
#include "grammar/special_tokens.h"

namespace weft::grammar {

/// Throws Error kInvalidArgument for an empty language, for left recursion, and if the budget is exceeded.
Automaton compile(const Language& language, const SpecialTokens& special, Budget& budget);

}  // namespace weft::grammar
