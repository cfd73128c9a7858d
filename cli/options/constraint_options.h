#pragma once
// Options that constrain completions: a grammar or a JSON schema, as in server requests.
#include <memory>
#include <optional>
#include <string>

#include "options/option_types.h"
#include "weft/grammar.h"

namespace weft::cli {

struct ConstraintOptions {
  std::string grammar;
  std::string grammar_file;
  std::string schema;
  std::string schema_file;
};
/// --grammar, --json-schema, and both from files.
void add_constraint_options(CLI::App& app, ConstraintOptions& options);

/// The constraint, or nothing if none is given. Throws UsageError if several are given, and for an invalid
/// grammar or schema, with the place of the error.
std::optional<Grammar> grammar_of(const ConstraintOptions& options);

/// Compiles with higher limits than the server's, as only this user waits for a large grammar.
std::shared_ptr<const CompiledGrammar> compile(const GrammarCompiler& compiler, const Grammar& grammar);

}  // namespace weft::cli
