// Sources that were damaged at random: each is an error, or a grammar whose masks can be made.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "grammar_testing.h"

namespace weft::grammar {
namespace {

constexpr int kMutations = 7000;  // Of each kind of source.

std::string mutated(std::string source, const std::vector<std::string>& seeds, std::string_view alphabet,
                    std::mt19937& random) {
  const int n = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < n; ++i) {
    const std::size_t at = source.empty() ? 0 : random() % source.size();
    switch (random() % 6) {
      case 0:
        if (!source.empty()) source.erase(at, 1 + random() % 5);
        break;
      case 1:
        source.insert(at, 1, alphabet[random() % alphabet.size()]);
        break;
      case 2:
        if (!source.empty()) source[at] = static_cast<char>(random());
        break;
      case 3:  // A part of it once more.
        source.insert(at, source.substr(random() % (source.size() + 1), random() % 20));
        break;
      case 4: {  // A part of another.
        const std::string& other = seeds[random() % seeds.size()];
        source.insert(at, other.substr(random() % (other.size() + 1), random() % 40));
        break;
      }
      default:
        source.insert(
            at, std::to_string(random() % 3 == 0 ? 1000000000u : static_cast<unsigned>(random() % 200)));
    }
  }
  return source;
}

/// Compiles it, and walks a few tokens into it.
template <typename Make>
int run(const std::vector<std::string>& seeds, std::string_view alphabet, Make&& make) {
  std::mt19937 random(42);
  GrammarLimits limits;
  limits.states = 20000;
  int n_good = 0;
  for (int i = 0; i < kMutations; ++i) {
    const std::string source = mutated(seeds[random() % seeds.size()], seeds, alphabet, random);
    try {
      const auto grammar = small_compiler().compile(make(source, limits), limits);
      const auto constraint = grammar->constraint();
      for (int n = 0; n < 6; ++n) {
        const std::vector<Token> tokens = allowed_tokens(*constraint);
        constraint->accept(tokens[random() % tokens.size()]);
      }
      ++n_good;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    }
  }
  return n_good;
}

TEST(Mutations, OfGbnf) {
  const std::vector<std::string> seeds = {
      "root ::= (expr \"=\" ws term \"\\n\")+\nexpr ::= term ([-+*/] term)*\nterm ::= ident | num | \"(\" ws "
      "expr \")\" ws\n"
      "ident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*\n",
      "root ::= object\nvalue ::= object | array | string | \"true\"\nobject ::= \"{\" (string \":\" value "
      "(\",\" string \":\" value)*)? \"}\"\n"
      "array ::= \"[\" (value (\",\" value)*)? \"]\"\nstring ::= \"\\\"\" ([^\"\\\\] | \"\\\\\" [\"\\\\nu])* "
      "\"\\\"\"\n",
      "root ::= item{1,3} <call> # end\nitem ::= \"- \" [^\\r\\n\\x0b\\u2028]{2,} .? \"\\n\""};
  EXPECT_GT(run(seeds, "()[]{}|*+?\"\\.^-:=<>#\n \t",
                [](const std::string& s, const GrammarLimits& l) { return Grammar::gbnf(s, l); }),
            300);
}

TEST(Mutations, OfPatterns) {
  const std::vector<std::string> seeds = {
      R"(^(\d{4})-(0[1-9]|1[0-2])-([0-2]\d|3[01])$)", R"([\w.+-]+@(?:[a-z0-9-]+\.)+[a-z]{2,}?)",
      R"((a|b)*c{2,5}[^x-z\s]+\u00e9\x41?)", R"((?<year>[12]\d{3})|.*\S\W)"};
  EXPECT_GT(run(seeds, "()[]{}|*+?\\.^$-:dDwWsSpu",
                [](const std::string& s, const GrammarLimits& l) { return Grammar::regex(s, l); }),
            500);
}

TEST(Mutations, OfSchemas) {
  std::ifstream file(WEFT_TEST_DATA "/grammar/schemas.json");
  std::vector<std::string> seeds;
  for (const auto& vector : nlohmann::json::parse(file))
    if (vector["source"].get<std::string>().size() < 1500)
      seeds.push_back(vector["source"].get<std::string>());
  EXPECT_GT(run(seeds, "{}[]\",:0123456789",
                [](const std::string& s, const GrammarLimits& l) {
                  JsonSchemaOptions options;
                  options.limits = l;
                  return Grammar::json_schema(s, options);
                }),
            300);
}

}  // namespace
}  // namespace weft::grammar
