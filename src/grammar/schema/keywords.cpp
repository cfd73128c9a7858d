#include "grammar/schema/keywords.h"

#include <algorithm>
#include <limits>

namespace weft::grammar {
namespace {

constexpr std::size_t kMaxParts = 1000;  // Schemas that must hold together.
constexpr std::size_t kNoParent = std::numeric_limits<std::size_t>::max();

/// Keywords that would allow too much if they were ignored, and what to write instead.
constexpr std::pair<std::string_view, std::string_view> kRefused[] = {
    {"not", "describe the allowed values instead"},
    {"if", "write anyOf with one schema for each case"},
    {"then", "write anyOf with one schema for each case"},
    {"else", "write anyOf with one schema for each case"},
    {"dependentRequired", "write anyOf with one schema for each case"},
    {"dependentSchemas", "write anyOf with one schema for each case"},
    {"dependencies", "write anyOf with one schema for each case"},
    {"contains", "describe all items by items or prefixItems"},
    {"minContains", "describe all items by items or prefixItems"},
    {"maxContains", "describe all items by items or prefixItems"},
    {"$dynamicRef", "write $ref"},
    {"$recursiveRef", "write $ref"},
};

std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                    : -1;
  };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      result += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

void KeywordReader::fail(ValueId at, std::string why) { throw Unheld{at, std::move(why)}; }

void KeywordReader::leave_free(ValueId at, const std::string& why) {
  if (notes_ == nullptr) refuse("JSON schema, " + tree_.pointer_to(at) + ": " + why);
  // A pointer takes up to as many steps as there are values, so there are few notes.
  if (!noted_.insert(at).second || notes_->size() >= JsonSchemaOptions::kMostNotes) return;
  budget_.spend(static_cast<std::int64_t>(tree_.size()));
  notes_->push_back(tree_.pointer_to(at) + ": " + why);
}

std::int64_t KeywordReader::count(ValueId at) const {
  constexpr std::int64_t kMost = 1'000'000'000;
  const JsonValue& value = tree_[at];
  // 3.0 is an integer, too.
  std::string_view text = value.text;
  if (value.kind == JsonKind::kNumber && text.ends_with(".0")) text.remove_suffix(2);
  if ((value.kind != JsonKind::kInteger && value.kind != JsonKind::kNumber) || text.empty() ||
      text.find_first_not_of("0123456789") != std::string_view::npos)
    fail(at, "expected a number of 0 or more");
  return text.size() > 9 ? kMost : std::stoll(std::string(text));
}

std::optional<std::string> KeywordReader::number(ValueId at) {
  if (tree_[at].kind == JsonKind::kInteger || tree_[at].kind == JsonKind::kNumber) return tree_[at].text;
  leave_free(at, "expected a number");
  return std::nullopt;
}

std::vector<ValueId> KeywordReader::array(ValueId at) const {
  if (tree_[at].kind != JsonKind::kArray) fail(at, "expected an array");
  budget_.spend(static_cast<std::int64_t>(tree_[at].items.size()));
  return tree_[at].items;
}

const std::string& KeywordReader::string(ValueId at) const {
  if (tree_[at].kind != JsonKind::kString) fail(at, "expected a string");
  return tree_[at].text;
}

ValueId KeywordReader::resolve(ValueId reference) {
  const std::string& text = string(reference);
  budget_.spend(static_cast<std::int64_t>(text.size()));
  if (const auto known = references_.find(text); known != references_.end()) return known->second;
  std::string_view rest = text;
  if (const ValueId id =
          tree_[tree_.root()].kind == JsonKind::kObject ? tree_.find(tree_.root(), "$id") : kNoValue;
      id != kNoValue && !tree_[id].text.empty() && rest.starts_with(tree_[id].text))
    rest.remove_prefix(tree_[id].text.size());
  // Some clients leave out the '#' of a JSON pointer.
  if (!rest.empty() && rest[0] != '#' && rest[0] != '/')
    fail(reference,
         "references to other documents are not supported; copy the schema into $defs and refer to "
         "#/$defs/NAME");
  if (rest.starts_with('#')) rest.remove_prefix(1);
  ValueId at = tree_.root();
  const std::string path = percent_decoded(rest);
  if (!path.empty() && path[0] != '/') {
    at = anchored(path);
    if (at == kNoValue) fail(reference, "no such $anchor: \"" + path + "\"");
  }
  for (std::size_t begin = 1; at != kNoValue && begin <= path.size() && path[0] == '/';) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    std::string name;
    for (std::size_t i = begin; i < end; ++i) {
      if (path[i] == '~' && i + 1 < end && (path[i + 1] == '0' || path[i + 1] == '1')) {
        name += path[++i] == '0' ? '~' : '/';
      } else {
        name += path[i];
      }
    }
    const JsonValue& value = tree_[at];
    if (value.kind == JsonKind::kObject) {
      at = tree_.find(at, name);
    } else if (value.kind == JsonKind::kArray && !name.empty() && name.size() < 9 &&
               name.find_first_not_of("0123456789") == std::string::npos &&
               std::stoul(name) < value.items.size()) {
      at = value.items[std::stoul(name)];
    } else {
      at = kNoValue;
    }
    begin = end + 1;
  }
  if (at == kNoValue) fail(reference, "the reference \"" + text + "\" has no target");
  references_.emplace(text, at);
  return at;
}

