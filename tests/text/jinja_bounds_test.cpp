// Hostile templates: every rendering ends quickly, in bounded memory and stack, with an Error or a result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "text/small_stack.h"
#include "weft/chat_template.h"
#include "weft/error.h"

namespace weft {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string repeat(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

// The error, or "ok" and the size of the output.
std::string outcome(const std::string& source) {
  try {
    return "ok " + std::to_string(join(ChatTemplate(source).render({{"user", "hello"}}, {})).size());
  } catch (const Error& error) {
    return error.what();
  }
}

// Stack use must not depend on how the caller was started: 1 MiB has to do (4 MiB with a sanitizer's fat
// frames).
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStack = std::size_t{4} << 20;
#else
constexpr std::size_t kStack = std::size_t{1} << 20;
#endif

TEST(JinjaBounds, NestingIsLimited) {
  test::run_on_stack_of(kStack, [] {
    const int n = 100'000;
    for (const auto& [open, close] : std::vector<std::pair<std::string, std::string>>{{"(", ")"},
                                                                                      {"[", "]"},
                                                                                      {"{1:", "}"},
                                                                                      {"not ", ""},
                                                                                      {"-", ""},
                                                                                      {"- ", ""},
                                                                                      {"a[", "]"},
                                                                                      {"f(", ")"},
                                                                                      {"1 if 1 else ", ""},
                                                                                      {"x|f(", ")"},
                                                                                      {"x is t(", ")"},
                                                                                      {"a[b:", "]"}}) {
      const std::string source = "{{ " + repeat(open, n) + "1" + repeat(close, n) + " }}";
      EXPECT_THAT(outcome(source), AnyOf(HasSubstr("deeper"), HasSubstr("line 1"))) << open;
    }
    for (const char* tag :
         {"if 1", "for x in [1]", "filter upper", "set x", "with", "macro m()", "call f()"}) {
      EXPECT_THAT(outcome(repeat("{% " + std::string(tag) + " %}", n)), HasSubstr("deeper")) << tag;
    }
    EXPECT_THAT(outcome("{% set " + repeat("(", n) + "a" + repeat(")", n) + " = 1 %}"), HasSubstr("deeper"));
  });
}

// Nesting that is allowed must also render on a small stack, in macros that call themselves as deep as they
// may.
TEST(JinjaBounds, RecursionIsLimited) {
  test::run_on_stack_of(kStack, [] {
    EXPECT_THAT(outcome("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("deeper"));
    EXPECT_THAT(outcome("{% macro f(x=f()) %}{% endmacro %}{{ f() }}"), HasSubstr("deeper"));
    EXPECT_THAT(
        outcome("{% macro f() %}{% call f() %}{{ caller }}{% endcall %}{{ caller }}{% endmacro %}{{ f() }}"),
        HasSubstr("deeper"));
    EXPECT_THAT(
        outcome("{% macro f() %}{% for x in [1] %}{% if 1 %}{% filter upper %}{{ [[[(f() ~ 1)]]]|map('upper')"
                "|list }}{% endfilter %}{% endif %}{% endfor %}{% endmacro %}{{ f() }}"),
        HasSubstr("deeper"));
    EXPECT_THAT(
        outcome("{% set l = [] %}{{ l.append(l) }}{% for x in l recursive %}{{ loop(x) }}{% endfor %}"),
        HasSubstr("deeper"));
    EXPECT_THAT(
        outcome("{% for x in [1] recursive %}{% filter upper %}{{ [[(loop([x]) ~ 1)]]|map('first')|list }}"
                "{% endfilter %}{% endfor %}"),
        HasSubstr("deeper"));
    EXPECT_THAT(outcome("{% set f = joiner %}{% macro g(h) %}{{ h(h) }}{% endmacro %}{{ g(g) }}"),
                HasSubstr("deeper"));
    const int n = 190;
    EXPECT_EQ(outcome("{{ " + repeat("(", n) + "1" + repeat(")", n) + " }}"), "ok 1");
    EXPECT_EQ(outcome("{{ " + repeat("[", 90) + "1" + repeat("]", 90) + " }}"), "ok 181");
    EXPECT_EQ(outcome(repeat("{% if 1 %}", n) + "x" + repeat("{% endif %}", n)), "ok 1");
    EXPECT_EQ(
        outcome("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{{ n % 10 }}{% endmacro %}{{ f(150) }}"),
        "ok 151");
  });
}

TEST(JinjaBounds, LongChainsAreNotNesting) {
  test::run_on_stack_of(kStack, [] {
    const int n = 20'000;
    EXPECT_EQ(outcome("{{ 1" + repeat(" + 1", n) + " }}"), "ok 5");
    EXPECT_EQ(outcome("{{ 'a'" + repeat(" ~ 'a'", n) + " }}"), "ok 20001");
    EXPECT_EQ(outcome("{{ 'a'" + repeat(" + 'a'", n) + " }}"), "ok 20001");
    EXPECT_EQ(outcome("{{ 'a'" + repeat("|upper", n) + " }}"), "ok 1");
    EXPECT_EQ(outcome("{{ 'a'" + repeat(".upper()", n) + " }}"), "ok 1");
    EXPECT_EQ(outcome("{{ 'a'" + repeat("[0]", n) + " }}"), "ok 1");
    EXPECT_EQ(outcome("{{ 1" + repeat(" and 1", n) + " }}"), "ok 1");
    EXPECT_EQ(outcome("{{ 1" + repeat(" == 1", n) + " }}"), "ok 4");
    EXPECT_EQ(outcome("{% if 0 %}" + repeat("{% elif 0 %}", n) + "{% else %}x{% endif %}"), "ok 1");
    EXPECT_EQ(outcome(repeat("{{ 1 }}{# c #}{% raw %}x{% endraw %}", n)), "ok 40000");
  });
}

// The worst of them takes a tenth of a second. A template without a bound would take hours, and the test its
// time limit.
TEST(JinjaBounds, HostileTemplatesEnd) {
  const std::vector<std::string> sources = {
      "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
      "{{ range(1000000000) }}",
      "{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807)|list }}",
      "{{ 'x' * 1000000000000 }}",
      "{{ [0] * 1000000000000 }}",
      "{{ 'x' * -9223372036854775807 }}",
      "{% set ns = namespace(s='xx') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ "
      "ns.s }}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ "
      "ns.s }}",
      "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s|replace('x', 'xxxx') %}{% "
      "endfor %}",
      "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l "
      "}}",
      "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ "
      "ns.l|tojson }}",
      "{% set ns = namespace(l=[], m=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% set ns.m = "
      "[ns.m] %}"
      "{% endfor %}{{ ns.l == ns.m }}",
      "{% set ns = namespace(l=()) %}{% for i in range(5000) %}{% set ns.l = (ns.l,) %}{% endfor %}{{ {ns.l: "
      "1} }}",
      "{% set l = [] %}{{ l.append(l) }}{{ l }}",
      "{% set l = [] %}{{ l.append(l) }}{{ l.append(l) }}{{ l|tojson }}",
      "{% set d = {} %}{{ d.update({'d': d}) }}{{ d == {'d': d} }}{{ d }}",
      "{% set l = [1] %}{% for x in range(100) %}{{ l.extend(l) }}{% endfor %}",
      "{% set l = [1] %}{% for x in l %}{{ l.append(x) }}{% endfor %}",
      "{% set s = 'a' * 8000000 %}{{ (s ~ 'b') in (s ~ s) }}",
      "{% set s = 'a' * 8000000 %}{% for i in range(100000) %}{{ s == (s ~ '') }}{% endfor %}",
      "{% set s = 'a' * 8000000 %}{% for i in range(100000) %}{% if s|length %}{% endif %}{% endfor %}",
      "{% set s = 'a' * 16000000 %}{{ s|list|length }}",
      "{% set s = 'a ' * 8000000 %}{{ s.split(' ')|length }}",
      "{% set s = 'a ' * 8000000 %}{{ s.split()|length }}",
      "{% set s = 'a ' * 100000 %}{{ s.rsplit(none, 99999)|length }}",
      "{% set s = 'a' * 8000000 %}{{ s.replace('', 'bb') }}",
      "{% set s = 'a' * 8000000 %}{{ s.count('') }}",
      "{% set s = 'a' * 16000000 %}{{ s|upper|length }}",
      "{% set s = '\\n' * 16000000 %}{{ s|indent(1000000) }}",
      "{{ ('-' * 8000000)|wordwrap(1)|length }}{{ ('-' * 8000000)|wordwrap(9999999)|length }}",
      "{{ ('a-' * 4000000)|wordwrap(3)|length }}{{ ('\u00a0' * 4000000)|wordwrap(3)|length }}",
      "{{ ('\n' * 8000000)|wordwrap(1, wrapstring='-' * 8000000) }}",
      "{{ 'x'|center(9999999999) }}",
      "{{ 'x'.ljust(99999999) }}",
      "{{ '%999999999d' % 1 }}",
      "{{ '%.999999999f' % 1 }}",
      "{{ '%*d' % (99999999, 1) }}",
      "{{ 2 ** 9223372036854775807 }}",
      "{{ 9223372036854775807 * 2 }}",
      "{{ (-9223372036854775807 - 1) // -1 }}",
      "{{ (-9223372036854775807 - 1) % -1 }}",
      "{{ -(-9223372036854775807 - 1) }}",
      "{{ (-9223372036854775807 - 1)|abs }}",
      "{{ 1e308 * 10 }}{{ (1e308 * 10)|int }}{{ (1e308 * 10)|round }}{{ (1e308 * 10 * 0)|int }}",
      "{{ 'abc'[-9223372036854775807:9223372036854775807:9223372036854775807] }}",
      "{{ 'abc'[9223372036854775807:-9223372036854775807:-9223372036854775807] }}",
      "{{ [1, 2, 3][::-9223372036854775807 - 1] }}",
      "{{ [1]|tojson(indent=999999999) }}",
      "{{ [[1]] * 1000 * 1000 }}",
      "{{ range(100000)|map('string')|join(',' * 100000) }}",
      "{% set x = range(100000) %}{% for i in x %}{{ x|sort|first }}{% endfor %}",
      "{% set x = range(100000)|list %}{% for i in x %}{{ x|join }}{% endfor %}",
      "{% for i in range(100000) %}{% set d = dict(a=i) %}{% set e = namespace(a=d) %}{% endfor %}",
      "{% set ns = namespace() %}{% for i in range(100000) %}{% macro m() %}{{ i }}{% endmacro %}{% set ns.m "
      "= m %}"
      "{% endfor %}{{ ns.m() }}",
      "{% macro f(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(s='y') %}{% for i in range(40) %}"
      "{% set ns.s = f(ns.s) %}{% endfor %}",
      "{{ messages|map('map', 'map', 'map')|list }}",
      "{{ range(1000)|batch(1)|map('batch', 1)|map('list')|list|length }}",
      "{{ [1]|batch(100000, 'x')|list|string|length }}",
      "{{ 'x'|truncate(-5) }}{{ 'x'|indent(-5) }}{{ 'x'|center(-5) }}",
      "{{ [1, 2]|slice(9223372036854775807)|list }}",
      "{{ 'ab'.strip('x' * 100000) }}",
      "{{ [nan, 1]|sort }}{{ [1e308 * 10 - 1e308 * 10, 1, 2, 0]|sort }}",
      "{% for x in range(1000) recursive %}{{ loop(range(1000)) }}{% endfor %}",
      "{% for x in [1, 2] recursive %}{{ loop([1, 2]) if loop.depth < 60 }}{% endfor %}",
      "{{ (10 ** 18)|filesizeformat }}{{ 1e308|filesizeformat }}{{ (1e308 * 10)|filesizeformat(true) }}",
      "{{ joiner()() }}{{ cycler() }}",
      "{{ loop }}{{ namespace }}{{ namespace() }}{{ messages.append }}{{ dict() }}",
      "{{ raise_exception('x' * 10000000)}}",
      repeat("{% set v = 1 %}", 60'000),
      repeat("{{ '", 100'000),
      repeat("{% raw %}", 100'000),
      repeat("{#", 100'000),
      repeat("{%- ", 100'000),
      repeat("{% endraw", 100'000),
      repeat(" \n", 500'000) + "{%- if 1 -%}" + repeat(" \n", 500'000) + "{%- endif %}",
  };
  for (const std::string& source : sources) {
    const std::string result = outcome(source);
    EXPECT_FALSE(result.empty());
    EXPECT_THAT(result, ::testing::Not(HasSubstr("bad_alloc"))) << source.substr(0, 100);
  }
}

TEST(JinjaBounds, BoundsSayWhatTheyAre) {
  EXPECT_THAT(outcome("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"),
              HasSubstr("1000000 steps"));
  EXPECT_THAT(outcome("{% set x = 'x' * 9000000 %}{{ x }}{{ x }}"), HasSubstr("16777216 bytes"));
  EXPECT_EQ(outcome("{% set x = 'x' * 8000000 %}{{ x }}{{ x }}"), "ok 16000000");
  EXPECT_THAT(outcome(std::string((std::size_t{4} << 20) + 1, 'x')), HasSubstr("longer than"));
}

// Long conversations are legitimate: 400 messages of 5 KB in a template that collects them one by one.
TEST(JinjaBounds, LongConversationsFit) {
  const std::vector<ChatMessage> messages(400, {"user", std::string(5000, 'x')});
  const ChatTemplate chat(
      "{% for m in messages %}{{ '<' + m.role + '>' + m.content|trim + '</s>' }}{% if "
      "m.content.startswith('y') or "
      "'</think>' in m.content %}!{% endif %}{% endfor %}");
  EXPECT_EQ(join(chat.render(messages, {})).size(), 400u * (5000 + 6 + 4));
}

// Mutated templates: bytes and tokens are replaced, doubled and dropped. Each must give a result or an Error.
TEST(JinjaBounds, MutatedTemplatesDoNoHarm) {
  std::vector<std::string> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(WEFT_TEST_DATA) + "/templates")) {
    if (entry.path().extension() != ".jinja") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::sort(seeds.begin(), seeds.end());
  ASSERT_GE(seeds.size(), 12u);
  const std::vector<std::string> words = {"{{",
                                          "}}",
                                          "{%",
                                          "%}",
                                          "-%}",
                                          "{#",
                                          "#}",
                                          "(",
                                          ")",
                                          "[",
                                          "]",
                                          "|",
                                          "~",
                                          ":",
                                          "'",
                                          "\\",
                                          "**",
                                          "//",
                                          "loop",
                                          "is",
                                          "not",
                                          "in",
                                          "if",
                                          "else",
                                          "messages",
                                          "range(99999)",
                                          "namespace(a=1)",
                                          ".items()",
                                          "|list",
                                          "|map('upper')",
                                          "|sort",
                                          "|tojson",
                                          "[::-1]",
                                          "* 99999",
                                          "|replace('', 'x')",
                                          "{% for m in messages %}",
                                          "{% endfor %}",
                                          "\xff",
                                          "0",
                                          "None"};
  const std::string messages =
      R"([{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "t"}]},
          {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}])";
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int n_rendered = 0, n_refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string source = seeds[below(seeds.size())];
    for (std::size_t n = 1 + below(4); n > 0; --n) {
      const std::size_t at = below(source.size() + 1),
                        length = below(std::min<std::size_t>(source.size() - at, 30) + 1);
      switch (below(4)) {
        case 0:
          source.replace(at, length, words[below(words.size())]);
          break;
        case 1:
          source.insert(at, words[below(words.size())]);
          break;
        case 2:
          source.erase(at, length);
          break;
        default:
          source.insert(below(source.size() + 1), source.substr(at, length));
      }
    }
    try {
      join(ChatTemplate(source).render_json(messages, {}));
      ++n_rendered;
    } catch (const Error&) {
      ++n_refused;
    }
  }
  EXPECT_GT(n_rendered, 20);
  EXPECT_GT(n_refused, 20);
}

}  // namespace
}  // namespace weft
