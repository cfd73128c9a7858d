#include "options/constraint_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <vector>

#include "commands/command.h"
#include "options/options.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

const GrammarLimits kLimits = {
    .source_bytes = std::size_t{1} << 24, .states = 1 << 22, .work = std::int64_t{1} << 32};

}  // namespace

void add_constraint_options(CLI::App& app, ConstraintOptions& options) {
  const std::string group = "Constraints";
  app.add_option("--grammar", options.grammar,
                 "constrain the output to a grammar (GBNF; starts at the rule root)")
      ->type_name("GBNF")
      ->group(group);
  app.add_option("--grammar-file", options.grammar_file, "the grammar from a file")
      ->type_name("FILE")
      ->group(group);
  app.add_option("-j,--json-schema", options.schema,
                 "constrain the output to JSON that matches this schema; '{}': any JSON")
      ->type_name("SCHEMA")
      ->group(group);
  app.add_option("--json-schema-file", options.schema_file, "the JSON schema from a file")
      ->type_name("FILE")
      ->group(group);
}

std::optional<Grammar> grammar_of(const ConstraintOptions& options) {
  struct Source {
    const char* option;
    const std::string& value;
    bool is_file;
    bool is_schema;
  };
  const Source sources[] = {{"--grammar", options.grammar, false, false},
                            {"--grammar-file", options.grammar_file, true, false},
                            {"--json-schema", options.schema, false, true},
                            {"--json-schema-file", options.schema_file, true, true}};
  std::optional<Grammar> grammar;
  const char* given = nullptr;
  for (const Source& source : sources) {
    if (source.value.empty()) continue;
    if (given != nullptr)
      throw UsageError(
          fmt::format("{} and {} both constrain the output; give one of them", given, source.option));
    given = source.option;
    const std::string text = source.is_file ? read_text(source.value) : source.value;
    const std::string where =
        source.is_file ? fmt::format("{} {}", source.option, source.value) : source.option;
    try {
      grammar =
          source.is_schema ? Grammar::json_schema(text, {.limits = kLimits}) : Grammar::gbnf(text, kLimits);
    } catch (const Error& error) {
      throw UsageError(fmt::format("{}: {}", where, error.what()));
    }
  }
  return grammar;
}

std::shared_ptr<const CompiledGrammar> compile(const GrammarCompiler& compiler, const Grammar& grammar) {
  return compiler.compile(grammar, kLimits);
}

}  // namespace weft::cli
