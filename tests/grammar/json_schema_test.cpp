#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "grammar/schema/schema_document.h"
#include "grammar_testing.h"

namespace weft::grammar {
namespace {

using testing::HasSubstr;

std::string schema_refusal(const std::string& schema,
                           const JsonSchemaOptions& options = {.limits = patient()}) {
  return error_of(
      [&] { (void)small_compiler().compile(Grammar::json_schema(schema, options), options.limits); });
}
bool fits(const std::string& schema, std::string_view text,
          const JsonSchemaOptions& options = {.limits = patient()}) {
  return allows(Grammar::json_schema(schema, options), text);
}

nlohmann::json vectors() {
  std::ifstream file(WEFT_TEST_DATA "/grammar/schemas.json");
  return nlohmann::json::parse(file);
}

// The package jsonschema decides which documents are valid (scripts/make_schema_vectors.py).
TEST(JsonSchema, AgreesWithJsonschema) {
  const nlohmann::json all = vectors();
  ASSERT_GE(all.size(), 100u);
  for (const auto& vector : all) {
    const auto grammar = compiled(Grammar::json_schema(vector["source"].get<std::string>()));
    for (const auto& text : vector["valid"])
      EXPECT_TRUE(grammar->allows_text(text.get<std::string>())) << vector["source"] << "\n"
                                                                 << text.get<std::string>();
    for (const auto& text : vector["invalid"])
      EXPECT_FALSE(grammar->allows_text(text.get<std::string>())) << vector["source"] << "\n"
                                                                  << text.get<std::string>();
  }
}

bool is_json(const std::string& text) {
  try {
    return !nlohmann::json::parse(text).is_discarded();
  } catch (const nlohmann::json::parse_error&) {
    return false;
  } catch (const nlohmann::json::out_of_range&) {  // Very many digits, which nlohmann does not read.
    return true;
  }
}

// Along random documents, the masks agree with the automaton for each token, and the documents end validly.
TEST(JsonSchema, MasksAgreeWithTheLanguage) {
  std::mt19937 random(7);
  for (const auto& vector : vectors()) {
    const auto grammar = compiled(Grammar::json_schema(vector["source"].get<std::string>()));
    const auto constraint = grammar->constraint();
    std::string text;
    for (int i = 0; i < 60; ++i) {
      const std::vector<Token> tokens = allowed_tokens(*constraint);
      if (i % 10 == 0) {
        for (Token t = 0; t < small_tokenizer().n_vocab(); ++t)
          ASSERT_EQ(constraint->allows({}, t), std::binary_search(tokens.begin(), tokens.end(), t))
              << vector["source"] << "\n"
              << text << " + " << small_tokenizer().piece(t, true);
      }
      const Token token = tokens[random() % tokens.size()];
      if (small_tokenizer().is_end(token)) {
        EXPECT_TRUE(grammar->allows_text(text)) << vector["source"] << "\n" << text;
        EXPECT_TRUE(is_json(text)) << text;
        break;
      }
      EXPECT_FALSE(small_tokenizer().piece(token).empty());
      constraint->accept(token);
      text += small_tokenizer().piece(token);
    }
  }
}

TEST(JsonSchema, WhiteSpaceOnRequest) {
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},"required":["a"]})";
  JsonSchemaOptions options;
  options.any_whitespace = true;
  EXPECT_TRUE(fits(schema, R"({"a": [1, 2]})"));
  EXPECT_FALSE(fits(schema, R"({"a":[1,2]})"));
  EXPECT_TRUE(fits(schema, R"({"a":[1,2]})", options));
  EXPECT_TRUE(fits(schema, "{\n  \"a\" : [ 1,\n    2 ]\n}", options));
  EXPECT_FALSE(fits(schema, "{   \"a\": [1]}", options));
}

