// Banned strings (RequestParams::banned_strings), compared with a loop that computes every token from
// scratch.
#include "engine/batching/banned_strings.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "engine/batcher_testing.h"

namespace weft {
namespace {

using test::Ask;
using test::Collector;
using test::golden;
using test::Result;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string bytes_of(const Model& model, std::span<const Token> tokens) {
  std::string text;
  for (const Token token : tokens) text += model.tokenizer().piece(token);
  return text;
}

/// The most probable token after `text` that is not banned there.
Token best_after(const std::shared_ptr<const Model>& model, const std::vector<Token>& text,
                 const std::set<Token>& bans) {
  Ask ask{text, {.n_predict = 1, .ignore_end = true}};
  ask.params.sampler.temperature = 0.0f;
  for (const Token token : bans) ask.params.sampler.logit_bias.emplace_back(token, -INFINITY);
  return test::alone(model, ask).tokens.front();
}

/// The number of the last bytes that may begin a banned string.
std::size_t n_open(const std::string& text, const std::vector<std::string>& strings) {
  std::size_t most = 0;
  for (const std::string& one : strings)
    for (std::size_t n = std::min(text.size(), one.size() - 1); n > most; --n)
      if (text.ends_with(std::string_view(one).substr(0, n))) most = n;
  return most;
}

/// Draws greedily, and goes back by hand. Tokens are final once no banned string can begin in them.
std::vector<Token> reference(const std::shared_ptr<const Model>& model, const Ask& ask) {
  std::vector<std::string> strings;
  for (const std::string& banned : ask.params.banned_strings) strings.push_back(lower(banned));
  std::vector<Token> tokens;
  std::vector<std::set<Token>> bans(1);
  std::size_t n_final = 0;
  const auto token_at = [&](std::size_t byte) {
    std::size_t place = 0;
    for (std::size_t n = 0; place < tokens.size(); ++place) {
      n += model->tokenizer().piece(tokens[place]).size();
      if (n > byte) break;
    }
    return place;
  };
  while (static_cast<int>(tokens.size()) < ask.params.n_predict) {
    std::vector<Token> text = ask.prompt;
    text.insert(text.end(), tokens.begin(), tokens.end());
    tokens.push_back(best_after(model, text, bans[tokens.size()]));
    bans.resize(tokens.size() + 1);
    bans.back().clear();
    const std::string all = lower(bytes_of(*model, tokens));
    std::size_t first = std::string::npos;  // Where the banned string that ends first begins.
    std::size_t end = std::string::npos;
    for (const std::string& banned : strings) {
      const std::size_t at = all.find(banned);
      if (at == std::string::npos) continue;
      const std::size_t its_end = at + banned.size();
      if (its_end < end || (its_end == end && at < first)) first = at, end = its_end;
    }
    if (first == std::string::npos) {
      n_final = std::max(n_final, token_at(all.size() - n_open(all, strings)));
      continue;
    }
    const std::size_t place = std::max(token_at(first), n_final);
    bans[place].insert(tokens[place]);
    tokens.resize(place);
    bans.resize(place + 1);
  }
  return tokens;
}

Ask greedy_ask(std::vector<Token> prompt, int n_predict) {
  Ask ask{std::move(prompt), {.n_predict = n_predict, .ignore_end = true}};
  ask.params.sampler.temperature = 0.0f;
  return ask;
}

Result run(const std::shared_ptr<const Model>& model, const Ask& ask, const BatcherParams& params = {}) {
  Context context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1});
  Batcher batcher(context, params);
  Collector collector;
  const RequestId id = collector.submit(batcher, ask);
  while (batcher.step()) EXPECT_TRUE(batcher.consistent());
  return collector(id);
}

/// Strings of the free output: whole tokens, and parts of them.
std::vector<std::string> bans_of(const Model& model, const std::vector<Token>& tokens) {
  std::vector<std::string> bans;
  for (const std::size_t at : {std::size_t{2}, std::size_t{6}}) {
    std::string text = bytes_of(model, std::span(tokens).subspan(at, 3));
    if (text.size() > 3) text = text.substr(1, text.size() - 2);
    if (!text.empty()) bans.push_back(text);
  }
  return bans;
}

