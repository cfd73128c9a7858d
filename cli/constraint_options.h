#pragma once
// Options that say what a text is held to: a grammar or a JSON schema, as requests of the server have them.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

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

/// What they say; nothing where none is given. Throws UsageError where several are, and for what is no
/// grammar or no schema, with the place in it.
std::optional<Grammar> grammar_of(const ConstraintOptions& options);

/// Who runs weft waits as long as a large grammar takes.
std::shared_ptr<const CompiledGrammar> compile(const GrammarCompiler& compiler, const Grammar& grammar);

}  // namespace weft::cli