ValueId KeywordReader::anchored(const std::string& name) {
  if (!anchors_) {
    budget_.spend(static_cast<std::int64_t>(tree_.size()));
    anchors_.emplace();
    for (ValueId v = 0; v < tree_.size(); ++v) {
      const ValueId anchor = tree_[v].kind == JsonKind::kObject ? tree_.find(v, "$anchor") : kNoValue;
      if (anchor != kNoValue) anchors_->try_emplace(tree_[anchor].text, v);
    }
  }
  const auto at = anchors_->find(name);
  return at == anchors_->end() ? kNoValue : at->second;
}

ValueId KeywordReader::keyword(ValueId schema, std::string_view name) const {
  const ValueId value = tree_.find(schema, name);
  return value == kNoValue || tree_[value].kind == JsonKind::kNull ? kNoValue : value;
}

void KeywordReader::add_part(ValueId schema, Keywords& out) {
  budget_.spend(static_cast<std::int64_t>(out.parts.size()));
  for (std::size_t p = reading_; p != kNoParent; p = parents_[p])
    if (out.parts[p].schema == schema)
      fail(schema, "the schema refers to itself directly, so that no value can match");
  for (const SchemaPart& part : out.parts) {
    if (part.schema != schema) continue;
    // An alternative that refers back to its own union adds no values.
    if (part.no_any_of || part.no_one_of) out.impossible = true;
    return;
  }
  if (out.parts.size() == kMaxParts)
    fail(schema, "more than " + std::to_string(kMaxParts) + " schemas would have to hold at once");
  out.parts.push_back({schema, false, false, false});
  parents_.push_back(reading_);
}

void KeywordReader::read_types(ValueId value, Keywords& out) {
  const auto bits_of = [&](ValueId at) -> unsigned {
    const std::string& name = string(at);
    if (name == "null") return kNullBit;
    if (name == "boolean") return kBoolBit;
    if (name == "integer") return kIntegerBit;
    if (name == "number") return kIntegerBit | kNumberBit;
    if (name == "string") return kStringBit;
    if (name == "array") return kArrayBit;
    if (name == "object") return kObjectBit;
    fail(at, "unknown type \"" + name +
                 "\"; known ones are null, boolean, integer, number, string, array, object");
  };
  unsigned types = 0;
  if (tree_[value].kind == JsonKind::kArray) {
    for (const ValueId item : array(value)) types |= bits_of(item);
  } else {
    types = bits_of(value);
  }
  out.types &= types;
}

bool KeywordReader::read_bound(std::string_view name, ValueId schema, ValueId value, Keywords& out) {
  if (name == "minimum" || name == "maximum") {
    // Draft 4 has a boolean that makes the bound exclusive.
    const ValueId flag = tree_.find(schema, name == "minimum" ? "exclusiveMinimum" : "exclusiveMaximum");
    const bool exclusive = flag != kNoValue && tree_[flag].kind == JsonKind::kBool && tree_[flag].flag;
    if (number(value)) (name == "minimum" ? out.at_least : out.at_most).push_back({exclusive, value});
  } else if (name == "exclusiveMinimum" || name == "exclusiveMaximum") {
    if (tree_[value].kind != JsonKind::kBool && number(value))
      (name == "exclusiveMinimum" ? out.at_least : out.at_most).push_back({true, value});
  } else if (name == "multipleOf") {
    if (number(value)) out.multiples.push_back(value);
  } else {
    return false;
  }
  return true;
}

bool KeywordReader::read_for_arrays(std::string_view name, ValueId schema, ValueId value, Keywords& out) {
  const auto at_most = [&](std::int64_t& limit) {
    limit = limit < 0 ? count(value) : std::min(limit, count(value));
  };
  if (name == "minItems") {
    out.min_items = std::max(out.min_items, count(value));
  } else if (name == "maxItems") {
    at_most(out.max_items);
  } else if (name == "uniqueItems") {
    if (tree_[value].kind != JsonKind::kBool || tree_[value].flag)
      fail(value, "uniqueItems cannot be enforced during generation; leave it out and check the result");
  } else if (name == "items" || name == "prefixItems") {
    // Read together; draft 7 writes prefixItems and items as items and additionalItems.
    if (tree_[value].kind == JsonKind::kNull) fail(value, "expected a schema");
    const ValueId prefix = keyword(schema, "prefixItems"), items = keyword(schema, "items");
    if (name == "items" && prefix != kNoValue) return true;
    ArrayKeywords keywords;
    if (prefix != kNoValue) {
      keywords.prefix = array(prefix);
      keywords.items = items;
    } else if (tree_[items].kind == JsonKind::kArray) {
      keywords.prefix = array(items);
      keywords.items = keyword(schema, "additionalItems");
    } else {
      keywords.items = items;
    }
    out.arrays.push_back(std::move(keywords));
  } else if (name == "unevaluatedItems") {
    if (tree_[value].kind != JsonKind::kBool || !tree_[value].flag) out.other_items.push_back(value);
  } else if (name == "minLength") {
    out.min_length = std::max(out.min_length, count(value));
    out.length_at = value;
  } else if (name == "maxLength") {
    at_most(out.max_length);
    out.length_at = value;
  } else if (name == "pattern") {
    (void)string(value);
    out.patterns.push_back(value);
  } else if (name == "format") {
    (void)string(value);
    out.formats.push_back(value);
  } else {
    return false;
  }
  return true;
}