TEST(BannedStringsOfBatcher, GoBackToTheirFirstToken) {
  for (const char* name : {"llama", "gemma3"}) {
    const auto model = golden(name);
    for (int i = 0; i < 4; ++i) {
      Ask ask = greedy_ask({3, 6, static_cast<Token>(7 + i)}, 12);
      const std::vector<Token> free = run(model, ask).tokens;
      ask.params.banned_strings = bans_of(*model, free);
      const std::vector<Token> expected = reference(model, ask);
      EXPECT_NE(expected, free);
      for (const auto speculation : {Speculation::kNone, Speculation::kNgram}) {
        const Result result =
            run(model, ask, {.speculation = speculation, .n_draft = 5, .adapt_drafts = false});
        EXPECT_EQ(result.tokens, expected) << name << " " << i;
        EXPECT_GT(result.stats.n_discarded, 0);
        EXPECT_EQ(result.stats.n_generated, static_cast<int>(expected.size()));
      }
    }
  }
}

TEST(BannedStringsOfBatcher, DependOnTheSeedAlone) {
  const auto model = golden("llama");
  std::vector<Ask> asks;
  std::vector<Result> alone;
  std::mt19937_64 random(3);
  for (int i = 0; i < 6; ++i) {
    Ask ask = test::random_ask(*model, random, 40, 30);
    ask.params.ignore_end = true;
    ask.params.sampler.repetition_penalty = 1.2f;
    ask.params.sampler.dry_multiplier = 0.5f;
    const std::vector<Token> free = run(model, ask).tokens;
    if (free.size() > 9) ask.params.banned_strings = bans_of(*model, free);
    asks.push_back(ask);
    alone.push_back(run(model, ask));
    for (const std::string& banned : ask.params.banned_strings)
      EXPECT_EQ(lower(alone.back().text).find(lower(banned)), std::string::npos);
  }
  // Together, in a cache that is too small for all of them.
  Context context(model, {.n_ctx = 160, .n_sequences = 4, .n_threads = 1});
  Batcher batcher(context, {.speculation = Speculation::kNgram, .n_draft = 4, .adapt_drafts = false});
  Collector collector;
  std::vector<RequestId> ids;
  for (const Ask& ask : asks) ids.push_back(collector.submit(batcher, ask));
  while (batcher.step()) ASSERT_TRUE(batcher.consistent());
  for (std::size_t i = 0; i < asks.size(); ++i) EXPECT_EQ(collector(ids[i]).tokens, alone[i].tokens) << i;
}

TEST(BannedStringsOfBatcher, AStringThatIsNeverCompleteChangesNothing) {
  const auto model = golden("llama");
  Ask ask = greedy_ask({3, 6, 9}, 10);
  const Result free = run(model, ask);
  // The output ends within the beginning of a banned string, and is delivered.
  ask.params.banned_strings = {bytes_of(*model, std::span(free.tokens).last(2)) + "\x01never", "\x02never"};
  const Result result = run(model, ask);
  EXPECT_EQ(result, free);
  EXPECT_EQ(result.stats.n_discarded, 0);
}

TEST(BannedStringsOfBatcher, StopStringsEndBeforeHeldTokens) {
  const auto model = golden("llama");
  Ask ask = greedy_ask({3, 6, 9}, 12);
  const std::vector<Token> free = run(model, ask).tokens;
  const auto is_plain = [&](Token token) {
    const std::string bytes = model->tokenizer().piece(token);
    return !bytes.empty() && std::ranges::all_of(bytes, [](char c) { return c > ' ' && c < 127; });
  };
  const auto stop = std::find_if(free.begin() + 2, free.end() - 3, is_plain);
  ASSERT_NE(stop, free.end() - 3);
  ask.params.stop = {model->tokenizer().piece(*stop)};
  const Result stopped = run(model, ask);
  ASSERT_EQ(stopped.stop, StopReason::kStopString);
  // A string that begins with the stop string holds its tokens back, and the next ones.
  const auto n = stopped.tokens.size();
  ask.params.banned_strings = {bytes_of(*model, std::span(free).subspan(n - 1, 3)) + "\x01never"};
  const Result result = run(model, ask);
  EXPECT_EQ(result, stopped);
  EXPECT_EQ(result.stats.n_generated, stopped.stats.n_generated);
}

TEST(BannedStringsOfBatcher, GoTogetherWithAConstraint) {
  const auto model = golden("llama");
  Ask ask = greedy_ask({3, 6, 9}, 10);
  const std::vector<Token> free = run(model, ask).tokens;
  ask.params.constraint = test::Script::writes(free);
  EXPECT_EQ(run(model, ask).tokens, free);
  // The constraint leaves no other token: the completion ends.
  ask.params.banned_strings = {bytes_of(*model, std::span(free).subspan(4, 2))};
  const Result result = run(model, ask);
  EXPECT_EQ(result.stop, StopReason::kLength);
  EXPECT_EQ(result.tokens, std::vector<Token>(free.begin(), free.begin() + 4));
}

