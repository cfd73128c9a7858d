#pragma once
// Merges schemas that must all hold, keyword by keyword.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "grammar/budget.h"
#include "grammar/schema/json_value.h"

namespace weft::grammar {

/// A schema, and which of its keywords are already handled.
struct SchemaPart {
  ValueId schema = kNoValue;
  bool no_any_of = false, no_one_of = false;  ///< An alternative was chosen.
  bool no_references = false;                 ///< $ref and allOf are parts of their own.
  bool operator==(const SchemaPart&) const = default;
  auto operator<=>(const SchemaPart&) const = default;
};
/// Schemas that must all hold. If empty, any value is valid.
using Conjunction = std::vector<SchemaPart>;

enum TypeBit : unsigned {
  kNullBit = 1,
  kBoolBit = 2,
  kIntegerBit = 4,
  kNumberBit = 8,  ///< A number with a fraction.
  kStringBit = 16,
  kArrayBit = 32,
  kObjectBit = 64,
  kAllTypes = 127,
};

struct NumberBound {
  bool exclusive = false;
  ValueId at = kNoValue;
};

/// One schema's keywords for arrays.
struct ArrayKeywords {
  std::vector<ValueId> prefix;
  ValueId items = kNoValue;  ///< The schema of items after the prefix.
};
/// One schema's keywords for objects.
struct ObjectKeywords {
  ValueId properties = kNoValue;
  ValueId additional = kNoValue;
  ValueId patterns = kNoValue;
};

struct Keywords {
  bool impossible = false;
  unsigned types = kAllTypes;
  std::vector<std::vector<ValueId>> enums;

  std::int64_t min_length = 0, max_length = -1;
  ValueId length_at = kNoValue;  ///< The keyword that limits their length.
  std::vector<ValueId> patterns;
  std::vector<ValueId> formats;

  std::vector<NumberBound> at_least, at_most;
  std::vector<ValueId> multiples;

  std::vector<ArrayKeywords> arrays;
  std::int64_t min_items = 0, max_items = -1;
  std::vector<ValueId> other_items;  ///< unevaluatedItems, where it is not true.

  std::vector<ObjectKeywords> objects;
  std::vector<std::string> required;  ///< May contain a name several times.
  std::vector<ValueId> names;         ///< propertyNames.
  bool no_others = false;             ///< unevaluatedProperties: false.
  std::vector<ValueId> others;        ///< unevaluatedProperties, where it is not true.
  std::int64_t min_properties = 0, max_properties = -1;
  ValueId properties_at = kNoValue;  ///< The keyword that limits their number.

  /// The first union without a chosen alternative, and its owner among `parts`.
  struct Union {
    std::size_t owner = 0;
    bool one_of = false;
    std::vector<ValueId> alternatives;
  };
  std::optional<Union> first_union;
  Conjunction parts;  ///< All schemas, including referenced ones.
};

/// A property of objects that schemas describe.
struct SchemaProperty {
  std::string name;
  Conjunction schema;
  bool required = false;
  unsigned types = kAllTypes;  ///< TypeBit: the types that its values may have.
};
struct SchemaProperties {
  std::vector<SchemaProperty> all;
  bool complete =
      false;  ///< No union and no pattern: these are all properties, with all that is said of them.
};

/// Reads schemas of one tree. A keyword that cannot be enforced is left free and noted; without a list of
/// notes it throws Error kInvalidArgument with its JSON pointer.
class KeywordReader {
 public:
  KeywordReader(const JsonTree& tree, Budget& budget, std::vector<std::string>* notes)
      : tree_(tree), budget_(budget), notes_(notes) {}
  Keywords read(const Conjunction& conjunction);
  /// The keyword `at` cannot be enforced: notes that once, or throws. The caller ignores the keyword then.
  void leave_free(ValueId at, const std::string& why);
  /// A number's digits. Nothing, after leave_free, for other values.
  std::optional<std::string> number(ValueId at);

 private:
  /// Ends the reading of one keyword.
  struct Unheld {
    ValueId at;
    std::string why;
  };
  [[noreturn]] static void fail(ValueId at, std::string why);
  void read_keyword(std::string_view name, ValueId schema, ValueId value, Keywords& out);
  bool read_for_arrays(std::string_view name, ValueId schema, ValueId value, Keywords& out);
  bool read_for_objects(std::string_view name, ValueId schema, ValueId value, Keywords& out);
  bool read_bound(std::string_view name, ValueId schema, ValueId value, Keywords& out);
  void read_types(ValueId value, Keywords& out);
  void read_union(ValueId value, bool one_of, Keywords& out);
  void add_part(ValueId schema, Keywords& out);
  ValueId resolve(ValueId reference);
  /// The schema with that $anchor, or kNoValue.
  ValueId anchored(const std::string& name);
  /// The member of a schema, or kNoValue. null counts as absent: some serialisers write it.
  ValueId keyword(ValueId schema, std::string_view name) const;
  std::int64_t count(ValueId at) const;
  std::vector<ValueId> array(ValueId at) const;
  const std::string& string(ValueId at) const;

  const JsonTree& tree_;
  Budget& budget_;
  std::vector<std::string>* const notes_;
  std::unordered_set<ValueId> noted_;
  std::unordered_map<std::string, ValueId> references_;
  std::optional<std::unordered_map<std::string_view, ValueId>> anchors_;  // Read on first use.
  // For each of Keywords::parts the index of the part that refers to it.
  std::vector<std::size_t> parents_;
  std::size_t reading_ = 0;
};

}  // namespace weft::grammar
