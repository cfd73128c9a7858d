// Arrays and objects of schemas.
#include <algorithm>
#include <map>

#include "base/to_size.h"
#include "grammar/pattern.h"
#include "grammar/schema/schema_writer.h"
#include "text/utf8.h"

namespace weft::grammar {

NodeId SchemaWriter::space() {
  if (!options_.any_whitespace) return builder_.empty();
  constexpr std::int32_t kMaxIndentation = 40;
  return shared("space", [&] {
    const NodeId indentation =
        builder_.repeat(builder_.character(CharSet({{' ', ' '}, {'\t', '\t'}})), 0, kMaxIndentation);
    return builder_.optional(
        builder_.choice({builder_.bytes(" "), builder_.sequence({builder_.bytes("\n"), indentation})}));
  });
}
NodeId SchemaWriter::comma() {
  if (!options_.any_whitespace) return builder_.bytes(", ");
  return builder_.sequence({space(), builder_.bytes(","), space()});
}
NodeId SchemaWriter::colon() {
  if (!options_.any_whitespace) return builder_.bytes(": ");
  return builder_.sequence({space(), builder_.bytes(":"), space()});
}
NodeId SchemaWriter::in_braces(NodeId inside, bool may_be_empty) {
  const NodeId rest = builder_.sequence({inside, space()});
  return builder_.sequence(
      {builder_.bytes("{"), space(), may_be_empty ? builder_.optional(rest) : rest, builder_.bytes("}")});
}

NodeId SchemaWriter::array(const Keywords& k) {
  std::size_t n_prefix = 0;
  for (const ArrayKeywords& a : k.arrays) n_prefix = std::max(n_prefix, a.prefix.size());
  // The schemas of each position. A prefix without `items` ends the array.
  std::int64_t most = k.max_items;
  const auto at_most = [&](std::size_t n) {
    const auto count = static_cast<std::int64_t>(n);
    most = most < 0 ? count : std::min(most, count);
  };
  std::vector<Conjunction> prefix(n_prefix);
  Conjunction rest;
  for (const ArrayKeywords& a : k.arrays) {
    const bool closed = a.items == kNoValue ? !a.prefix.empty()
                                            : tree_[a.items].kind == JsonKind::kBool && !tree_[a.items].flag;
    if (closed) at_most(a.prefix.size());
    budget_.spend(static_cast<std::int64_t>(n_prefix));
    for (std::size_t i = 0; i < n_prefix; ++i) {
      if (i < a.prefix.size()) {
        prefix[i].push_back({a.prefix[i]});
      } else if (a.items != kNoValue) {
        prefix[i].push_back({a.items});
      }
    }
    if (a.items != kNoValue && !closed) rest.push_back({a.items});
  }
  // unevaluatedItems applies only if no schema describes items: a described array either has a schema for the
  // rest or ends after its prefix.
  if (k.arrays.empty()) {
    for (const ValueId other : k.other_items) {
      if (tree_[other].kind == JsonKind::kBool) {
        at_most(0);
      } else {
        rest.push_back({other});
      }
    }
  }
  if (most >= 0 && most < k.min_items) return builder_.nothing();
  if (most >= 0 && to_size(most) < n_prefix) n_prefix = to_size(most);

  // From the last item to the first: each brings its comma, and what may follow.
  const auto n = static_cast<std::int64_t>(n_prefix);
  const NodeId item = value_of(rest);
  std::optional<NodeId> tail;
  if (most < 0 || most > n) {
    const std::int64_t least = std::max<std::int64_t>(0, k.min_items - n);
    const std::int64_t limit = most < 0 ? kUnlimited : most - n;
    const NodeId more = builder_.sequence({comma(), item});
    const std::string name = "item " + std::to_string(more);
    if (n > 0) {
      tail = counted(name, more, least, limit);
    } else {
      const std::int64_t others = limit < 0 ? kUnlimited : limit - 1;
      tail = builder_.sequence({item, counted(name, more, std::max<std::int64_t>(0, least - 1), others)});
      if (least == 0) tail = builder_.optional(*tail);
    }
  }
  for (std::size_t i = n_prefix; i-- > 0;) {
    std::vector<NodeId> parts;
    if (i > 0) parts.push_back(comma());
    parts.push_back(value_of(prefix[i]));
    if (tail) parts.push_back(*tail);
    tail = builder_.sequence(parts);
    if (static_cast<std::int64_t>(i) >= k.min_items) tail = builder_.optional(*tail);
  }
  return builder_.sequence(
      {builder_.bytes("["), space(), tail ? *tail : builder_.empty(), space(), builder_.bytes("]")});
}

/// All named properties in source order, with the conjunction of all schemas of each.
std::vector<SchemaProperty> SchemaWriter::properties(const Keywords& k) {
  std::vector<SchemaProperty> result;
  std::map<std::string, std::size_t, std::less<>> places;
  const auto place_of = [&](const std::string& name) {
    const auto [at, added] = places.try_emplace(name, result.size());
    if (added) result.push_back({name, {}, false});
    return at->second;
  };
  for (const ObjectKeywords& object : k.objects)
    if (object.properties != kNoValue)
      for (const auto& [name, schema] : tree_[object.properties].members) (void)place_of(name);
  for (const std::string& name : k.required) result[place_of(name)].required = true;
  for (SchemaProperty& property : result) {
    budget_.spend(static_cast<std::int64_t>(property.name.size()));
    bool is_described = false;
    for (const ObjectKeywords& object : k.objects) {
      budget_.spend();
      const ValueId schema =
          object.properties == kNoValue ? kNoValue : tree_.find(object.properties, property.name);
      if (schema != kNoValue) {
        property.schema.push_back({schema});
      } else if (object.patterns != kNoValue && !tree_[object.patterns].members.empty()) {
        reader_.leave_free(
            object.patterns,
            "patternProperties together with properties are not supported; list all properties");
      } else if (object.additional != kNoValue) {
        property.schema.push_back({object.additional});
      }
      is_described = is_described || schema != kNoValue || object.additional != kNoValue;
    }
    if (!is_described)
      for (const ValueId other : k.others) property.schema.push_back({other});
  }
  return result;
}

SchemaWriter::Others SchemaWriter::pattern_properties(const ObjectKeywords& object, const Keywords& k) {
  const auto& members = tree_[object.patterns].members;
  const bool closed = object.additional == kNoValue ||
                      (tree_[object.additional].kind == JsonKind::kBool && !tree_[object.additional].flag);
  Others result;
  result.allowed = true;
  result.key = any_string();
  if (members.size() != 1 || !closed || k.objects.size() != 1 || !k.names.empty()) {
    reader_.leave_free(
        object.patterns,
        "patternProperties are supported only with one pattern and additionalProperties: false");
    return result;
  }
  const auto key = pattern(object.patterns, members[0].first, true, true);
  if (!key) return result;
  result.key = builder_.sequence({builder_.bytes("\""), *key, builder_.bytes("\"")});
  result.schema.push_back({members[0].second});
  return result;
}

/// Whether `properties` is there, and no pattern of further ones.
bool SchemaWriter::lists_properties(const Keywords& k) {
  const auto has_list = [](const ObjectKeywords& object) { return object.properties != kNoValue; };
  const auto has_patterns = [](const ObjectKeywords& object) { return object.patterns != kNoValue; };
  return std::any_of(k.objects.begin(), k.objects.end(), has_list) &&
         std::none_of(k.objects.begin(), k.objects.end(), has_patterns);
}

/// Whether an empty `properties` is the whole list: so the arguments of a tool without parameters are {}.
bool SchemaWriter::lists_none(const Keywords& k) const {
  return k.min_properties == 0 && k.others.empty() && k.names.empty() && lists_properties(k);
}

/// Whether unnamed properties are allowed, and their schema. Without additionalProperties, an object with
/// named properties, or with an empty list, has no others.
SchemaWriter::Others SchemaWriter::others(const Keywords& k, const std::vector<SchemaProperty>& named) {
  Others result;
  bool said = false;
  result.allowed = !k.no_others;
  for (const ObjectKeywords& object : k.objects) {
    if (object.patterns != kNoValue && !tree_[object.patterns].members.empty())
      return pattern_properties(object, k);
    if (object.additional == kNoValue) continue;
    said = true;
    if (tree_[object.additional].kind == JsonKind::kBool && !tree_[object.additional].flag)
      result.allowed = false;
    result.schema.push_back({object.additional});
  }
  if (!said && (!named.empty() || lists_none(k))) result.allowed = false;
  if (!result.allowed) return result;
  for (const ValueId schema : k.others) result.schema.push_back({schema});
  result.key = named.empty() ? any_string() : key_besides(named);
  if (k.names.empty()) return result;
  if (!named.empty()) {
    reader_.leave_free(k.names[0], "propertyNames together with properties are not supported");
    return result;
  }
  Conjunction names;
  for (const ValueId schema : k.names) names.push_back({schema});
  Keywords limits = reader_.read(names);
  if (limits.first_union) {
    reader_.leave_free(k.names[0], "a union in propertyNames is not supported; write a pattern");
    return result;
  }
  limits.types &= kStringBit;
  result.key = limits.impossible || limits.types == 0 ? builder_.nothing() : values_of(limits);
  return result;
}

/// A string, without escapes, that is none of the names.
NodeId SchemaWriter::key_besides(const std::vector<SchemaProperty>& named) {
  const CharSet plain = CharSet({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}).negated();
  const NodeId any = builder_.repeat(builder_.character(plain), 0, kUnlimited);
  // A trie of the names.
  struct Letter {
    std::map<char32_t, std::size_t> children;
    bool is_name = false;
  };
  std::vector<Letter> nodes(1);
  for (const SchemaProperty& property : named) {
    std::size_t at = 0;
    for (std::string_view rest = property.name; !rest.empty();) {
      const text::Utf8Char c = text::first_char(rest);
      rest.remove_prefix(c.size);
      const auto [child, added] = nodes[at].children.try_emplace(c.code, nodes.size());
      const std::size_t next = child->second;
      if (added) nodes.emplace_back();
      budget_.spend();
      at = next;
    }
    nodes[at].is_name = true;
  }
  // Children have higher numbers. A long name is one rule for each character, so that nothing nests deeply.
  std::vector<NodeId> written(nodes.size());
  for (std::size_t i = nodes.size(); i-- > 0;) {
    CharSet others = plain;
    std::vector<NodeId> choices;
    CharSet taken;
    for (const auto& [c, child] : nodes[i].children) {
      taken.add(c);
      if (!plain.contains(c)) continue;
      const RuleId rule = builder_.declare("key");
      builder_.define(rule, written[child]);
      choices.push_back(builder_.sequence({builder_.character(CharSet({{c, c}})), builder_.rule(rule)}));
    }
    choices.push_back(builder_.sequence({builder_.character(others.without(taken)), any}));
    if (!nodes[i].is_name) choices.push_back(builder_.empty());
    written[i] = builder_.choice(choices);
  }
  return shared("key besides names " + std::to_string(builder_.n_nodes()),
                [&] { return builder_.sequence({builder_.bytes("\""), written[0], builder_.bytes("\"")}); });
}

void SchemaWriter::check_number_of_properties(const Keywords& k, const std::vector<SchemaProperty>& named,
                                              bool open) {
  if (k.properties_at == kNoValue) return;
  const auto n_required =
      std::count_if(named.begin(), named.end(), [](const SchemaProperty& p) { return p.required; });
  const bool enough = k.min_properties <= std::max<std::int64_t>(n_required, 1);
  const bool few = k.max_properties < 0 ||
                   (open ? named.empty() : static_cast<std::int64_t>(named.size()) <= k.max_properties);
  if (!enough || !few)
    reader_.leave_free(
        k.properties_at,
        "minProperties and maxProperties are not supported here; list the required properties");
}

NodeId SchemaWriter::map(NodeId member, const Keywords& k) {
  const std::int32_t most = k.max_properties < 0 ? kUnlimited : static_cast<std::int32_t>(k.max_properties);
  if (most == 0) return in_braces(builder_.empty(), true);
  const NodeId more =
      builder_.repeat(builder_.sequence({comma(), member}), 0, most == kUnlimited ? most : most - 1);
  return in_braces(builder_.sequence({member, more}), k.min_properties == 0);
}

/// Members in their order; optional ones may be left out.
NodeId SchemaWriter::members(const std::vector<SchemaProperty>& named, const std::optional<NodeId>& other) {
  Builder& b = builder_;
  std::vector<NodeId> written;
  for (const SchemaProperty& property : named)
    written.push_back(b.sequence({b.bytes(json_quoted(property.name)), colon(), value_of(property.schema)}));
  const auto with_comma = [&](NodeId member) { return b.sequence({comma(), member}); };
  const auto first =
      to_size(std::find_if(named.begin(), named.end(), [](const SchemaProperty& p) { return p.required; }) -
              named.begin());

  if (first < named.size()) {
    std::vector<NodeId> parts;
    for (std::size_t i = 0; i < first; ++i) parts.push_back(b.optional(b.sequence({written[i], comma()})));
    parts.push_back(written[first]);
    for (std::size_t i = first + 1; i < named.size(); ++i)
      parts.push_back(named[i].required ? with_comma(written[i]) : b.optional(with_comma(written[i])));
    if (other) parts.push_back(b.repeat(with_comma(*other), 0, kUnlimited));
    return b.sequence(parts);
  }

  return b.some_of(written, comma(), other);
}

NodeId SchemaWriter::object(const Keywords& k) {
  const std::vector<SchemaProperty> named = properties(k);
  const Others unnamed = others(k, named);
  check_number_of_properties(k, named, unnamed.allowed);
  std::optional<NodeId> other;
  if (unnamed.allowed) other = builder_.sequence({unnamed.key, colon(), value_of(unnamed.schema)});
  if (named.empty() && !other && k.min_properties > 0) return builder_.nothing();
  if (named.empty()) return other ? map(*other, k) : in_braces(builder_.empty(), true);
  const bool required =
      std::any_of(named.begin(), named.end(), [](const SchemaProperty& p) { return p.required; });
  return in_braces(members(named, other), !required && k.min_properties == 0);
}

}  // namespace weft::grammar