TEST(BannedStringsOfBatcher, ABoundedNumberOfTokensIsDiscarded) {
  const auto model = golden("llama");
  Ask ask = greedy_ask({3, 6, 9}, 4);
  for (int byte = 1; byte < 256; ++byte)
    if (byte < 'A' || byte > 'Z') ask.params.banned_strings.emplace_back(1, static_cast<char>(byte));
  const Result result = run(model, ask);
  EXPECT_EQ(result.stop, StopReason::kLength);
  EXPECT_LE(result.stats.n_discarded, 257);
  EXPECT_EQ(result.text, std::string(result.text.size(), '\0')) << "no other byte is left";
}

TEST(BannedStringsOfBatcher, AreRefusedWhereTheCacheCannotGoBack) {
  Context context(golden("mamba"), {.n_ctx = 128, .n_threads = 1});
  Batcher batcher(context);
  RequestParams params{.n_predict = 4};
  params.banned_strings = {"a"};
  try {
    batcher.submit({1, 2, 3}, params);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("banned_strings need a cache"), std::string::npos)
        << error.what();
  }
  Context plain(golden("llama"), {.n_ctx = 128, .n_threads = 1});
  Batcher other(plain);
  params.banned_strings = {""};
  EXPECT_THROW(other.submit({1, 2, 3}, params), Error);
  params.banned_strings = {std::string(BatcherLimits::kMaxBannedBytes + 1, 'a')};
  EXPECT_THROW(other.submit({1, 2, 3}, params), Error);
}

/// Writes pieces as tokens of their indices. Returns what remains, and the tokens that are banned next.
std::pair<std::string, std::vector<Token>> push_all(engine::BannedStrings& banned,
                                                    const std::vector<std::string>& pieces) {
  std::vector<std::string> kept;
  std::string certain;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    kept.push_back(pieces[i]);
    kept.resize(kept.size() - static_cast<std::size_t>(banned.push({static_cast<Token>(i)}, pieces[i])));
  }
  for (const std::string& piece : kept) certain += piece;
  return {certain, {banned.banned_next().begin(), banned.banned_next().end()}};
}

TEST(BannedStrings, MatchAcrossTokensInBothCases) {
  const std::vector<std::string> strings = {"shiver down", "elve"};
  engine::BannedStrings banned(strings);
  EXPECT_EQ(push_all(banned, {"A ", "Shi", "vers", " d"}).first, "A Shivers d");
  engine::BannedStrings second(strings);
  const auto [kept, next] = push_all(second, {"a s", "HIV", "er", " dOwn"});
  EXPECT_EQ(kept, "");
  EXPECT_EQ(next, std::vector<Token>({0}));
  engine::BannedStrings third(strings);
  EXPECT_EQ(push_all(third, {"we", " d", "elve", "!"}).second, std::vector<Token>({}));
}

TEST(BannedStrings, HoldsTokensFromTheFirstPossibleOne) {
  const std::vector<std::string> strings = {"abcd"};
  engine::BannedStrings banned(strings);
  EXPECT_EQ(banned.push({1}, "xa"), 0);
  EXPECT_EQ(banned.n_certain(), 0u);
  EXPECT_EQ(banned.push({2}, "bc"), 0);
  EXPECT_EQ(banned.n_certain(), 0u);
  EXPECT_EQ(banned.push({3}, "a"), 0);
  EXPECT_EQ(banned.n_certain(), 2u);
  EXPECT_EQ(banned.take().id, 1);
  EXPECT_EQ(banned.take().id, 2);
  EXPECT_EQ(banned.push({4}, "bcd"), 2);
  EXPECT_EQ(std::vector<Token>(banned.banned_next().begin(), banned.banned_next().end()),
            std::vector<Token>({3}));
}

TEST(BannedStrings, KeepsTheBansOfEarlierPlaces) {
  const std::vector<std::string> strings = {"ab", "cb"};
  engine::BannedStrings banned(strings);
  EXPECT_EQ(banned.push({1}, "a"), 0);
  EXPECT_EQ(banned.push({2}, "b"), 2);
  EXPECT_EQ(banned.push({3}, "c"), 0);  // In the place of token 1.
  EXPECT_TRUE(banned.banned_next().empty());
  EXPECT_EQ(banned.push({2}, "b"), 2);
  EXPECT_EQ(std::vector<Token>(banned.banned_next().begin(), banned.banned_next().end()),
            std::vector<Token>({1, 3}));
}

}  // namespace
}  // namespace weft
