// Structural tags: xgrammar's JSON documents of free output with tagged parts
// (xgrammar.mlc.ai/docs/tutorials/structural_tag.html).
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/to_size.h"
#include "grammar/budget.h"
#include "grammar/schema/schema_document.h"
#include "grammar/written.h"
#include "weft/grammar.h"

namespace weft {

namespace grammar {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostRepetitions = 1 << 16;
constexpr int kMostOpenParameters = 64;  // Of a schema without a list of properties.
constexpr std::int64_t kTagWork = 64;    // A tag of free output is a rule of its own.

/// The end strings of the enclosing tag, which free output at the end of its content does not contain.
/// Nullopt: no tag encloses it.
using EndStrings = std::optional<std::vector<std::string>>;

Grammar nothing() { return Grammar::choice({}); }
Grammar optional(Grammar part) { return Grammar::repeat(std::move(part), 0, 1); }
Grammar space() { return Grammar::regex("[ \\n\\t]*"); }

class TagReader {
 public:
  explicit TagReader(const JsonSchemaOptions& options) : options_(options), budget_(options.limits) {}

  Grammar read(const Json& format, const std::string& path, const EndStrings& ends) {
    budget_.spend();
    if (!format.is_object()) fail(path, "must be an object with a type");
    const std::string type = text(format, "type", path, guess(format));
    if (type == "const_string") return written(text(format, "value", path));
    if (type == "json_schema") return schema(format, path);
    if (type == "qwen_xml_parameter") return parameters(member(format, "json_schema", path));
    if (type == "any_text") return any_text(format, path, "excludes", ends);
    if (type == "any_tokens") return any_text(format, path, "exclude_tokens", ends);
    if (type == "regex")
      return located(path + ".pattern", [&] { return Grammar::regex(text(format, "pattern", path)); });
    if (type == "grammar") return ebnf(format, path);
    if (type == "token") return token(format, path);
    if (type == "sequence" || type == "or") return elements(format, path, type == "or", ends);
    if (type == "tag") return tag(format, path, 0);
    if (type == "triggered_tags") return triggered(format, path, "triggers", "excludes", ends);
    if (type == "token_triggered_tags")
      return triggered(format, path, "trigger_tokens", "exclude_tokens", ends);
    if (type == "tags_with_separator") return separated(format, path);
    if (type == "optional" || type == "star" || type == "plus" || type == "repeat")
      return repeated(format, path, type, ends);
    if (type == "dispatch") return dispatch(format, path, "excludes", ends);
    if (type == "token_dispatch") return dispatch(format, path, "exclude_tokens", ends);
    fail(path + ".type",
         "is \"" + type.substr(0, 64) +
             "\"; expected const_string, json_schema, any_text, regex, grammar, sequence, or, "
             "tag, triggered_tags, tags_with_separator, optional, plus, star, repeat, dispatch, "
             "token or qwen_xml_parameter");
  }

  /// The older form: "structures" and "triggers".
  Grammar read_structures(const Json& whole) {
    Json tags = Json::array();
    const Json& structures = list(whole, "structures", "");
    for (std::size_t i = 0; i < structures.size(); ++i) {
      const std::string path = "structures[" + std::to_string(i) + "]";
      if (!structures[i].is_object()) fail(path, "must be an object with begin, schema and end");
      tags.push_back(
          {{"begin", text(structures[i], "begin", path)},
           {"content", {{"type", "json_schema"}, {"json_schema", member(structures[i], "schema", path)}}},
           {"end", text(structures[i], "end", path)}});
    }
    const Json format = {{"tags", std::move(tags)}, {"triggers", list(whole, "triggers", "")}};
    return triggered(format, "", "triggers", "excludes", std::nullopt);
  }

 private:
  /// Members of a path; the empty path is the whole document.
  static std::string at(const std::string& path, std::string_view name) {
    return path.empty() ? std::string(name) : path + "." + std::string(name);
  }
  static std::string at(const std::string& path, std::size_t i) {
    return path + "[" + std::to_string(i) + "]";
  }

  [[noreturn]] static void fail(const std::string& path, const std::string& why) {
    refuse("'" + path + "' " + why);
  }

  /// Runs `make`. Its errors name the path; limits are reported as they are.
  template <typename Make>
  static Grammar located(const std::string& path, const Make& make) {
    try {
      return make();
    } catch (const OverBudget&) {
      throw;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument) throw;
      fail(path, std::string("is refused: ") + error.what());
    }
  }

