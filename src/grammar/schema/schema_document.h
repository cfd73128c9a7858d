#pragma once
// A JSON schema that is read once, and written to grammars as a whole or property by property.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/budget.h"
#include "grammar/schema/keywords.h"
#include "weft/grammar.h"

namespace weft::grammar {

struct Language;

/// Immutable, any number of threads. The methods spend the caller's budget.
class SchemaDocument {
 public:
  /// Throws Error kInvalidArgument for invalid JSON and exceeded limits.
  explicit SchemaDocument(std::string_view text, const GrammarLimits& limits = {});

  /// The properties of the objects that the schema describes, in its order.
  SchemaProperties properties(Budget& budget) const;

  Grammar whole(Budget& budget, const JsonSchemaOptions& options) const;
  /// The property's value as JSON.
  Grammar json(const SchemaProperty& property, Budget& budget, const JsonSchemaOptions& options) const;
  /// Strings and null without quotes and escapes, up to a tag `end` that they do not contain.
  Grammar bare(const SchemaProperty& property, std::string_view end, Budget& budget,
               const JsonSchemaOptions& options) const;

 private:
  /// The grammar of the language, whose nodes spend the budget.
  static Grammar counted(Language language, Budget& budget);

  JsonTree tree_;
};

}  // namespace weft::grammar
