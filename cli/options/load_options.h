#pragma once
// weft bench --serve: its options, validated.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/json_output.h"

namespace weft::cli {

/// As given on the command line: lists are not parsed yet.
struct LoadOptions {
  std::string url;
  std::string endpoint = "chat";
  std::string concurrency, rate;
  int n_requests = 0;
  float duration_s = 0.0f;
  std::string prompt_tokens, predict;
  int shared_prefix = 0;
  float long_share = 0.0f;
  int long_tokens = 2048;
  std::string replay, schema, tools, model, api_key;
  bool ignore_eos = true;
  int n_warm_up = 1;
  std::string seed;
  float timeout_s = 600.0f;
  float slo_ttft_ms = 0.0f, slo_itl_ms = 0.0f;
};

/// A number of tokens that is drawn for each request.
struct Lengths {
  std::vector<int> choices;  ///< One of these, or ...
  int least = 0, most = 0;   ///< ... without them, any from least to most.
};

/// How requests arrive.
struct Arrivals {
  int concurrency = 0;  ///< Number of clients that each send the next request after a response.
  double rate = 0.0;    ///< Mean requests a second, at random times. Both 0: as recorded.
};

/// A line of a recorded trace.
struct RecordedRequest {
  double at = 0.0;  ///< Seconds.
  Json messages;    ///< Null where there is a prompt.
  std::string prompt;
  int n_prompt = 0;  ///< Above 0: a random prompt of that length instead.
  int n_predict = 0;
};

struct LoadPlan {
  std::string url;
  bool chat = true;
  std::string model;  ///< Empty: the first that the server lists.
  std::string api_key;
  std::vector<Arrivals> arrivals;
  std::int64_t n_requests = 0;         ///< 0: until the duration is over.
  std::chrono::milliseconds duration;  ///< 0: without an end.
  Lengths prompt, predict;
  int n_shared = 0;
  double long_share = 0.0;
  int n_long = 0;
  std::vector<RecordedRequest> recorded;
  Json schema;  ///< Null: free text.
  Json tools;   ///< Null: none; else each response must call one of them.
  bool ignore_eos = true;
  int n_warm_up = 0;
  std::uint64_t seed = 0;
  std::chrono::milliseconds timeout;
  double slo_ttft_ms = 0.0, slo_itl_ms = 0.0;  ///< 0: none.
};

/// Throws UsageError for invalid options, Error for files that cannot be read.
LoadPlan parse_load(const LoadOptions& options);

}  // namespace weft::cli
