#include "grammar/schema/schema_writer.h"

#include <algorithm>

#include "grammar/schema/decimal.h"
#include "weft/grammar.h"

namespace weft::grammar {

SchemaWriter::SchemaWriter(const JsonTree& tree, const JsonSchemaOptions& options, Budget& budget)
    : tree_(tree), options_(options), budget_(budget), reader_(tree, budget) {}

Language SchemaWriter::run() {
  const NodeId root = value_of({SchemaPart{tree_.root()}});
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const auto [conjunction, rule] = open_[i];
    builder_.define(rule, write(conjunction));
    open_[i].first.clear();
  }
  return builder_.finish(root);
}

NodeId SchemaWriter::value_of(Conjunction conjunction) {
  // true says nothing.
  std::erase_if(conjunction, [&](const SchemaPart& part) {
    return tree_[part.schema].kind == JsonKind::kBool && tree_[part.schema].flag;
  });
  if (conjunction.empty()) return any_value();
  const auto [at, added] = rules_.try_emplace(conjunction, RuleId{0});
  if (added) {
    budget_.add_states(1);
    at->second = builder_.declare("schema");
    open_.emplace_back(std::move(conjunction), at->second);
  }
  return builder_.rule(at->second);
}

NodeId SchemaWriter::any_value() {
  return shared("any value", [&] {
    const NodeId list = builder_.sequence(
        {any_value(), builder_.repeat(builder_.sequence({comma(), any_value()}), 0, kUnlimited)});
    const NodeId array =
        builder_.sequence({builder_.bytes("["), space(),
                           builder_.optional(builder_.sequence({list, space()})), builder_.bytes("]")});
    return builder_.choice({any_object(), array, any_string(), add_number(false, false, builder_),
                            builder_.bytes("true"), builder_.bytes("false"), builder_.bytes("null")});
  });
}

NodeId SchemaWriter::any_object() {
  return shared("any object", [&] {
    const NodeId member = builder_.sequence({any_string(), colon(), any_value()});
    const NodeId members =
        builder_.sequence({member, builder_.repeat(builder_.sequence({comma(), member}), 0, kUnlimited)});
    return in_braces(members, true);
  });
}

NodeId SchemaWriter::write(const Conjunction& conjunction) {
  const Keywords keywords = reader_.read(conjunction);
  if (keywords.impossible) return builder_.nothing();
  return keywords.first_union ? union_of(keywords) : values_of(keywords);
}

/// A rule for each alternative, together with all that stands beside the union.
NodeId SchemaWriter::union_of(const Keywords& keywords) {
  const Keywords::Union& which = *keywords.first_union;
  Conjunction rest = keywords.parts;
  for (SchemaPart& part : rest) part.no_references = true;
  (which.one_of ? rest[which.owner].no_one_of : rest[which.owner].no_any_of) = true;
  std::vector<NodeId> choices;
  for (const ValueId alternative : which.alternatives) {
    budget_.spend(static_cast<std::int64_t>(rest.size()) + 1);
    const SchemaPart part{alternative};
    Conjunction both = rest;
    const auto same =
        std::find_if(both.begin(), both.end(), [&](const SchemaPart& p) { return p.schema == alternative; });
    if (same == both.end()) both.push_back(part);
    choices.push_back(value_of(std::move(both)));
  }
  return builder_.choice(choices);
}

/// Where no type is said, keywords of one type mean that type.
unsigned SchemaWriter::types_of(const Keywords& k) const {
  if (k.types != kAllTypes) return k.types;
  unsigned types = 0;
  if (limits_strings(k)) types |= kStringBit;
  if (limits_numbers(k)) types |= kIntegerBit | kNumberBit;
  if (!k.arrays.empty() || k.min_items > 0 || k.max_items >= 0 || !k.other_items.empty()) types |= kArrayBit;
  if (!k.objects.empty() || !k.required.empty() || !k.names.empty() || k.properties_at != kNoValue ||
      !k.others.empty())
    types |= kObjectBit;
  return types == 0 ? static_cast<unsigned>(kAllTypes) : types;
}

NodeId SchemaWriter::values_of(const Keywords& keywords) {
  if (!keywords.enums.empty()) return enumeration(keywords);
  const unsigned types = types_of(keywords);
  if (types == kAllTypes) return any_value();
  std::vector<NodeId> choices;
  if ((types & kObjectBit) != 0) choices.push_back(object(keywords));
  if ((types & kArrayBit) != 0) choices.push_back(array(keywords));
  if ((types & kStringBit) != 0) choices.push_back(string(keywords));
  if ((types & (kIntegerBit | kNumberBit)) != 0)
    choices.push_back(number(keywords, (types & kNumberBit) == 0));
  if ((types & kBoolBit) != 0) {
    choices.push_back(builder_.bytes("true"));
    choices.push_back(builder_.bytes("false"));
  }
  if ((types & kNullBit) != 0) choices.push_back(builder_.bytes("null"));
  return builder_.choice(choices);
}

