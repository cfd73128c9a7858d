#include "grammar/schema/schema_writer.h"

#include <algorithm>
#include <set>

#include "grammar/schema/decimal.h"
#include "weft/grammar.h"

namespace weft::grammar {

SchemaWriter::SchemaWriter(const JsonTree& tree, const JsonSchemaOptions& options, Budget& budget)
    : tree_(tree), options_(options), budget_(budget), reader_(tree, budget, options.left_free) {}

/// Calls visit(Keywords) for each alternative of a union, and of the unions in it.
template <typename Visit>
void SchemaWriter::visit_alternatives(const Conjunction& root, Visit&& visit) {
  std::set<Conjunction> seen = {root};
  std::vector<Conjunction> open = {root};
  while (!open.empty()) {
    const Keywords keywords = reader_.read(open.back());
    open.pop_back();
    if (keywords.impossible) continue;
    if (!keywords.first_union) {
      visit(keywords);
      continue;
    }
    for (Conjunction& one : alternatives(keywords))
      if (seen.insert(one).second) open.push_back(std::move(one));
  }
}

SchemaProperties SchemaWriter::properties_of(const Conjunction& schemas) {
  SchemaProperties result;
  std::map<std::string, std::size_t> places;
  int n_alternatives = 0;
  bool described = true;
  visit_alternatives(schemas, [&](const Keywords& k) {
    if ((types_of(k) & kObjectBit) == 0) return;
    ++n_alternatives;
    described = described && lists_properties(k);
    for (SchemaProperty& property : properties(k)) {
      property.types = types_of(property.schema);
      const auto [at, added] = places.try_emplace(property.name, result.all.size());
      if (added) {
        result.all.push_back(std::move(property));
      } else {
        result.all[at->second].types |= property.types;
      }
    }
  });
  result.complete = n_alternatives == 1 && described;
  return result;
}

unsigned SchemaWriter::types_of(const Conjunction& schemas) {
  unsigned types = 0;
  visit_alternatives(schemas, [&](const Keywords& k) {
    if (k.enums.empty()) {
      types |= types_of(k);
    } else {
      for (const ValueId value : choices_of(k)) types |= type_of(tree_[value]);
    }
  });
  return types;
}

Language SchemaWriter::run_bare(const Conjunction& root, std::string_view end) {
  const NodeId nothing_follows[] = {builder_.tag(end), builder_.empty()};
  const NodeId any_text = builder_.free_text(nothing_follows, 0, 0);
  std::vector<NodeId> choices;
  visit_alternatives(root, [&](const Keywords& k) { choices.push_back(bare(k, any_text)); });
  return builder_.finish(builder_.choice(choices));
}

NodeId SchemaWriter::bare(const Keywords& k, NodeId any_text) {
  const NodeId any = builder_.character(CharSet::all());
  std::vector<NodeId> choices;
  const auto add_text = [&](NodeId text, const Keywords& limits) {
    std::vector<NodeId> parts = string_contents(limits, any, false);
    parts.insert(parts.begin(), text);
    add_length(limits, any, parts);
    choices.push_back(all_of(parts));
  };
  if (!k.enums.empty()) {
    const Keywords limits = without_length(k);
    for (const ValueId value : choices_of(k)) {
      if (tree_[value].kind == JsonKind::kString) add_text(builder_.bytes(tree_[value].text), limits);
      if (tree_[value].kind == JsonKind::kNull) choices.push_back(builder_.bytes("null"));
    }
  } else {
    if ((types_of(k) & kStringBit) != 0) add_text(any_text, k);
    if ((types_of(k) & kNullBit) != 0) choices.push_back(builder_.bytes("null"));
  }
  return builder_.choice(choices);
}

Language SchemaWriter::run(const Conjunction& schemas) {
  const NodeId root = value_of(schemas);
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const auto [conjunction, rule] = open_[i];
    builder_.define(rule, write(conjunction));
    open_[i].first.clear();
  }
  return builder_.finish(root);
}

NodeId SchemaWriter::value_of(Conjunction conjunction) {
  budget_.spend(static_cast<std::int64_t>(conjunction.size()));
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

/// The alternatives of the first union, each combined with the keywords next to the union.
std::vector<Conjunction> SchemaWriter::alternatives(const Keywords& keywords) {
  const Keywords::Union& which = *keywords.first_union;
  Conjunction rest = keywords.parts;
  for (SchemaPart& part : rest) part.no_references = true;
  (which.one_of ? rest[which.owner].no_one_of : rest[which.owner].no_any_of) = true;
  std::vector<Conjunction> all;
  for (const ValueId alternative : which.alternatives) {
    budget_.spend(static_cast<std::int64_t>(rest.size()) + 1);
    const SchemaPart part{alternative};
    Conjunction both = rest;
    const auto same =
        std::find_if(both.begin(), both.end(), [&](const SchemaPart& p) { return p.schema == alternative; });
    if (same == both.end()) both.push_back(part);
    all.push_back(std::move(both));
  }
  return all;
}

NodeId SchemaWriter::union_of(const Keywords& keywords) {
  std::vector<NodeId> choices;
  for (Conjunction& one : alternatives(keywords)) choices.push_back(value_of(std::move(one)));
  return builder_.choice(choices);
}

/// Without "type", keywords of one type imply that type.
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
  budget_.spend(static_cast<std::int64_t>(value.text.size()) + 1);
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
        budget_.spend(static_cast<std::int64_t>(value.members[i].first.size()));
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
  budget_.spend(static_cast<std::int64_t>(x.text.size() + y.text.size()) + 1);
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

Keywords SchemaWriter::without_length(Keywords k) {
  k.min_length = 0, k.max_length = -1, k.length_at = kNoValue;
  return k;
}

bool SchemaWriter::has_length(std::string_view text, const Keywords& k) {
  std::int64_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return n >= k.min_length && (k.max_length < 0 || n <= k.max_length);
}

unsigned SchemaWriter::type_of(const JsonValue& value) {
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
}

/// The values that all enumerations have in common, if the type and the length allow them.
std::vector<ValueId> SchemaWriter::choices_of(const Keywords& k) {
  std::vector<ValueId> choices;
  for (const ValueId id : k.enums[0]) {
    budget_.spend(static_cast<std::int64_t>(tree_[id].text.size()) + 1);
    const unsigned type = type_of(tree_[id]);
    if ((k.types & type) == 0 || (type == kStringBit && !has_length(tree_[id].text, k))) continue;
    const bool in_all =
        std::all_of(k.enums.begin() + 1, k.enums.end(), [&](const std::vector<ValueId>& other) {
          return std::any_of(other.begin(), other.end(), [&](ValueId value) { return are_equal(id, value); });
        });
    if (in_all) choices.push_back(id);
  }
  return choices;
}

NodeId SchemaWriter::enumeration(const Keywords& k) {
  const Keywords limits = without_length(k);
  std::vector<NodeId> choices;
  for (const ValueId id : choices_of(k)) {
    const unsigned type = type_of(tree_[id]);
    std::vector<NodeId> parts = {literal(id)};
    if (type == kStringBit && limits_strings(limits)) parts.push_back(string(limits));
    if ((type & (kIntegerBit | kNumberBit)) != 0 && limits_numbers(k)) parts.push_back(number(k, false));
    if ((type == kArrayBit && (!k.arrays.empty() || k.min_items > 0 || k.max_items >= 0)) ||
        (type == kObjectBit && (!k.objects.empty() || !k.required.empty() || !k.names.empty())))
      reader_.leave_free(
          id, "enum or const has an array or object, and other keywords restrict it; remove those keywords");
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
