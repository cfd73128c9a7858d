#include "bench/load_prompts.h"

#include <array>
#include <cmath>
#include <string_view>

#include "base/to_size.h"

namespace weft::cli {
namespace {

/// Words that are a token each in most vocabularies.
constexpr std::array<std::string_view, 160> kWords = {
    "about",   "after",   "again",   "air",      "all",     "also",     "always", "animal", "answer",
    "around",  "back",    "because", "before",   "below",   "between",  "big",    "black",  "blue",
    "body",    "book",    "both",    "box",      "boy",     "bring",    "build",  "call",   "came",
    "can",     "car",     "care",    "carry",    "change",  "children", "city",   "clear",  "close",
    "cold",    "color",   "come",    "could",    "country", "course",   "cut",    "dark",   "day",
    "door",    "down",    "draw",    "dry",      "early",   "earth",    "east",   "eat",    "end",
    "even",    "every",   "eye",     "face",     "fall",    "family",   "far",    "farm",   "fast",
    "father",  "feet",    "few",     "field",    "find",    "fire",     "first",  "fish",   "food",
    "form",    "friend",  "front",   "full",     "game",    "garden",   "girl",   "give",   "glass",
    "gold",    "good",    "great",   "green",    "ground",  "group",    "grow",   "half",   "hand",
    "hard",    "head",    "hear",    "heat",     "help",    "high",     "home",   "horse",  "hot",
    "hour",    "house",   "hundred", "idea",     "inside",  "island",   "keep",   "kind",   "king",
    "know",    "land",    "large",   "last",     "later",   "laugh",    "learn",  "leave",  "left",
    "letter",  "life",    "light",   "line",     "list",    "little",   "live",   "long",   "look",
    "low",     "machine", "made",    "make",     "map",     "mark",     "money",  "moon",   "more",
    "morning", "most",    "mother",  "mountain", "move",    "music",    "name",   "near",   "new",
    "night",   "north",   "note",    "number",   "ocean",   "often",    "old",    "open",   "order",
    "page",    "paper",   "people",  "place",    "plan",    "plant",    "river"};

/// The shared prefix has a sequence of its own, the same in each series.
constexpr std::uint64_t kSharedSeries = 0x5eed;

std::uint64_t mixed(std::uint64_t seed, std::uint64_t series) {
  return seed * 0x9e3779b97f4a7c15ULL + series;
}

}  // namespace

double LoadRandom::uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

std::size_t LoadRandom::below(std::size_t bound) {
  return static_cast<std::size_t>(uniform() * static_cast<double>(bound));
}

int LoadRandom::draw(const Lengths& lengths) {
  if (!lengths.choices.empty()) return lengths.choices[below(lengths.choices.size())];
  return lengths.least + static_cast<int>(below(to_size(lengths.most - lengths.least) + 1));
}

double LoadRandom::interval(double rate) { return -std::log1p(-uniform()) / rate; }

LoadPrompts::LoadPrompts(const LoadPlan& plan, int series)
    : plan_(plan), random_(mixed(plan.seed, static_cast<std::uint64_t>(series))) {
  LoadRandom shared(mixed(plan.seed, kSharedSeries));
  shared_ = words(shared, plan.n_shared);
}

std::string LoadPrompts::words(LoadRandom& random, int n_words) const {
  std::string text;
  for (int i = 0; i < n_words; ++i) {
    if (i > 0) text += ' ';
    text += kWords[random.below(kWords.size())];
  }
  return text;
}

double LoadPrompts::next_at() const {
  return n_made_ < plan_.recorded.size() ? plan_.recorded[n_made_].at : 0.0;
}

std::string LoadPrompts::next(const std::string& model) {
  RecordedRequest request;
  if (!plan_.recorded.empty()) {
    request = plan_.recorded[n_made_ % plan_.recorded.size()];
  } else {
    const bool is_long = random_.uniform() < plan_.long_share;
    request.n_prompt = is_long ? plan_.n_long : random_.draw(plan_.prompt);
    request.n_predict = random_.draw(plan_.predict);
  }
  ++n_made_;
  if (request.n_prompt > 0) request.prompt = words(random_, request.n_prompt);

  Json body;
  body["model"] = model;
  if (plan_.chat) {
    if (request.messages.is_null()) {
      request.messages = Json::array();
      if (!shared_.empty()) request.messages.push_back({{"role", "system"}, {"content", shared_}});
      request.messages.push_back({{"role", "user"}, {"content", request.prompt}});
    }
    body["messages"] = std::move(request.messages);
  } else {
    // The completions endpoint gets the messages' contents, one after another.
    for (const Json& message : request.messages)
      if (message.is_object() && message.contains("content") && message["content"].is_string())
        request.prompt += message["content"].get<std::string>() + "\n";
    body["prompt"] = shared_.empty() ? request.prompt : shared_ + " " + request.prompt;
  }
  body["max_tokens"] = request.n_predict;
  body["temperature"] = 0;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (plan_.ignore_eos) body["ignore_eos"] = true;
  if (!plan_.schema.is_null()) {
    body["response_format"] = {
        {"type", "json_schema"},
        {"json_schema", {{"name", "load"}, {"strict", true}, {"schema", plan_.schema}}}};
  }
  if (!plan_.tools.is_null()) {
    body["tools"] = plan_.tools;
    body["tool_choice"] = "required";
    body["parallel_tool_calls"] = false;
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace weft::cli