TEST(JsonSchema, AnEmptyListOfPropertiesIsTheWholeList) {
  EXPECT_TRUE(fits(R"({"type":"object","properties":{}})", "{}"));
  EXPECT_FALSE(fits(R"({"type":"object","properties":{}})", R"({"a": 1})"));
  // Unless the schema says otherwise.
  EXPECT_TRUE(fits(R"({"type":"object"})", R"({"a": 1})"));
  for (const std::string more :
       {R"("additionalProperties":true)", R"("additionalProperties":{"type":"integer"})",
        R"("minProperties":1)", R"("unevaluatedProperties":{"type":"integer"})",
        R"("propertyNames":{"pattern":"^a$"})"})
    EXPECT_TRUE(fits(R"({"type":"object","properties":{},)" + more + "}", R"({"a": 1})")) << more;
}

TEST(JsonSchema, AdditionalKeysAreNoneOfTheNames) {
  const std::string schema =
      R"({"type":"object","properties":{"ab":{"type":"integer"}},"additionalProperties":{"type":"string"}})";
  EXPECT_TRUE(fits(schema, R"({"a": "x", "abc": "y"})"));
  EXPECT_FALSE(fits(schema, R"({"ab": 1, "ab": "x"})"));
  EXPECT_FALSE(fits(schema, R"({"\u0061b": "x"})"));
}

TEST(JsonSchema, ConstrainsUnevaluatedMembers) {
  const std::string map = R"({"type":"object","unevaluatedProperties":{"type":"integer"}})";
  EXPECT_TRUE(fits(map, R"({"a": 1, "b": 2})"));
  EXPECT_FALSE(fits(map, R"({"a": "x"})"));
  const std::string list = R"({"type":"array","unevaluatedItems":{"type":"boolean"},"minItems":1})";
  EXPECT_TRUE(fits(list, "[true, false]"));
  EXPECT_FALSE(fits(list, "[null]"));
  EXPECT_FALSE(fits(list, "[]"));
  // They mean their type, as other keywords do.
  EXPECT_TRUE(fits(R"({"unevaluatedProperties":false})", "{}"));
  EXPECT_FALSE(fits(R"({"unevaluatedProperties":false})", R"({"a": 1})"));
  EXPECT_TRUE(fits(R"({"unevaluatedItems":false})", "[]"));
  EXPECT_FALSE(fits(R"({"unevaluatedItems":false})", "[1]"));
  // Items that other keywords describe count as evaluated.
  const std::string both =
      R"({"prefixItems":[{"type":"string"}],"items":{"type":"integer"},"unevaluatedItems":false})";
  EXPECT_TRUE(fits(both, R"(["a", 1, 2])"));
  const std::string tuple = R"({"prefixItems":[{"type":"string"}],"unevaluatedItems":false})";
  EXPECT_TRUE(fits(tuple, R"(["a"])"));
  EXPECT_FALSE(fits(tuple, R"(["a", 1])"));
  const std::string named =
      R"({"properties":{"a":{"type":"null"}},"additionalProperties":true,"unevaluatedProperties":{"type":"integer"}})";
  EXPECT_TRUE(fits(named, R"({"a": null, "b": 1})"));
  EXPECT_FALSE(fits(R"({"unevaluatedProperties":{"type":"integer"},"required":["a"]})", R"({"a": "x"})"));
  EXPECT_TRUE(fits(R"({"unevaluatedProperties":{"type":"integer"},"required":["a"]})", R"({"a": 1})"));
  EXPECT_THAT(schema_refusal(R"({"unevaluatedProperties":false,"required":["a"]})"),
              HasSubstr("matches no text"));
}

TEST(JsonSchema, AHostOfAUriHasOnePort) {
  const std::string uri = R"({"type":"string","format":"uri"})";
  for (const char* text :
       {"http://a", "http://a:80/b", "http://me:word@a.b:80", "http://@a", "http://%41", "urn:a:b"})
    EXPECT_TRUE(fits(uri, '"' + std::string(text) + '"')) << text;
  for (const char* text : {"http://a:b/", "http://a:1:2", "http://a@b@c", "http://:1"})
    EXPECT_FALSE(fits(uri, '"' + std::string(text) + '"')) << text;
}

