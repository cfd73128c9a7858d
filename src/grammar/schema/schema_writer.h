#pragma once
// JSON schemas to rules of a language. Each group of schemas that must hold together becomes a rule, which is
// built from a queue. References may be cyclic, and the writer is not recursive.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/budget.h"
#include "grammar/language.h"
#include "grammar/schema/keywords.h"

namespace weft::grammar {

class SchemaWriter {
 public:
  SchemaWriter(const JsonTree& tree, const JsonSchemaOptions& options, Budget& budget);

  /// The properties of the objects that schemas describe, with their types.
  SchemaProperties properties_of(const Conjunction& schemas);
  /// The types that values may have, as TypeBit.
  unsigned types_of(const Conjunction& schemas);

  /// JSON values.
  Language run(const Conjunction& root);
  /// Strings and null without quotes and escapes, up to a tag `end` that they do not contain. Other types are
  /// not written.
  Language run_bare(const Conjunction& root, std::string_view end);

 private:
  // schema_writer.cpp
  template <typename Visit>
  void visit_alternatives(const Conjunction& root, Visit&& visit);
  std::vector<Conjunction> alternatives(const Keywords& keywords);
  NodeId value_of(Conjunction conjunction);
  NodeId any_value();
  NodeId any_object();
  NodeId write(const Conjunction& conjunction);
  NodeId union_of(const Keywords& keywords);
  NodeId values_of(const Keywords& keywords);
  unsigned types_of(const Keywords& keywords) const;
  NodeId literal(ValueId value);
  bool are_equal(ValueId a, ValueId b) const;
  static unsigned type_of(const JsonValue& value);
  std::vector<ValueId> choices_of(const Keywords& keywords);
  NodeId enumeration(const Keywords& keywords);
  static Keywords without_length(Keywords keywords);
  static bool has_length(std::string_view text, const Keywords& keywords);
  /// A rule that is made once for a name.
  template <typename Make>
  NodeId shared(const std::string& name, Make&& make) {
    const auto [at, added] = shared_.try_emplace(name, RuleId{0});
    if (added) {
      const RuleId rule = at->second = builder_.declare(name);
      builder_.define(rule, make());
    }
    return builder_.rule(at->second);
  }

  // scalar_schemas.cpp
  NodeId any_string();
  NodeId string(const Keywords& keywords);
  NodeId bare(const Keywords& keywords, NodeId any_text);
  bool limits_strings(const Keywords& keywords) const;
  std::optional<NodeId> pattern(ValueId at, std::string_view source, bool anywhere, bool in_json);
  std::vector<NodeId> string_contents(const Keywords& keywords, NodeId any, bool in_json);
  void add_length(const Keywords& keywords, NodeId any, std::vector<NodeId>& contents);
  bool is_format_alone(const Keywords& keywords) const;
  NodeId counted(const std::string& name, NodeId one, std::int64_t least, std::int64_t most);
  NodeId up_to(const std::string& name, NodeId one, std::int64_t most);
  NodeId block(const std::string& name, NodeId one, std::int64_t size);
  NodeId number(const Keywords& keywords, bool integer);
  bool limits_numbers(const Keywords& keywords) const;
  std::vector<NodeId> number_limits(const Keywords& keywords);
  NodeId all_of(const std::vector<NodeId>& nodes);

  // container_schemas.cpp
  struct Others {  // Properties that are not named.
    bool allowed = false;
    Conjunction schema;
    NodeId key = 0;
  };
  NodeId array(const Keywords& keywords);
  NodeId object(const Keywords& keywords);
  std::vector<SchemaProperty> properties(const Keywords& keywords);
  static bool lists_properties(const Keywords& keywords);
  bool lists_none(const Keywords& keywords) const;
  Others others(const Keywords& keywords, const std::vector<SchemaProperty>& named);
  Others pattern_properties(const ObjectKeywords& object, const Keywords& keywords);
  NodeId key_besides(const std::vector<SchemaProperty>& named);
  NodeId members(const std::vector<SchemaProperty>& named, const std::optional<NodeId>& other);
  NodeId map(NodeId member, const Keywords& keywords);
  void check_number_of_properties(const Keywords& keywords, const std::vector<SchemaProperty>& named,
                                  bool open);
  NodeId in_braces(NodeId inside, bool may_be_empty);
  NodeId space();
  NodeId comma();
  NodeId colon();

  const JsonTree& tree_;
  const JsonSchemaOptions& options_;
  Budget& budget_;
  KeywordReader reader_;
  Builder builder_;
  std::map<Conjunction, RuleId> rules_;
  std::map<std::string, RuleId> shared_;
  std::vector<std::pair<Conjunction, RuleId>> open_;
  std::size_t n_done_ = 0;
};

}  // namespace weft::grammar
