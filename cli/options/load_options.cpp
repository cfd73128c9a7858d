#include "options/load_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>
#include <sstream>

#include "files/json_input.h"
#include "options/arguments.h"
#include "options/options.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr int kMaxClients = 8192;
constexpr int kMaxTokens = 1 << 20;
constexpr std::int64_t kDefaultRequests = 64;

std::vector<std::string> split(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, mark);) parts.push_back(part);
  return parts;
}

int parse_count(const std::string& option, const std::string& text, int most) {
  std::int64_t value = 0;
  try {
    value = parse_size(text);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
  if (value < 1 || value > most)
    throw UsageError(fmt::format("{}: {} is not from 1 to {}", option, text, most));
  return static_cast<int>(value);
}

/// "128", "64,512" for one of them, "64-512" for any between.
Lengths parse_lengths(const std::string& option, const std::string& text) {
  Lengths lengths;
  if (const std::size_t dash = text.find('-'); dash != text.npos) {
    lengths.least = parse_count(option, text.substr(0, dash), kMaxTokens);
    lengths.most = parse_count(option, text.substr(dash + 1), kMaxTokens);
    if (lengths.least > lengths.most) throw UsageError(fmt::format("{}: {} is an empty range", option, text));
    return lengths;
  }
  for (const std::string& part : split(text, ','))
    lengths.choices.push_back(parse_count(option, part, kMaxTokens));
  return lengths;
}

double parse_rate(const std::string& text) {
  double rate = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  if (error != std::errc() || end != text.data() + text.size() || !(rate > 0.0) || rate > 1e6)
    throw UsageError(fmt::format("--rate: '{}' is not a number of requests per second, e.g. 2.5", text));
  return rate;
}

RecordedRequest parse_recorded(const std::string& where, const std::string& line, int n_predict) {
  const Json json = parse_json(line, where);
  const auto wrong = [&](const char* why) {
    return Error(ErrorCode::kInvalidFile,
                 fmt::format("{}: {}; expected e.g. {{\"at\": 0.5, \"prompt\": \"...\", \"max_tokens\": "
                             "64}}, or \"messages\" or \"prompt_tokens\" instead of the prompt",
                             where, why));
  };
  if (!json.is_object()) throw wrong("the line is not a JSON object");
  RecordedRequest request;
  const Json at = json.value("at", Json(0.0)), tokens = json.value("max_tokens", Json(n_predict));
  if (!at.is_number() || !(at.get<double>() >= 0.0) || at.get<double>() > 1e6)
    throw wrong("'at' is not a time in seconds");
  if (!tokens.is_number_integer() || tokens.get<std::int64_t>() < 1 ||
      tokens.get<std::int64_t>() > kMaxTokens)
    throw wrong("'max_tokens' is not a number of tokens");
  request.at = at.get<double>();
  request.n_predict = tokens.get<int>();
  if (json.contains("messages") && json["messages"].is_array()) {
    request.messages = json["messages"];
  } else if (json.contains("prompt") && json["prompt"].is_string()) {
    request.prompt = json["prompt"].get<std::string>();
  } else if (json.contains("prompt_tokens") && json["prompt_tokens"].is_number_integer() &&
             json["prompt_tokens"].get<std::int64_t>() >= 1 &&
             json["prompt_tokens"].get<std::int64_t>() <= kMaxTokens) {
    request.n_prompt = json["prompt_tokens"].get<int>();
  } else {
    throw wrong("the request has no prompt");
  }
  return request;
}

std::vector<RecordedRequest> read_recorded(const std::string& path, int n_predict) {
  std::vector<RecordedRequest> recorded;
  int number = 0;
  for (const std::string& line : split(read_text(path), '\n')) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    recorded.push_back(parse_recorded(fmt::format("{}, line {}", path, number), line, n_predict));
  }
  if (recorded.empty()) throw Error(ErrorCode::kInvalidFile, path + " holds no requests");
  std::stable_sort(recorded.begin(), recorded.end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
  return recorded;
}

std::uint64_t parse_seed(const std::string& text) {
  // The default is random: prompts must differ from the last run's, which the server may have cached.
  if (text.empty()) return std::random_device{}();
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    throw UsageError(fmt::format("--seed: '{}' is not a whole number", text));
  return seed;
}

std::vector<Arrivals> parse_arrivals(const LoadOptions& options) {
  std::vector<Arrivals> arrivals;
  if (!options.concurrency.empty() && !options.rate.empty())
    throw UsageError("--concurrency and --rate are two ways to load a server: give one of them");
  for (const std::string& part : split(options.concurrency, ','))
    arrivals.push_back({.concurrency = parse_count("--concurrency", part, kMaxClients)});
  for (const std::string& part : split(options.rate, ',')) arrivals.push_back({.rate = parse_rate(part)});
  if (arrivals.empty()) arrivals.push_back({.concurrency = options.replay.empty() ? 8 : 0});
  return arrivals;
}

std::chrono::milliseconds milliseconds(float seconds) {
  return std::chrono::milliseconds(std::llround(static_cast<double>(seconds) * 1e3));
}

}  // namespace

LoadPlan parse_load(const LoadOptions& options) {
  LoadPlan plan;
  plan.url = options.url;
  if (options.endpoint != "chat" && options.endpoint != "completions")
    throw UsageError(fmt::format("--endpoint: '{}' is neither chat nor completions", options.endpoint));
  plan.chat = options.endpoint == "chat";
  plan.model = options.model;
  plan.api_key = options.api_key;
  plan.arrivals = parse_arrivals(options);
  plan.duration = milliseconds(options.duration_s);
  plan.n_requests = options.n_requests;
  plan.prompt =
      parse_lengths("--prompt-tokens", options.prompt_tokens.empty() ? "128" : options.prompt_tokens);
  plan.predict = parse_lengths("--predict", options.predict.empty() ? "64" : options.predict);
  plan.n_shared = options.shared_prefix;
  plan.long_share = static_cast<double>(options.long_share);
  plan.n_long = options.long_tokens;
  if (!options.replay.empty()) {
    plan.recorded =
        read_recorded(options.replay, plan.predict.choices.empty() ? 64 : plan.predict.choices.front());
    const auto n_recorded = static_cast<std::int64_t>(plan.recorded.size());
    plan.n_requests = plan.n_requests == 0 ? n_recorded : std::min(plan.n_requests, n_recorded);
  }
  if (plan.n_requests == 0 && plan.duration.count() == 0) plan.n_requests = kDefaultRequests;
  if (!options.schema.empty()) plan.schema = parse_json(read_text(options.schema), options.schema);
  if (!options.tools.empty()) {
    if (!plan.chat) throw UsageError("--tools needs the endpoint chat");
    if (!options.schema.empty()) throw UsageError("--tools and --schema: give one of them");
    plan.tools = parse_json(read_text(options.tools), options.tools);
    if (!plan.tools.is_array() || plan.tools.empty())
      throw UsageError(fmt::format("{}: a list of tools is expected", options.tools));
  }
  // Schemas and tool calls end a completion themselves.
  plan.ignore_eos = options.ignore_eos && plan.schema.is_null() && plan.tools.is_null();
  plan.n_warm_up = options.n_warm_up;
  plan.seed = parse_seed(options.seed);
  plan.timeout = milliseconds(options.timeout_s);
  plan.slo_ttft_ms = static_cast<double>(options.slo_ttft_ms);
  plan.slo_itl_ms = static_cast<double>(options.slo_itl_ms);
  return plan;
}

}  // namespace weft::cli
