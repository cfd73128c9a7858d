// Cost of constraints: compiling grammars for a real vocabulary, and the masks along random strings.
//
//   bench_grammar VOCABULARY.gguf [SCHEMA.json...]
//
// Without schemas it measures a fixed set of schemas, GBNF and free output. Columns: compile time in
// milliseconds, tokens walked, masks in microseconds (median, 99th percentile, maximum), memory of the
// grammar in KiB. Times are processor time.
#include "weft/grammar.h"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "weft/model.h"

namespace {

/// The processor's time of this thread: a busy machine does not count.
double now_ms() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

struct Case {
  std::string name;
  std::vector<double> mask_us;
  double compile_ms = 0.0;
  std::size_t bytes = 0;
};

/// Random strings: each token is drawn from the allowed ones. An allowed end is taken now and then.
void walk(const weft::CompiledGrammar& grammar, const weft::Tokenizer& tokenizer, std::mt19937& random,
          Case& result) {
  constexpr int kTexts = 5, kTokens = 200;
  const auto n_vocab = static_cast<std::size_t>(tokenizer.n_vocab());
  std::vector<std::uint32_t> allowed((n_vocab + 31) / 32);
  std::vector<weft::Token> tokens;
  for (int text = 0; text < kTexts; ++text) {
    const auto constraint = grammar.constraint();
    for (int i = 0; i < kTokens; ++i) {
      std::fill(allowed.begin(), allowed.end(), 0);
      const auto begin = now_ms();
      constraint->fill({}, allowed);
      result.mask_us.push_back((now_ms() - begin) * 1000.0);
      tokens.clear();
      for (std::size_t t = 0; t < n_vocab; ++t)
        if ((allowed[t / 32] >> (t % 32) & 1) != 0) tokens.push_back(static_cast<weft::Token>(t));
      const weft::Token token = tokens[random() % tokens.size()];
      if (tokenizer.is_end(token)) break;
      constraint->accept(token);
    }
  }
}

void report(Case& result) {
  std::sort(result.mask_us.begin(), result.mask_us.end());
  const auto at = [&](double share) {
    return result.mask_us[static_cast<std::size_t>(share * static_cast<double>(result.mask_us.size() - 1))];
  };
  std::printf("%-32s %9.2f %7zu %9.1f %9.1f %9.1f %8zu\n", result.name.c_str(), result.compile_ms,
              result.mask_us.size(), at(0.5), at(0.99), at(1.0), result.bytes >> 10);
}

std::vector<std::pair<std::string, std::string>> default_schemas() {
  return {
      {"object", R"({"type":"object"})"},
      {"flat", R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},
        "email":{"type":"string","format":"email"},"active":{"type":"boolean"}},"required":["name","age","email","active"]})"},
      {"optional",
       R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"},"c":{"type":"array",
        "items":{"type":"string"}},"d":{"enum":["red","green","blue"]},"e":{"type":"null"}}})"},
      {"lengths", R"({"type":"object","properties":{"title":{"type":"string","maxLength":140},
        "body":{"type":"string","minLength":10,"maxLength":5000}},"required":["title","body"]})"},
      {"recursive",
       R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"value":{"type":"string"},
        "children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["value","children"]}}})"},
      {"union",
       R"({"anyOf":[{"type":"object","properties":{"kind":{"const":"circle"},"radius":{"type":"number"}},
        "required":["kind","radius"]},{"type":"object","properties":{"kind":{"const":"square"},"side":{"type":"number"}},
        "required":["kind","side"]},{"type":"array","items":{"type":"integer"}},{"type":"string"}]})"},
      {"dates", R"({"type":"array","items":{"type":"string","format":"date-time"},"minItems":3})"},
  };
}

constexpr const char* kArithmetic = R"gbnf(
root ::= (expr "=" ws term "\n")+
expr ::= term ([-+*/] term)*
term ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num ::= [0-9]+ ws
ws ::= [ \t\n]*
)gbnf";

void run(int n_arguments, char** arguments) {
  const weft::Tokenizer tokenizer = weft::load_tokenizer(arguments[1]);
  auto begin = now_ms();
  const weft::GrammarCompiler compiler(tokenizer);
  std::printf("vocabulary of %d tokens, prepared in %.1f ms\n", tokenizer.n_vocab(), (now_ms() - begin));
  std::printf("%-32s %9s %7s %9s %9s %9s %8s\n", "grammar", "compile", "tokens", "median", "p99", "max",
              "KiB");
  std::mt19937 random(1);
  const auto measure = [&](const std::string& name, auto&& make) {
    Case result;
    result.name = name;
    const auto start = now_ms();
    const auto compiled = compiler.compile(make());
    result.compile_ms = now_ms() - start;
    walk(*compiled, tokenizer, random, result);
    result.bytes = compiled->bytes();
    report(result);
  };
  if (n_arguments > 2) {
    for (int i = 2; i < n_arguments; ++i) {
      std::ifstream file(arguments[i]);
      const std::string schema((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      measure(arguments[i], [&] { return weft::Grammar::json_schema(schema); });
    }
    return;
  }
  for (const auto& [name, schema] : default_schemas())
    measure(name, [&] { return weft::Grammar::json_schema(schema); });
  measure("gbnf: arithmetic", [] { return weft::Grammar::gbnf(kArithmetic); });
  measure("regex: words", [] { return weft::Grammar::regex(R"([A-Z][a-z]+( [a-z]+)*\.)"); });
  measure("free text with calls", [] {
    return weft::Grammar::free_text(
        {{"<tool_call>",
          weft::Grammar::sequence({weft::Grammar::json_object(), weft::Grammar::literal("</tool_call>")})}});
  });
}

}  // namespace

int main(int n_arguments, char** arguments) {
  if (n_arguments < 2) {
    std::fprintf(stderr, "bench_grammar VOCABULARY.gguf [SCHEMA.json...]\n");
    return 2;
  }
  try {
    run(n_arguments, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_grammar: %s\n", error.what());
    return 1;
  }
}
