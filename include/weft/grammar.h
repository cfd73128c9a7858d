#pragma once
// Grammars that constrain a completion (structured output): JSON schemas, GBNF grammars, regular expressions,
// and combinations of them.
//
//   weft::GrammarCompiler compiler(model->tokenizer());
//   auto compiled = compiler.compile(weft::Grammar::json_schema(schema));
//   params.constraint = [compiled](int) { return compiled->constraint(); };  // RequestParams::constraint
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/batcher.h"
#include "weft/tokenizer.h"

#pragma GCC visibility push(default)

namespace weft {

namespace grammar {
class SchemaDocument;
}

/// Limits on the cost of a grammar. A source beyond one throws Error kInvalidArgument. Limits count work, not
/// time, so a source is accepted on all machines or on none.
struct GrammarLimits {
  std::size_t source_bytes = std::size_t{1} << 20;
  int depth = 128;                ///< The deepest nesting of schemas, brackets and groups.
  std::int64_t states = 1 << 20;  ///< The most states of a compiled grammar.
  std::int64_t work = 1 << 24;    ///< The most work units of parsing, and of compiling: about a second.
};

struct JsonSchemaOptions {
  GrammarLimits limits = {};
  /// Allows white space between the parts of objects and arrays: at most one space, or a line break with
  /// indentation. By default only ", " and ": " are allowed, as models like to write.
  bool any_whitespace = false;
  /// Null: a keyword that cannot be enforced is an error. Otherwise the rest of the schema is enforced, and a
  /// note such as "#/properties/a/uniqueItems: why" is appended, up to kMostNotes.
  std::vector<std::string>* left_free = nullptr;
  static constexpr std::size_t kMostNotes = 16;
};

/// A set of allowed strings of bytes. Immutable: any number of threads may use one, and copies are cheap.
/// Parsing functions throw Error kInvalidArgument with the position and what to write instead.
class Grammar {
 public:
  /// llama.cpp's GBNF. The start rule is "root".
  static Grammar gbnf(std::string_view source, const GrammarLimits& limits = {});
  /// The whole completion must match the pattern: ECMAScript's syntax without backreferences and lookaround.
  static Grammar regex(std::string_view pattern, const GrammarLimits& limits = {});
  /// JSON values that a schema (draft 2020-12) allows. An unenforceable keyword is an error with its JSON
  /// pointer (see JsonSchemaOptions::left_free). Annotations and unknown formats are ignored. Differences
  /// from the standard:
  /// - Properties come in the schema's order.
  /// - Objects with `properties` have no others, unless additionalProperties is set.
  /// - Arrays with prefixItems end with them, unless items is set.
  /// - oneOf means anyOf.
  /// - Numbers with bounds have no exponent, and strings with bounds no \u escapes.
  static Grammar json_schema(std::string_view schema, const JsonSchemaOptions& options = {});
  static Grammar json_object();  ///< Any JSON object.
  /// A structural tag of xgrammar and vLLM, as JSON: {"format": {...}} with a tree of formats, or the older
  /// {"structures": [...], "triggers": [...]}. Errors name the place, such as "format.tags[0].begin".
  static Grammar structural_tag(std::string_view json, const JsonSchemaOptions& options = {});

  // Building blocks:
  static Grammar literal(std::string_view text);
  /// The special token that is spelled so, or the string itself if the tokenizer has no such token.
  static Grammar tag(std::string_view text);
  static Grammar sequence(std::vector<Grammar> parts);
  static Grammar choice(std::vector<Grammar> parts);
  static Grammar repeat(Grammar part, int least, int most);  ///< most < 0: any number.
  /// The part, 1 to `most` times (most < 0: any number), with separators in between.
  static Grammar list(Grammar part, Grammar separator, int most);
  /// One or more of the parts, in their order, with separators in between. The grammar's size is linear in
  /// the number of parts.
  static Grammar some_of(const std::vector<Grammar>& parts, const Grammar& separator);
  /// Free output with tagged parts, such as tool calls. Each part is one of the tags, followed by the tag's
  /// grammar; then free output continues. Free output cannot contain a tag. There are `least` to `most` parts
  /// (most < 0: any number).
  static Grammar free_text(std::vector<std::pair<std::string, Grammar>> tags, int least = 0, int most = -1);
  /// Any output up to and including the first occurrence of the tag, such as reasoning before a response.
  static Grammar until(std::string_view tag);

 private:
  friend class GrammarCompiler;
  friend class grammar::SchemaDocument;
  struct Rules;
  explicit Grammar(std::shared_ptr<const Rules> rules);
  std::shared_ptr<const Rules> rules_;
};

/// A grammar compiled for the tokens of one vocabulary. Immutable: any number of threads may use one. The
/// tokenizer must outlive it.
class CompiledGrammar {
 public:
  ~CompiledGrammar();
  /// Makes the constraint of one completion. It keeps this grammar alive.
  std::unique_ptr<TokenConstraint> constraint() const;
  /// Whether this string is a complete completion; for tests.
  bool allows_text(std::string_view text) const;
  std::size_t bytes() const;

 private:
  friend class GrammarCompiler;
  struct Impl;
  explicit CompiledGrammar(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

/// Compiles grammars for one vocabulary, whose tokens it holds as a tree of bytes. Make one per model.
/// Immutable: any number of threads may use it. The tokenizer must outlive it.
class GrammarCompiler {
 public:
  explicit GrammarCompiler(const Tokenizer& tokenizer);
  ~GrammarCompiler();
  /// Throws Error kInvalidArgument for a grammar beyond a limit.
  std::shared_ptr<const CompiledGrammar> compile(const Grammar& grammar,
                                                 const GrammarLimits& limits = {}) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