bool KeywordReader::read_for_objects(std::string_view name, ValueId schema, ValueId value, Keywords& out) {
  if (name == "properties" || name == "additionalProperties" || name == "patternProperties") {
    // Read together, with the first of them.
    ObjectKeywords object = {tree_.find(schema, "properties"), tree_.find(schema, "additionalProperties"),
                             tree_.find(schema, "patternProperties")};
    const ValueId first = object.properties != kNoValue   ? object.properties
                          : object.additional != kNoValue ? object.additional
                                                          : object.patterns;
    if (value != first) return true;
    for (ValueId* map : {&object.properties, &object.patterns}) {
      if (*map == kNoValue || tree_[*map].kind == JsonKind::kObject) continue;
      leave_free(*map, "expected an object");
      *map = kNoValue;
    }
    if (object.additional != kNoValue && tree_[object.additional].kind == JsonKind::kNull) {
      leave_free(object.additional, "expected a schema");
      object.additional = kNoValue;
    }
    out.objects.push_back(object);
  } else if (name == "required") {
    if (tree_[value].kind == JsonKind::kBool) return true;  // Draft 3 has it in the schema of a property.
    for (const ValueId item : array(value)) out.required.push_back(string(item));
  } else if (name == "propertyNames") {
    out.names.push_back(value);
  } else if (name == "minProperties") {
    out.min_properties = std::max(out.min_properties, count(value));
    out.properties_at = value;
  } else if (name == "maxProperties") {
    out.max_properties = out.max_properties < 0 ? count(value) : std::min(out.max_properties, count(value));
    out.properties_at = value;
  } else if (name == "unevaluatedProperties") {
    const bool is_bool = tree_[value].kind == JsonKind::kBool;
    if (!is_bool || !tree_[value].flag) out.others.push_back(value);
    if (is_bool && !tree_[value].flag) out.no_others = true;
  } else {
    return false;
  }
  return true;
}

void KeywordReader::read_keyword(std::string_view name, ValueId schema, ValueId value, Keywords& out) {
  if (name == "type") return read_types(value, out);
  if (name == "enum") {
    out.enums.push_back(array(value));
    if (out.enums.back().empty()) {
      out.enums.pop_back();
      fail(value, "expected at least one value");
    }
    return;
  }
  if (name == "const") return out.enums.push_back({value});
  if (read_bound(name, schema, value, out) || read_for_arrays(name, schema, value, out) ||
      read_for_objects(name, schema, value, out))
    return;
  for (const auto& [refused, instead] : kRefused)
    if (name == refused) fail(value, std::string(name) + " is not supported: " + std::string(instead));
  const SchemaPart part = out.parts[reading_];
  if (name == "$ref" && !part.no_references) add_part(resolve(value), out);
  if (name == "allOf" && !part.no_references)
    for (const ValueId item : array(value)) add_part(item, out);
  if (name == "anyOf" && !part.no_any_of) read_union(value, false, out);
  if (name == "oneOf" && !part.no_one_of) read_union(value, true, out);
}

void KeywordReader::read_union(ValueId value, bool one_of, Keywords& out) {
  if (out.first_union) return;
  if (array(value).empty()) fail(value, "expected at least one schema");
  out.first_union = Keywords::Union{reading_, one_of, array(value)};
}

Keywords KeywordReader::read(const Conjunction& conjunction) {
  Keywords out;
  out.parts = conjunction;
  parents_.assign(conjunction.size(), kNoParent);
  for (reading_ = 0; reading_ < out.parts.size() && !out.impossible; ++reading_) {
    const ValueId schema = out.parts[reading_].schema;
    const JsonValue& value = tree_[schema];
    budget_.spend(static_cast<std::int64_t>(value.members.size()) + 1);
    if (value.kind == JsonKind::kBool) {
      out.impossible = out.impossible || !value.flag;
      continue;
    }
    if (value.kind != JsonKind::kObject) {
      leave_free(schema, "a schema is an object, true or false");
      continue;
    }
    const ValueId nullable = tree_.find(schema, "nullable");  // OpenAPI's.
    const bool or_null =
        nullable != kNoValue && tree_[nullable].kind == JsonKind::kBool && tree_[nullable].flag;
    const unsigned before = out.types;
    for (const auto& [name, keyword] : value.members) {
      try {
        read_keyword(name, schema, keyword, out);
      } catch (const Unheld& unheld) {
        budget_.spend(kExceptionWork);
        leave_free(unheld.at, unheld.why);
      }
    }
    if (or_null) out.types |= before & kNullBit;
  }
  return out;
}

}  // namespace weft::grammar
