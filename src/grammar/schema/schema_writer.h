#pragma once
// JSON schemas to rules of a language. Each group of schemas that must hold together becomes a rule, made
// when its turn comes: references may lead in circles, and nothing is recursive.
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
  Language run();

 private:
  // schema_writer.cpp
  NodeId value_of(Conjunction conjunction);
  NodeId any_value();
  NodeId any_object();
  NodeId write(const Conjunction& conjunction);
  NodeId union_of(const Keywords& keywords);
  NodeId values_of(const Keywords& keywords);
  unsigned types_of(const Keywords& keywords) const;
  NodeId literal(ValueId value);
  bool are_equal(ValueId a, ValueId b) const;
  NodeId enumeration(const Keywords& keywords);
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
  bool limits_strings(const Keywords& keywords) const;
  std::vector<NodeId> string_contents(const Keywords& keywords);
  NodeId characters(NodeId one, std::int64_t least, std::int64_t most);
  NodeId number(const Keywords& keywords, bool integer);
  bool limits_numbers(const Keywords& keywords) const;
  std::vector<NodeId> number_limits(const Keywords& keywords);
  NodeId all_of(const std::vector<NodeId>& nodes);

  // container_schemas.cpp
  struct Property {
    std::string name;
    Conjunction schema;
    bool required = false;
  };
  struct Others {  // Properties that are not named.
    bool allowed = false;
    Conjunction schema;
    NodeId key = 0;
  };
  NodeId array(const Keywords& keywords);
  NodeId object(const Keywords& keywords);
  std::vector<Property> properties(const Keywords& keywords);
  bool lists_none(const Keywords& keywords) const;
  Others others(const Keywords& keywords, const std::vector<Property>& named);
  Others pattern_properties(const ObjectKeywords& object, const Keywords& keywords);
  NodeId key_besides(const std::vector<Property>& named);
  NodeId members(const std::vector<Property>& named, const std::optional<NodeId>& other);
  NodeId map(NodeId member, const Keywords& keywords);
  void check_number_of_properties(const Keywords& keywords, const std::vector<Property>& named, bool open);
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
