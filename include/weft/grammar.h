#pragma once
// Grammars that constrain a completion, token by token: JSON schemas, GBNF grammars, regular expressions, and
// combinations of them.
//
//   weft::GrammarCompiler compiler(model->tokenizer());
//   auto answer = compiler.compile(weft::Grammar::json_schema(schema));
//   params.constraint = [answer](int) { return answer->constraint(); };
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

/// The cost of a grammar. A source beyond a limit throws Error kInvalidArgument. Limits count work, so the
/// same source is always accepted or always rejected.
struct GrammarLimits {
  std::size_t source_bytes = std::size_t{1} << 20;
  int depth = 128;                ///< Nesting of schemas, brackets and groups.
  std::int64_t states = 1 << 20;  ///< States of a compiled grammar.
  std::int64_t work = 1 << 24;    ///< Steps of reading a source, and of compiling a grammar: about a second.
};

struct JsonSchemaOptions {
  GrammarLimits limits = {};
  /// White space between the parts of objects and arrays: at most one space or line break with indentation.
  /// Without it none but ", " and ": ", as models like to write.
  bool any_whitespace = false;
  /// Null: a keyword that cannot be enforced is an error. Otherwise it is not enforced, the rest of the
  /// schema is, and a note "#/properties/a/uniqueItems: why" is appended here (kMostNotes at most).
  std::vector<std::string>* left_free = nullptr;
  static constexpr std::size_t kMostNotes = 16;
};

/// A language over bytes. Immutable, any number of threads; copies share the parsed rules. The parsing
/// functions throw Error kInvalidArgument with the position and what to write instead.
class Grammar {
 public:
  /// llama.cpp's GBNF; begins at the rule "root".
  static Grammar gbnf(std::string_view source, const GrammarLimits& limits = {});
  /// The whole completion matches the pattern. Supports the regular part of ECMAScript's expressions (no
  /// backreferences, no lookaround).
  static Grammar regex(std::string_view pattern, const GrammarLimits& limits = {});
  /// JSON values that the schema (draft 2020-12) allows. A keyword that cannot be enforced is an error with
  /// its JSON pointer, unless JsonSchemaOptions::left_free is set. Annotations and formats outside JSON
  /// Schema are ignored. Properties keep the schema's order. Without additionalProperties, an object with
  /// `properties` has no other ones. Without items, an array with prefixItems ends with them. oneOf is read
  /// as anyOf. Bounded numbers have no exponent, bounded strings no \u.
  static Grammar json_schema(std::string_view schema, const JsonSchemaOptions& options = {});
  static Grammar json_object();  ///< Any JSON object.

  // Building blocks:
  static Grammar literal(std::string_view text);
  /// The special token with this string, or the string itself if the tokenizer has none.
  static Grammar tag(std::string_view text);
  static Grammar sequence(std::vector<Grammar> parts);
  static Grammar choice(std::vector<Grammar> parts);
  static Grammar repeat(Grammar part, int least, int most);  ///< most < 0: any number.
  /// The part 1 to `most` times, with separators between.
  static Grammar list(Grammar part, Grammar separator, int most);
  /// One or more of the parts, in their order, with separators between. The size is linear in the parts.
  static Grammar some_of(const std::vector<Grammar>& parts, const Grammar& separator);
  /// Free output with tagged parts. The output contains none of the tags, except when a tag begins a part:
  /// the tag is followed by its grammar, then by free output again. There are at least `least` and at most
  /// `most` such parts (< 0: any number).
  static Grammar free_text(std::vector<std::pair<std::string, Grammar>> tags, int least = 0, int most = -1);
  /// Any output up to and including the first occurrence of the tag, for example reasoning before a response.
  static Grammar until(std::string_view tag);

 private:
  friend class GrammarCompiler;
  friend class grammar::SchemaDocument;
  struct Rules;
  explicit Grammar(std::shared_ptr<const Rules> rules);
  std::shared_ptr<const Rules> rules_;
};

/// A grammar over the tokens of one vocabulary. Immutable, any number of threads. Must not outlive the
/// tokenizer.
class CompiledGrammar {
 public:
  ~CompiledGrammar();
  /// The state of one completion in this grammar. It keeps the grammar alive.
  std::unique_ptr<TokenConstraint> constraint() const;
  /// Whether it allows exactly this completion; for tests.
  bool allows_text(std::string_view text) const;
  std::size_t bytes() const;

 private:
  friend class GrammarCompiler;
  struct Impl;
  explicit CompiledGrammar(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

/// Shared by all grammars of a vocabulary: its tokens as a tree of bytes. Immutable, any number of threads;
/// one per model.
class GrammarCompiler {
 public:
  explicit GrammarCompiler(const Tokenizer& tokenizer);
  ~GrammarCompiler();
  std::shared_ptr<const CompiledGrammar> compile(const Grammar& grammar,
                                                 const GrammarLimits& limits = {}) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
