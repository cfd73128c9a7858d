#pragma once
// Fields that all generating endpoints share: OpenAI's names, and further fields of llama.cpp's server and
// vLLM.
#include <functional>
#include <optional>
#include <string>

#include "api/fields.h"
#include "models/served_model.h"
#include "weft/batcher.h"

namespace weft::server {

struct Job;

/// A slot is only a number for a cached sequence, so their number costs nothing.
inline constexpr int kMostSlots = 1024;

/// The server's limits and defaults for requests.
struct RequestDefaults {
  RequestParams params = {};
  int n_completions = 128;                        ///< `n` and `best_of`, at most.
  int n_logprobs = 20;                            ///< At most, as OpenAI has it.
  double timeout_ms = 0.0;                        ///< 0: none. Requests may ask for less.
  std::optional<Pooling> pooling = std::nullopt;  ///< For embeddings. Nullopt: from the model's file.
  int embedding_norm = 2;                         ///< As embd_normalize.
};

/// A requested grammar, and a key for everything that it depends on.
struct GrammarRequest {
  std::string key = {};
  std::function<Grammar()> make = nullptr;
  std::string field = {};                    ///< The name of the field, for messages.
  std::string code = "invalid_json_schema";  ///< The code of its errors.
};

/// A requested limit of reasoning tokens, for chats.
struct ReasoningRequest {
  std::optional<int> budget =
      std::nullopt;  ///< As ChatTurn::reasoning_budget. Nullopt: the server's default.
  std::optional<std::string> message = std::nullopt;
  std::string field = {};  ///< The name of the field that was given last; empty: none.
};

struct CommonFields {
  RequestParams params = {};
  bool stream = false;
  bool include_usage = false;     ///< stream_options
  bool continuous_usage = false;  ///< Each chunk has the counts so far.
  bool timings_per_token = false;
  bool return_tokens = false;
  bool shows_stops = false;  ///< Stop strings stay in the response.
  std::optional<GrammarRequest> grammar = std::nullopt;
  ReasoningRequest reasoning = {};
  std::vector<std::string> warnings = {};  ///< Keywords of schemas that are not enforced.
  int n_kept = -1;                         ///< Tokens kept at the prompt's end; < 0: all.
  int slot = -1;                           ///< The slot that gets the sequence, for sessions; -1: none.
};

/// Reads them, and the job's bans. Throws ApiError.
CommonFields read_common(Fields& fields, Job& job);
/// Notes fields of read_common() that the response of an endpoint does not show: tokens and timings.
void note_unshown(Fields& fields, const CommonFields& common);
/// Throws ApiError for a strict schema that cannot be enforced. For other schemas, each keyword that cannot
/// be enforced gives a warning. `field` names the schema.
GrammarRequest schema_request(const Json& schema, bool strict, const std::string& field,
                              std::vector<std::string>& warnings);
GrammarRequest object_request();  ///< Any JSON object.
/// Sets the request's grammar. Throws ApiError if it has one already.
void set_grammar(CommonFields& common, GrammarRequest wish);
/// Throws ApiError that names the field for a grammar that is wrong.
Grammar make_grammar(const GrammarRequest& wish);
/// Stop strings. If the field is absent, `common` keeps its own.
void read_stops(Fields& fields, std::string_view name, CommonFields& common);
/// The number of completions: `n`, or llama.cpp's `n_cmpl`.
int read_n(Fields& fields, int most);
/// The names of the maximum number of generated tokens for completions and chats.
inline const std::initializer_list<std::string_view> kMaxTokens = {"n_predict", "max_tokens",
                                                                   "max_completion_tokens"};
/// The most tokens to generate. The last of the fields that is present counts.
void read_max_tokens(Fields& fields, std::initializer_list<std::string_view> names, RequestParams& params);
/// Reads min_tokens. `maxima` are the names that read_max_tokens has read. Throws ApiError if the minimum is
/// larger.
void read_min_tokens(Fields& fields, std::initializer_list<std::string_view> maxima, RequestParams& params);

/// CommonFields::n_kept.
int read_n_kept(Fields& fields);
/// Drops the beginning of a prompt that is longer than CommonFields::n_kept. BOS at the front stays. Returns
/// whether anything was dropped.
bool keep_end(std::vector<Token>& prompt, int n_kept, const Tokenizer& tokenizer);

/// Throws ApiError if the logprobs of a response that is not streamed would take too much memory.
void check_logprobs(const RequestParams& params, std::size_t n_prompts, bool stream,
                    const ServedModel& model);

/// `params` with the grammar compiled; keeps the model's cache of them. Throws ApiError that names the field.
/// If the grammar fails within a completion, the job's grammar_fault has that error.
void hold_to(RequestParams& params, Job& job, const GrammarRequest& wish);

}  // namespace weft::server