NodeId SchemaWriter::literal(ValueId id) {
  const JsonValue& value = tree_[id];
  budget_.spend();
  std::vector<NodeId> parts;
  switch (value.kind) {
    case JsonKind::kNull:
      return builder_.bytes("null");
    case JsonKind::kBool:
      return builder_.bytes(value.flag ? "true" : "false");
    case JsonKind::kInteger:
    case JsonKind::kNumber:
      return builder_.bytes(value.text);
    case JsonKind::kString:
      return builder_.bytes(json_quoted(value.text));
    case JsonKind::kArray:
      parts.push_back(builder_.bytes("["));
      parts.push_back(space());
      for (std::size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) parts.push_back(comma());
        parts.push_back(literal(value.items[i]));
      }
      if (!value.items.empty()) parts.push_back(space());
      parts.push_back(builder_.bytes("]"));
      return builder_.sequence(parts);
    case JsonKind::kObject:
      for (std::size_t i = 0; i < value.members.size(); ++i) {
        if (i > 0) parts.push_back(comma());
        parts.push_back(builder_.bytes(json_quoted(value.members[i].first)));
        parts.push_back(colon());
        parts.push_back(literal(value.members[i].second));
      }
      if (parts.empty()) return builder_.sequence({builder_.bytes("{"), space(), builder_.bytes("}")});
      return in_braces(builder_.sequence(parts), false);
  }
  return builder_.nothing();
}

bool SchemaWriter::are_equal(ValueId a, ValueId b) const {
  const JsonValue &x = tree_[a], &y = tree_[b];
  const bool numbers = (x.kind == JsonKind::kInteger || x.kind == JsonKind::kNumber) &&
                       (y.kind == JsonKind::kInteger || y.kind == JsonKind::kNumber);
  if (numbers) {
    const auto left = parse_decimal(x.text), right = parse_decimal(y.text);
    return left && right && left->negative == right->negative && left->whole == right->whole &&
           left->fraction == right->fraction;
  }
  if (x.kind != y.kind || x.flag != y.flag || x.text != y.text || x.items.size() != y.items.size() ||
      x.members.size() != y.members.size())
    return false;
  for (std::size_t i = 0; i < x.items.size(); ++i)
    if (!are_equal(x.items[i], y.items[i])) return false;
  return std::all_of(x.members.begin(), x.members.end(), [&](const auto& member) {
    const ValueId other = tree_.find(b, member.first);
    return other != kNoValue && are_equal(member.second, other);
  });
}

/// The values that stand in all enumerations and fit what is said beside them.
NodeId SchemaWriter::enumeration(const Keywords& k) {
  const auto type_of = [&](const JsonValue& value) -> unsigned {
    switch (value.kind) {
      case JsonKind::kNull:
        return kNullBit;
      case JsonKind::kBool:
        return kBoolBit;
      case JsonKind::kInteger:
        return kIntegerBit;
      case JsonKind::kNumber: {
        const auto decimal = parse_decimal(value.text);
        return decimal && decimal->fraction.empty() ? kIntegerBit : kNumberBit;
      }
      case JsonKind::kString:
        return kStringBit;
      case JsonKind::kArray:
        return kArrayBit;
      case JsonKind::kObject:
        return kObjectBit;
    }
    return 0;
  };
  std::vector<NodeId> choices;
  for (const ValueId id : k.enums[0]) {
    budget_.spend();
    const unsigned type = type_of(tree_[id]);
    if ((k.types & type) == 0) continue;
    const bool in_all =
        std::all_of(k.enums.begin() + 1, k.enums.end(), [&](const std::vector<ValueId>& other) {
          budget_.spend(static_cast<std::int64_t>(other.size()));
          return std::any_of(other.begin(), other.end(), [&](ValueId value) { return are_equal(id, value); });
        });
    if (!in_all) continue;
    std::vector<NodeId> parts = {literal(id)};
    if (type == kStringBit && limits_strings(k)) parts.push_back(string(k));
    if ((type & (kIntegerBit | kNumberBit)) != 0 && limits_numbers(k)) parts.push_back(number(k, false));
    if ((type == kArrayBit && (!k.arrays.empty() || k.min_items > 0 || k.max_items >= 0)) ||
        (type == kObjectBit && (!k.objects.empty() || !k.required.empty() || !k.names.empty())))
      reader_.fail(id, "an array or object in enum or const beside keywords that limit it; leave those out");
    choices.push_back(all_of(parts));
  }
  return builder_.choice(choices);
}

NodeId SchemaWriter::all_of(const std::vector<NodeId>& nodes) {
  NodeId result = nodes[0];
  for (std::size_t i = 1; i < nodes.size(); ++i) result = builder_.both(result, nodes[i]);
  return result;
}

}  // namespace weft::grammar

namespace weft {

Grammar Grammar::json_schema(std::string_view schema, const JsonSchemaOptions& options) {
  grammar::check_source(schema, options.limits, "the JSON schema");
  grammar::Budget budget(options.limits);
  const grammar::JsonTree tree(schema, std::min(options.limits.depth, 400), "the JSON schema");
  return Grammar(std::make_shared<const Rules>(Rules{grammar::SchemaWriter(tree, options, budget).run()}));
}

Grammar Grammar::json_object() { return json_schema(R"({"type": "object"})"); }

}  // namespace weft
