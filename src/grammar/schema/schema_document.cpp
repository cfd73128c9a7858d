#include "grammar/schema/schema_document.h"

#include <algorithm>

#include "grammar/schema/schema_writer.h"

namespace weft::grammar {
namespace {

constexpr int kMaxDepth = 400;       // Independent of GrammarLimits.
constexpr std::int64_t kCopies = 4;  // The grammars around a schema copy each node about so often.

}  // namespace

SchemaDocument::SchemaDocument(std::string_view text, const GrammarLimits& limits)
    : tree_((check_source(text, limits, "the JSON schema"), text), std::min(limits.depth, kMaxDepth),
            "the JSON schema") {}

SchemaProperties SchemaDocument::properties(Budget& budget) const {
  // A full list: notes are made when the schema is written.
  std::vector<std::string> notes(JsonSchemaOptions::kMostNotes);
  const JsonSchemaOptions options{.left_free = &notes};
  return SchemaWriter(tree_, options, budget).properties_of({SchemaPart{tree_.root()}});
}

Grammar SchemaDocument::counted(Language language, Budget& budget) {
  budget.spend(kCopies * static_cast<std::int64_t>(language.nodes.size()));
  return Grammar(std::make_shared<const Grammar::Rules>(Grammar::Rules{std::move(language)}));
}

Grammar SchemaDocument::whole(Budget& budget, const JsonSchemaOptions& options) const {
  SchemaWriter writer(tree_, options, budget);
  return counted(writer.run({SchemaPart{tree_.root()}}), budget);
}

Grammar SchemaDocument::json(const SchemaProperty& property, Budget& budget,
                             const JsonSchemaOptions& options) const {
  SchemaWriter writer(tree_, options, budget);
  return counted(writer.run(property.schema), budget);
}

Grammar SchemaDocument::bare(const SchemaProperty& property, std::string_view end, Budget& budget,
                             const JsonSchemaOptions& options) const {
  SchemaWriter writer(tree_, options, budget);
  return counted(writer.run_bare(property.schema, end), budget);
}

}  // namespace weft::grammar

namespace weft {

Grammar Grammar::json_schema(std::string_view schema, const JsonSchemaOptions& options) {
  grammar::Budget budget(options.limits);
  return grammar::SchemaDocument(schema, options.limits).whole(budget, options);
}

Grammar Grammar::json_object() { return json_schema(R"({"type": "object"})"); }

}  // namespace weft
