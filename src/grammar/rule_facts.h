#pragma once
// Analyses rules before their automata are built: which rules match the empty string, and which are inlined.
#include <cstdint>
#include <vector>

#include "grammar/budget.h"
#include "grammar/language.h"

namespace weft::grammar {

struct RuleFacts {
  bool nullable = false;
  /// The rule is copied into its users. Recursive and large rules are called instead. So are rules that read
  /// several arbitrary characters and have several users, because the users then share the masks of their
  /// states.
  bool is_inlined = false;
};

/// One for each rule. Unused rules may have default facts.
std::vector<RuleFacts> find_facts(const Language& language, Budget& budget);

}  // namespace weft::grammar
