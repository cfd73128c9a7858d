#pragma once
// What is known of rules before automata are made of them: which match the empty text, and which are copied
// into those that use them.
#include <cstdint>
#include <vector>

#include "grammar/budget.h"
#include "grammar/language.h"

namespace weft::grammar {

struct RuleFacts {
  bool nullable = false;
  /// It stands where it is used. A rule that calls itself is called; so is one that reads long texts of any
  /// characters and is used more than once: all its users share the masks of its states then.
  bool is_inlined = false;
};

/// One for each rule. Rules that nobody uses may have no facts.
std::vector<RuleFacts> find_facts(const Language& language, Budget& budget);

}  // namespace weft::grammar