  /// The type of a format that has none, by its members.
  static std::string_view guess(const Json& format) {
    constexpr std::pair<const char*, const char*> kMembers[] = {
        {"begin", "tag"},          {"triggers", "triggered_tags"}, {"separator", "tags_with_separator"},
        {"value", "const_string"}, {"json_schema", "json_schema"}, {"pattern", "regex"},
        {"grammar", "grammar"}};
    for (const auto& [name, type] : kMembers)
      if (format.contains(name)) return type;
    return {};
  }

  static const Json& member(const Json& object, const char* name, const std::string& path) {
    const auto found = object.find(name);
    if (found == object.end()) fail(at(path, name), "is missing");
    return *found;
  }
  static std::string text(const Json& object, const char* name, const std::string& path,
                          std::optional<std::string_view> fallback = std::nullopt) {
    const auto found = object.find(name);
    if (found == object.end() && fallback && !fallback->empty()) return std::string(*fallback);
    const Json& value = member(object, name, path);
    if (!value.is_string()) fail(at(path, name), "must be a string");
    return value.get<std::string>();
  }
  static bool flag(const Json& object, const char* name, const std::string& path, bool fallback = false) {
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) return fallback;
    if (!found->is_boolean()) fail(at(path, name), "must be true or false");
    return found->get<bool>();
  }
  static const Json& list(const Json& object, const char* name, const std::string& path) {
    const Json& value = member(object, name, path);
    if (!value.is_array() || value.empty()) fail(at(path, name), "must be an array with at least one entry");
    return value;
  }
  /// A string, or a token by its spelling.
  static std::string spelling(const Json& value, const std::string& path) {
    if (value.is_object() && value.value("type", "") == "token")
      return spelling(member(value, "token", path), path);
    if (!value.is_string()) fail(path, "must be a string; name tokens by their spelling, not their id");
    return value.get<std::string>();
  }
  static std::vector<std::string> strings(const Json& object, const char* name, const std::string& path) {
    std::vector<std::string> all;
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) return all;
    if (!found->is_array()) fail(at(path, name), "must be an array of strings");
    for (std::size_t i = 0; i < found->size(); ++i) {
      all.push_back(spelling((*found)[i], at(at(path, name), i)));
      if (all.back().empty()) fail(at(at(path, name), i), "is an empty string");
    }
    return all;
  }
  static void refuse_members(const Json& format, std::initializer_list<const char*> names,
                             const std::string& path) {
    for (const char* name : names) {
      const auto found = format.find(name);
      if (found == format.end() || found->is_null() || *found == Json(false) || *found == Json::array())
        continue;
      fail(at(path, name), "is not supported; leave it out");
    }
  }

  Grammar schema(const Json& format, const std::string& path) {
    refuse_members(format, {"any_order", "excludes"}, path);
    const std::string style = text(format, "style", path, "json");
    const Json& value = member(format, "json_schema", path);
    if (style == "qwen_xml") return parameters(value);
    if (style != "json")
      fail(at(path, "style"), "is \"" + style.substr(0, 64) + "\"; expected json or qwen_xml");
    return located(at(path, "json_schema"), [&] { return document(value).whole(budget_, options_); });
  }

  SchemaDocument document(const Json& value) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    budget_.spend(static_cast<std::int64_t>(text.size() / 16));
    return SchemaDocument(text, options_.limits);
  }

  /// Qwen3-Coder's arguments: <parameter=name>value</parameter>, strings without quotes.
  Grammar parameters(const Json& value) {
    constexpr std::string_view kEnd = "</parameter>";
    return located("json_schema", [&] {
      const SchemaDocument whole = document(value);
      const SchemaProperties properties = whole.properties(budget_);
      if (!properties.complete) {
        Grammar one = Grammar::sequence({written("<parameter="), Grammar::regex("[a-zA-Z0-9_.-]{1,64}"),
                                         Grammar::literal(">"), text_without({std::string(kEnd)}),
                                         written(kEnd), space()});
        return Grammar::sequence({space(), Grammar::repeat(std::move(one), 0, kMostOpenParameters)});
      }
      std::vector<Grammar> parts = {space()};
      for (const SchemaProperty& property : properties.all) {
        const bool is_text = (property.types & ~(kStringBit | kNullBit)) == 0;
        Grammar content =
            is_text ? whole.bare(property, kEnd, budget_, options_)
                    : Grammar::sequence({space(), whole.json(property, budget_, options_), space()});
        Grammar one = Grammar::sequence(
            {written("<parameter=" + property.name + ">"), std::move(content), written(kEnd), space()});
        parts.push_back(property.required ? std::move(one) : optional(std::move(one)));
      }
      return Grammar::sequence(std::move(parts));
    });
  }

  Grammar ebnf(const Json& format, const std::string& path) {
    if (const std::string syntax = text(format, "syntax", path, "ebnf"); syntax != "ebnf")
      fail(at(path, "syntax"), "is \"" + syntax.substr(0, 64) + "\"; expected ebnf");
    return located(at(path, "grammar"),
                   [&] { return Grammar::gbnf(text(format, "grammar", path), options_.limits); });
  }

  Grammar token(const Json& format, const std::string& path) const {
    const std::string spelled = spelling(member(format, "token", path), at(path, "token"));
    if (spelled.empty()) fail(at(path, "token"), "is an empty string");
    return Grammar::tag(spelled);
  }

  /// Free output with at most `most` tagged parts (-1: any number). Each free output of a document has the
  /// end strings of its tag as tags, so their number is the product of both.
  Grammar free_text(std::vector<std::pair<std::string, Grammar>> tags, int most) {
    for (const auto& [text, part] : tags) budget_.spend(kTagWork + static_cast<std::int64_t>(text.size()));
    return Grammar::free_text(std::move(tags), 0, most);
  }

  /// Free output without these strings.
  Grammar text_without(const std::vector<std::string>& strings) {
    const Grammar end = Grammar::literal("");
    std::vector<std::pair<std::string, Grammar>> tags;
    for (const std::string& one : strings) tags.emplace_back(one, end);
    return free_text(std::move(tags), 0);
  }

  /// Strings that free output must not contain: `excludes`, and the ends of the enclosing tag.
  std::vector<std::string> excluded(std::vector<std::string> excludes, const EndStrings& ends,
                                    const std::string& path) const {
    if (!ends) return excludes;
    std::size_t n = 0;
    for (const std::string& end : *ends) {
      if (end.empty()) continue;
      excludes.push_back(end);
      ++n;
    }
    if (n == 0) fail(path, "is free output in a tag without an end: give the tag an end string");
    return excludes;
  }

  Grammar any_text(const Json& format, const std::string& path, const char* excludes,
                   const EndStrings& ends) {
    refuse_members(format, {"max_tokens", "max_chars"}, path);
    return text_without(excluded(strings(format, excludes, path), ends, path));
  }

  Grammar elements(const Json& format, const std::string& path, bool choice, const EndStrings& ends) {
    static const EndStrings kNone;  // Elements that end their tag would each copy its ends.
    const Json& all = list(format, "elements", path);
    std::vector<Grammar> parts;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool ends_here = choice || i + 1 == all.size();
      parts.push_back(read(all[i], at(at(path, "elements"), i), ends_here ? ends : kNone));
    }
    return choice ? Grammar::choice(std::move(parts)) : Grammar::sequence(std::move(parts));
  }

  /// A tag without the first `n_read` bytes of its begin.
  Grammar tag(const Json& format, const std::string& path, std::size_t n_read) {
    budget_.spend();
    if (!format.is_object()) fail(path, "must be an object with begin, content and end");
    const std::string begin = spelling(member(format, "begin", path), at(path, "begin"));
    std::vector<std::string> ends;
    if (const Json& end = member(format, "end", path); end.is_array()) {
      if (end.empty()) fail(at(path, "end"), "must be a string or an array with at least one");
      for (std::size_t i = 0; i < end.size(); ++i) ends.push_back(spelling(end[i], at(at(path, "end"), i)));
    } else {
      ends.push_back(spelling(end, at(path, "end")));
    }
    std::vector<Grammar> choices;
    for (const std::string& end : ends) choices.push_back(written(end));
    return Grammar::sequence({written(std::string_view(begin).substr(n_read)),
                              read(member(format, "content", path), at(path, "content"), ends),
                              Grammar::choice(std::move(choices))});
  }

  /// Free output with tagged parts. With `at_least_one` it begins with a part, with `once` it ends after one.
  Grammar free(std::vector<std::pair<std::string, Grammar>> tags, const std::vector<std::string>& excludes,
               bool at_least_one, bool once) {
    if (!at_least_one && !once) {
      for (const std::string& one : excludes) tags.emplace_back(one, nothing());
      return free_text(std::move(tags), -1);
    }
    std::vector<std::string> gap = excludes;
    std::vector<Grammar> parts;
    for (auto& [begin, part] : tags) {
      parts.push_back(Grammar::sequence({written(begin), std::move(part)}));
      gap.push_back(begin);
    }
    Grammar part = Grammar::choice(std::move(parts));
    if (once && at_least_one) return part;
    if (once) return Grammar::sequence({text_without(gap), optional(std::move(part))});
    return Grammar::sequence({Grammar::list(std::move(part), text_without(gap), -1), text_without(gap)});
  }

  Grammar triggered(const Json& format, const std::string& path, const char* trigger_name,
                    const char* excludes, const EndStrings& ends) {
    const std::vector<std::string> triggers = strings(format, trigger_name, path);
    if (triggers.empty()) fail(at(path, trigger_name), "must be an array with at least one entry");
    const Json& tags = list(format, "tags", path);
    std::vector<std::vector<Grammar>> parts(triggers.size());
    for (std::size_t i = 0; i < tags.size(); ++i) {
      const std::string here = at(at(path, "tags"), i);
      if (!tags[i].is_object()) fail(here, "must be an object with begin, content and end");
      const std::string begin = spelling(member(tags[i], "begin", here), at(here, "begin"));
      std::optional<std::size_t> found;
      budget_.spend(static_cast<std::int64_t>(triggers.size()));
      for (std::size_t t = 0; t < triggers.size(); ++t) {
        if (!begin.starts_with(triggers[t])) continue;
        if (found) fail(at(here, "begin"), "begins with more than one of the triggers");
        found = t;
      }
      if (!found) fail(at(here, "begin"), "begins with none of the triggers");
      parts[*found].push_back(tag(tags[i], here, triggers[*found].size()));
    }
    std::vector<std::pair<std::string, Grammar>> all;
    for (std::size_t t = 0; t < triggers.size(); ++t)
      all.emplace_back(triggers[t], Grammar::choice(std::move(parts[t])));
    const bool once = flag(format, "stop_after_first", path);
    return free(std::move(all), excluded(strings(format, excludes, path), once ? std::nullopt : ends, path),
                flag(format, "at_least_one", path), once);
  }

  Grammar dispatch(const Json& format, const std::string& path, const char* excludes,
                   const EndStrings& ends) {
    const Json& rules = list(format, "rules", path);
    std::vector<std::pair<std::string, Grammar>> all;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const std::string here = at(at(path, "rules"), i);
      if (!rules[i].is_array() || rules[i].size() != 2) fail(here, "must be a pair: a string and a format");
      std::string pattern = spelling(rules[i][0], at(here, 0));
      if (pattern.empty()) fail(at(here, 0), "is an empty string");
      all.emplace_back(std::move(pattern), read(rules[i][1], at(here, 1), std::nullopt));
    }
    const bool once = !flag(format, "loop", path, true);
    return free(std::move(all), excluded(strings(format, excludes, path), once ? std::nullopt : ends, path),
                false, once);
  }

  Grammar separated(const Json& format, const std::string& path) {
    const Json& tags = list(format, "tags", path);
    std::vector<Grammar> parts;
    for (std::size_t i = 0; i < tags.size(); ++i) parts.push_back(tag(tags[i], at(at(path, "tags"), i), 0));
    Grammar all = Grammar::choice(std::move(parts));
    Grammar separator = written(text(format, "separator", path));
    if (!flag(format, "stop_after_first", path))
      all = Grammar::list(std::move(all), std::move(separator), -1);
    return flag(format, "at_least_one", path) ? std::move(all) : optional(std::move(all));
  }

  Grammar repeated(const Json& format, const std::string& path, std::string_view type,
                   const EndStrings& ends) {
    int least = type == "plus" ? 1 : 0, most = type == "optional" ? 1 : -1;
    if (type == "repeat") {
      const auto count = [&](const char* name, int smallest) {
        const Json& value = member(format, name, path);
        if (!value.is_number_integer() || value < smallest || value > kMostRepetitions)
          fail(at(path, name), "must be an integer from " + std::to_string(smallest) + " to " +
                                   std::to_string(kMostRepetitions));
        return value.get<int>();
      };
      least = count("min", 0);
      most = count("max", -1);
      if (most >= 0 && most < least) fail(at(path, "max"), "is below 'min'");
    }
    return Grammar::repeat(read(member(format, "content", path), at(path, "content"), ends), least, most);
  }

  const JsonSchemaOptions& options_;
  Budget budget_;
};

}  // namespace
}  // namespace grammar

Grammar Grammar::structural_tag(std::string_view json, const JsonSchemaOptions& options) {
  grammar::check_source(json, options.limits, "the structural tag");
  grammar::Json whole;
  try {
    whole = base::parse_json<grammar::Json>(json, {.depth = to_size(options.limits.depth)});
  } catch (const base::JsonError& error) {
    grammar::refuse(std::string("the structural tag: ") + error.what());
  }
  if (!whole.is_object()) grammar::refuse("the structural tag must be an object with the member \"format\"");
  grammar::TagReader reader(options);
  if (whole.contains("format")) return reader.read(whole["format"], "format", std::nullopt);
  if (whole.contains("structures")) return reader.read_structures(whole);
  grammar::refuse("the structural tag has neither \"format\" nor \"structures\" and \"triggers\"");
}

}  // namespace weft