TEST(JsonSchema, StringsAreValidUtf8AndEscapes) {
  EXPECT_FALSE(fits("{}", "\"\xFF\""));
  EXPECT_FALSE(fits("{}", "\"\n\""));
  EXPECT_FALSE(fits("{}", R"("\ud83d")"));
  EXPECT_FALSE(fits("{}", R"("\udc00\ud83d")"));
  EXPECT_FALSE(fits("{}", R"("\x41")"));
  EXPECT_TRUE(fits("{}", R"("\u00e9\/\b")"));
}

TEST(JsonSchema, ObjectsOfAnyKind) {
  EXPECT_TRUE(allows(Grammar::json_object(), R"({"a": [{}, []], "b": "x"})"));
  EXPECT_FALSE(allows(Grammar::json_object(), "[]"));
}

TEST(JsonSchema, RejectsUnenforceableKeywords) {
  EXPECT_THAT(schema_refusal(R"({"type":"object","properties":{"a":{"not":{"type":"string"}}}})"),
              HasSubstr("#/properties/a/not"));
  EXPECT_THAT(schema_refusal(R"({"if":{},"then":{}})"), HasSubstr("if is not supported"));
  EXPECT_THAT(schema_refusal(R"({"type":"array","uniqueItems":true})"), HasSubstr("uniqueItems"));
  EXPECT_THAT(schema_refusal(R"({"type":"array","contains":{}})"), HasSubstr("contains"));
  EXPECT_THAT(schema_refusal(R"({"type":"integer","multipleOf":7})"), HasSubstr("#/multipleOf"));
  EXPECT_THAT(schema_refusal(R"json({"type":"string","pattern":"(?=a)"})json"), HasSubstr("#/pattern"));
  EXPECT_THAT(schema_refusal(R"({"type":"string","format":"uri-template"})"), HasSubstr("uri-template"));
  EXPECT_THAT(schema_refusal(R"({"type":"object","patternProperties":{"^a":{}, "b$":{}}})"),
              HasSubstr("patternProperties"));
  EXPECT_THAT(schema_refusal(R"({"type":"object","properties":{"a":{},"b":{}},"minProperties":2})"),
              HasSubstr("minProperties and maxProperties"));
  EXPECT_THAT(schema_refusal(R"({"$ref":"https://example.com/x"})"), HasSubstr("other documents"));
  EXPECT_THAT(schema_refusal(R"({"$ref":"#/$defs/none"})"), HasSubstr("has no target"));
  EXPECT_EQ(schema_refusal(R"({"type":"string","format":"int32"})"), "");
}

/// The keywords that are left free, by their pointers.
std::vector<std::string> left_free(const std::string& schema) {
  std::vector<std::string> notes;
  (void)compiled(Grammar::json_schema(schema, {.left_free = &notes}));
  for (std::string& note : notes) note.resize(note.find(": "));
  return notes;
}

bool fits_freely(const std::string& schema, std::string_view text) {
  std::vector<std::string> notes;
  return fits(schema, text, {.left_free = &notes});
}

TEST(JsonSchema, IgnoresUnenforceableKeywordsOnRequest) {
  // The keyword, a value that it would refuse, and one that the rest of the schema refuses.
  struct Case {
    std::string keyword, pointer, free, refused;
  };
  const Case cases[] = {
      {R"("type":"array","items":{"type":"integer"},"uniqueItems":true)", "#/uniqueItems", "[1, 1]",
       "[true]"},
      {R"("type":"string","not":{"const":"a"})", "#/not", R"("a")", "1"},
      {R"("type":"string","if":{})", "#/if", R"("a")", "1"},
      {R"("type":"array","items":{"type":"integer"},"contains":{"const":1})", "#/contains", "[2]",
       R"(["a"])"},
      {R"("type":"object","properties":{"a":{"type":"null"},"b":{}},"dependentRequired":{"a":["b"]})",
       "#/dependentRequired", R"({"a": null})", R"({"a": 1})"},
      {R"("type":"object","properties":{"a":{},"b":{}},"minProperties":2)", "#/minProperties", R"({"a": 1})",
       "[]"},
      {R"("type":"integer","multipleOf":15,"minimum":3)", "#/multipleOf", "4", "2"},
      {R"("type":"string","format":"uri-reference","maxLength":2)", "#/format", R"("a")", R"("abc")"},
      {R"("type":"string","pattern":"\\bfoo\\b","maxLength":2)", "#/pattern", R"("a")", R"("abc")"},
      {R"("type":"string","pattern":"(?i)foo")", "#/pattern", R"("a")", "1"},
      {R"json("type":"string","pattern":"(?P<n>a)")json", "#/pattern", R"("b")", "1"},
      {R"("type":"string","pattern":"\\Aa\\z")", "#/pattern", R"("b")", "1"},
      {R"json("type":"string","pattern":"^(?!a)")json", "#/pattern", R"("a")", "1"},
      {R"("$ref":"https://example.com/x","type":"string")", "#/$ref", R"("a")", "1"},
      {R"("$ref":"#/$defs/none","type":"string")", "#/$ref", R"("a")", "1"},
      {R"("properties":{"a":{"type":"any"}},"required":["a"])", "#/properties/a/type", R"({"a": 1})",
       R"({"b": 1})"},
      {R"("type":"string","enum":null)", "#/enum", R"("a")", "1"},
      {R"("type":"string","enum":[])", "#/enum", R"("a")", "1"},
      {R"("type":"string","anyOf":[])", "#/anyOf", R"("a")", "1"},
      {R"("type":"array","items":null)", "#/items", R"([1, "a"])", "1"},
      {R"("type":"object","properties":{"a":{"type":"string"}},"required":null)", "#/required", "{}",
       R"({"a": 1})"},
      {R"("type":"object","properties":{"a":{"type":"string"}},"patternProperties":null)",
       "#/patternProperties", R"({"a": "x"})", R"({"a": 1})"},
      {R"("type":"string","minLength":"3")", "#/minLength", R"("a")", "1"},
      {R"("type":"number","minimum":"3","maximum":5)", "#/minimum", "1", "6"},
      {R"("type":"object","patternProperties":{"^a":{},"b$":{}})", "#/patternProperties", R"({"c": 1})", "1"},
      {R"("type":"string","pattern":"^a+$","maxLength":100000)", "#/maxLength", R"("aaa")", R"("b")"},
  };
  for (const Case& c : cases) {
    const std::string schema = "{" + c.keyword + "}";
    EXPECT_EQ(left_free(schema), std::vector{c.pointer}) << schema;
    EXPECT_TRUE(fits_freely(schema, c.free)) << schema << "\n" << c.free;
    EXPECT_FALSE(fits_freely(schema, c.refused)) << schema << "\n" << c.refused;
    EXPECT_THAT(schema_refusal(schema), HasSubstr(c.pointer)) << schema;
  }
  EXPECT_TRUE(left_free(R"({"type":"string","default":null,"title":null,"examples":null})").empty());
}

TEST(JsonSchema, NotesAreFewHoweverMuchIsLeftFree) {
  std::string wide = R"({"type":"object","properties":{)";
  for (int i = 0; i < 5000; ++i)
    wide += std::string(i > 0 ? "," : "") + "\"p" + std::to_string(i) +
            R"(":{"type":"array","uniqueItems":true})";
  EXPECT_EQ(left_free(wide + "}}").size(), JsonSchemaOptions::kMostNotes);
}

TEST(JsonSchema, CountsHoweverMany) {
  for (const int n : {255, 256, 257, 511, 512, 2000, 65535, 65536, 65537, 200'000}) {
    const std::string count = std::to_string(n);
    const auto most = compiled(Grammar::json_schema(R"({"type":"string","maxLength":)" + count + "}"));
    const auto exactly = compiled(
        Grammar::json_schema(R"({"type":"string","minLength":)" + count + R"(,"maxLength":)" + count + "}"));
    for (const int k : {-257, -256, -1, 0, 1, 256}) {
      if (n + k < 0) continue;
      const std::string text = '"' + std::string(static_cast<std::size_t>(n + k), 'x') + '"';
      EXPECT_EQ(most->allows_text(text), k <= 0) << n << " and " << k;
      EXPECT_EQ(exactly->allows_text(text), k == 0) << n << " and " << k;
    }
  }
  EXPECT_EQ(schema_refusal(R"({"type":"string","minLength":1,"maxLength":1000000000})"), "");
  const auto list = compiled(
      Grammar::json_schema(R"({"type":"array","items":{"enum":[1]},"minItems":300,"maxItems":70000})"));
  for (const int n : {299, 300, 301, 69'999, 70'000, 70'001}) {
    std::string text = "[1";
    for (int i = 1; i < n; ++i) text += ", 1";
    EXPECT_EQ(list->allows_text(text + "]"), n >= 300 && n <= 70'000) << n;
  }
  EXPECT_EQ(
      schema_refusal(
          R"({"type":"array","items":{"type":"array","items":{"type":"string","maxLength":900},"minItems":900},"minItems":900})"),
      "");
}

TEST(JsonSchema, LimitsCountWork) {
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"string","format":"hostname"}}})";
  JsonSchemaOptions options;
  options.limits.work = 1 << 12;
  const std::string first = schema_refusal(schema, options);
  EXPECT_THAT(first, HasSubstr("more than 4096 steps"));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(schema_refusal(schema, options), first);
}

TEST(JsonSchema, CountsOneProperty) {
  const std::string schema = R"({"type":"object","properties":{"a":{},"b":{}},"minProperties":1})";
  EXPECT_TRUE(fits(schema, R"({"b": 1})"));
  EXPECT_FALSE(fits(schema, "{}"));
}

TEST(JsonSchema, RejectsInvalidSchemas) {
  EXPECT_THAT(schema_refusal("{"), HasSubstr("invalid JSON at byte"));
  EXPECT_THAT(schema_refusal("3"), HasSubstr("a schema is an object"));
  EXPECT_THAT(schema_refusal(R"({"type":"text"})"), HasSubstr("unknown type"));
  EXPECT_THAT(schema_refusal(R"({"type":"string","minLength":-1})"), HasSubstr("#/minLength"));
  EXPECT_THAT(schema_refusal(R"({"properties":3})"), HasSubstr("expected an object"));
  EXPECT_THAT(schema_refusal(R"({"required":["a",1]})"), HasSubstr("#/required/1"));
}

TEST(JsonSchema, RejectsSchemasWithoutValidDocuments) {
  EXPECT_THAT(schema_refusal("false"), HasSubstr("matches no text"));
  EXPECT_THAT(schema_refusal(R"({"type":"string","minLength":3,"maxLength":2})"),
              HasSubstr("matches no text"));
  EXPECT_THAT(schema_refusal(R"({"type":"integer","minimum":3,"maximum":2})"), HasSubstr("matches no text"));
  EXPECT_THAT(schema_refusal(R"({"allOf":[{"type":"string"},{"type":"integer"}]})"),
              HasSubstr("matches no text"));
  EXPECT_THAT(schema_refusal(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"),
              HasSubstr("matches no text"));
  EXPECT_THAT(schema_refusal(R"({"$ref":"#"})"), HasSubstr("refers to itself"));
  EXPECT_THAT(schema_refusal(R"({"anyOf":[{"$ref":"#"}]})"), HasSubstr("matches no text"));
  EXPECT_TRUE(fits(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "null"));
  EXPECT_FALSE(fits(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "1"));
}

TEST(JsonSchema, HostileSchemasAreErrors) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += R"({"items":)";
  EXPECT_THAT(schema_refusal(deep), HasSubstr("nested more than"));
  EXPECT_THAT(schema_refusal(std::string(100000, '[')), HasSubstr("nested more than"));
  // Unions that multiply.
  std::string product = R"({"allOf":[)";
  for (int i = 0; i < 24; ++i)
    product += std::string(i > 0 ? "," : "") + R"({"anyOf":[{"required":["a)" + std::to_string(i) +
               R"("]},{"required":["b)" + std::to_string(i) + R"("]}]})";
  GrammarLimits limits;
  JsonSchemaOptions options;
  options.limits = limits;
  EXPECT_NE(schema_refusal(product + "]}", options), "");
  std::string wide = R"({"type":"object","properties":{)";
  for (int i = 0; i < 2000; ++i)
    wide += std::string(i > 0 ? "," : "") + "\"p" + std::to_string(i) + R"(":{"type":"string"})";
  EXPECT_TRUE(fits(wide + "}}", R"({"p3": "x", "p1999": "y"})"));
}

/// The steps that are counted while a schema is read and written, as for a tool.
std::int64_t work_of(const std::string& schema) {
  constexpr std::int64_t kAny = std::int64_t{1} << 50;
  Budget budget({.source_bytes = schema.size(), .states = kAny, .work = kAny});
  std::vector<std::string> notes;
  const SchemaDocument document(schema, budget.limits());
  (void)document.properties(budget);
  (void)document.whole(budget, {.left_free = &notes});
  return budget.work();
}

/// head, part(0), part(1) ... with commas between, tail.
std::string schema_of(const std::string& head, int n, const std::function<std::string(int)>& part,
                      const std::string& tail) {
  std::string schema = head;
  for (int i = 0; i < n; ++i) schema += (i > 0 ? "," : "") + part(i);
  return schema + tail;
}

TEST(JsonSchema, WorkIsCountedAndLinear) {
  const auto name = [](const char* prefix, int i) {
    return '"' + (prefix + std::to_string(100'000 + i)) + '"';
  };
  const std::pair<const char*, std::function<std::string(int)>> shapes[] = {
      {"required names",
       [&](int n) { return schema_of(R"({"required":[)", n, [&](int i) { return name("p", i); }, "]}"); }},
      {"references to missing anchors",
       [&](int n) {
         return schema_of(R"({"anyOf":[)", n, [&](int i) { return "{\"$ref\":" + name("#", i) + "}"; }, "]}");
       }},
      {"a chain of references",
       [&](int n) {
         const auto link = [&](int i) {
           return name("d", i) + R"(:{"properties":{"next":{"$ref":)" + name("#/$defs/d", i + 1) + "}}}";
         };
         return schema_of(R"({"$ref":"#/$defs/d100000","$defs":{)", n, link, "}}");
       }},
      {"references without anything in between",
       [&](int n) {
         const auto link = [&](int i) {
           return name("d", i) + ":{\"$ref\":" + name("#/$defs/d", i + 1) + "}";
         };
         return schema_of(R"({"$ref":"#/$defs/d100000","$defs":{)", n, link, "}}");
       }},
      {"one enum of many values",
       [&](int n) {
         return schema_of(R"({"properties":{"a":{"enum":[)", n, [&](int i) { return name("v", i); }, "]}}}");
       }},
      {"many enums",
       [&](int n) {
         return schema_of(
             R"({"properties":{)", n, [&](int i) { return name("p", i) + R"(:{"enum":["a","b",3]})"; }, "}}");
       }},
      {"properties, one of them required",
       [&](int n) {
         return schema_of(
             R"({"required":["p100003"],"properties":{)", n,
             [&](int i) { return name("p", i) + R"(:{"type":"string","uniqueItems":true})"; }, "}}");
       }},
  };
  for (const auto& [what, schema] : shapes) {
    const std::int64_t half = work_of(schema(5'000)), whole = work_of(schema(10'000));
    EXPECT_LE(whole, half * 21 / 10) << what;
  }
  EXPECT_GE(work_of(shapes[0].second(10'000)), 10'000);
}

TEST(JsonSchema, SearchesOnceForAnchorsAndCountsThat) {
  const std::string values = R"("const":[)" + schema_of("", 10'000, [](int) { return "0"; }, "]");
  const auto work = [&](int n) {
    const auto reference = [](int i) { return "{\"$ref\":\"#a" + std::to_string(i) + "\"}"; };
    return work_of(schema_of("{" + values + R"(,"allOf":[)", n, reference, "]}"));
  };
  const auto with = [&](const std::string& reference) {
    return work_of("{" + reference + R"("$defs":{"x":{"$anchor":"a"}},)" + values + "}");
  };
  EXPECT_GE(with(R"("$ref":"#a",)"), with("") + 20'000);  // Read for properties, and to be written.
  // There are as many notes for 20 as for 40.
  EXPECT_LE(work(40), work(20) + 10'000);
  EXPECT_TRUE(
      fits(R"({"$ref":"#a","$defs":{"x":{"$anchor":"b","const":1},"y":{"$anchor":"a","const":2}}})", "2"));
}

TEST(JsonSchema, CountsLongTextsWhereTheyAreReadAgain) {
  const std::string text(1'000, 'x');
  const auto used = [&](const std::string& schema, int n) {
    return work_of(schema_of(
        R"({"$defs":{"d":)" + schema + R"(},"properties":{)", n,
        [](int i) { return "\"p" + std::to_string(i) + R"(":{"$ref":"#/$defs/d"})"; }, "}}"));
  };
  for (const std::string& schema : {R"({"enum":[")" + text + R"("]})", R"({"$ref":"#/)" + text + R"("})"})
    EXPECT_GE(used(schema, 20) - used(schema, 10), 10'000) << schema.substr(0, 20);
}

TEST(JsonSchema, CountsThePositionsOfArraysForEachSchema) {
  const auto schema = [](int n) {
    return schema_of(
        R"({"allOf":[)", n, [](int) { return R"({"items":{}})"; },
        schema_of(R"(,{"prefixItems":[)", 100, [](int) { return "{}"; }, "]}]}"));
  };
  // Each schema is counted where it is added to a position, and where the position is written.
  EXPECT_GE(work_of(schema(200)) - work_of(schema(100)), 20'000);
}

TEST(JsonSchema, CountsBothTextsOfAComparison) {
  const std::string text(1'000, 'x');
  const auto schema = [&](int n) {
    return schema_of(
        R"({"allOf":[{"enum":[)", n, [](int i) { return "\"v" + std::to_string(i) + "\""; },
        R"(]},{"enum":[")" + text + R"("]}]})");
  };
  EXPECT_GE(work_of(schema(20)) - work_of(schema(10)), 10'000);
}

TEST(JsonSchema, CountsRequiredNamesForEachAlternative) {
  const auto schema = [](int n) {
    return schema_of(
               R"({"anyOf":[)", n, [](int) { return R"({"type":"string"})"; }, R"(],"required":[)") +
           schema_of("", 1'000, [](int i) { return "\"p" + std::to_string(i) + "\""; }, "]}");
  };
  EXPECT_GE(work_of(schema(20)) - work_of(schema(10)), 10'000);
}

TEST(JsonSchema, PointersNameItemsAndMembersAtAnyDepth) {
  std::string schema = R"({"uniqueItems":true})", pointer = "/uniqueItems";
  for (int i = 0; i < 50; ++i) {
    schema = R"({"prefixItems":[{"type":"null"},)" + schema + R"(],"x":1})";
    pointer = "/prefixItems/1" + pointer;
  }
  EXPECT_THAT(schema_refusal(R"({"properties":{"a/b":)" + schema + "}}"),
              HasSubstr("#/properties/a~1b" + pointer + ":"));
  const JsonTree tree(R"({"a":[0,1],"a":[2,3]})", 8, "the text");
  EXPECT_EQ(tree.pointer_to(tree[tree.find(tree.root(), "a")].items[1]), "#/a/1");
  EXPECT_EQ(tree.pointer_to(3), "#/1");  // A later member has the same key.
}

}  // namespace
}  // namespace weft::grammar
