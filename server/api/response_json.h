#pragma once
// JSON that the responses of several endpoints share.
#include <string_view>
#include <vector>

#include "json.h"
#include "weft/batcher.h"
#include "weft/tokenizer.h"

namespace weft::server {

/// Counts of all completions of a request.
struct Usage {
  int n_prompt = 0;  ///< Once for each prompt.
  int n_cached = 0;
  int n_generated = 0;
  int n_reasoning = 0;  ///< Of these.
  int n_accepted = 0;   ///< Of drafts.
  int n_drafted = 0;

  void add(const CompletionStats& stats, bool first_of_prompt);
};
Json usage_json(const Usage& usage);
/// The counts during generation.
Json usage_so_far(int n_prompt, int n_generated);

/// llama.cpp's "timings".
Json timings_json(const CompletionStats& stats);

/// The settings of a completion, as llama.cpp names them.
Json settings_json(const RequestParams& params);

/// One token with its logprob, as the chat API has it.
Json logprob_json(const OutputToken& token, const Tokenizer& tokenizer);

/// The same with ids, as llama.cpp's own API has it.
Json native_logprob_json(const OutputToken& token, const Tokenizer& tokenizer);

/// The arguments of a tool's call as an object. Arguments that were cut are in its member "_partial".
Json arguments_json(const std::string& arguments);

/// "stop", "length", ...; `called`: the model called tools.
std::string_view finish_reason(StopReason stop, bool called = false);

}  // namespace weft::server
