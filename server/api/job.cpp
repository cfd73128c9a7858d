#include "api/job.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "api/sessions.h"
#include "base/to_size.h"

namespace weft::server {
void check_writes(const ServedModel& model) {
  if (!model.service)
    throw bad_request("model",
                      fmt::format("the model '{}' is an encoder and cannot generate; use /v1/embeddings{}",
                                  model.spec.name, model.model->info().ranks ? " or /v1/rerank" : ""));
}

void check_length(const ServedModel& model, std::size_t n_tokens, std::string_view param, bool generates) {
  const bool is_source = model.model->info().reads_source;
  const auto n_ctx = to_size(is_source ? model.context.n_source : model.n_ctx);
  const std::size_t most = is_source || !generates ? n_ctx : n_ctx - 1;
  if (n_tokens == 0) throw bad_request(std::string(param), "the prompt is empty");
  if (n_tokens <= most) return;
  const std::string message =
      is_source ? fmt::format(
                      "the prompt has {} tokens, but the limit of the model's "
                      "encoder is {} (--source-size of the server)",
                      n_tokens, n_ctx)
                // Agents search for the first words, and shorten the conversation.
                : fmt::format(
                      "this model's maximum context length is {} tokens, but the "
                      "prompt has {}{}",
                      n_ctx, n_tokens, generates ? " and the response needs at least one" : "");
  throw prompt_too_long(std::string(param), message, n_tokens, most, n_ctx);
}

Fields Job::fields() {
  Fields fields(body, "", &ignored);
  fields.find("model");  // Was read already, to find the model.
  return fields;
}

HttpHeaders Job::headers() const {
  constexpr std::size_t kMostBytes = 4096;
  HttpHeaders headers = {{"X-Request-Id", id}};
  std::string all;
  for (const std::string& warning : warnings) all += (all.empty() ? "" : "; ") + warning;
  if (all.size() > kMostBytes) all.replace(kMostBytes, std::string::npos, " ...");
  // Property names may have any character; headers hold printable ASCII.
  for (char& c : all)
    if (c < 0x20 || c > 0x7E) c = '?';
  if (!all.empty()) headers.emplace_back("X-Weft-Warnings", std::move(all));
  if (std::string names = ignored.header(); !names.empty())
    headers.emplace_back("X-Weft-Ignored", std::move(names));
  return headers;
}

void Job::check_wanted() const {
  if (exchange->closed()) throw ApiError(499, "invalid_request_error", "", "", "the client disconnected");
}

void submit(Job& job, std::vector<std::vector<Token>> prompts, RequestParams params,
            std::unique_ptr<ResponseWriter> writer, int slot, std::vector<std::vector<EmbeddedPart>> media) {
  check_writes(*job.model);
  params.n_ctx = job.model->n_ctx;
  if (!job.grammar_fault) job.grammar_fault = std::make_shared<GrammarFault>();
  job.bans.on_none_left = [fault = job.grammar_fault] {
    fault->set(bad_request("logit_bias",
                           "no token is left to generate: 'logit_bias', 'allowed_token_ids' and 'bad_words' "
                           "ban all tokens that may follow; ban fewer tokens"));
  };
  ban_tokens(params, std::move(job.bans), job.model->tokenizer());
  if (!params.adapters && !job.model->model->adapters().empty())
    params.adapters = job.model->adapters_for(job.model_name);
  GenerationParts parts{.request = job,
                        .prompts = std::move(prompts),
                        .params = std::move(params),
                        .media = std::move(media),
                        .writer = std::move(writer),
                        .headers = job.headers()};
  if (slot >= 0 && job.sessions->enabled() && parts.prompts.size() == 1 && parts.params.n == 1) {
    std::vector<int> snapshots = parts.params.snapshot_at;
    snapshots.push_back(static_cast<int>(parts.prompts.front().size()));
    if (!job.model->keeps_snapshots) snapshots.clear();
    parts.keep_text = [sessions = job.sessions, owner = job.owner, name = job.model->spec.name, slot,
                       adapters = parts.params.adapters.value_or(std::vector<AdapterUse>()),
                       snapshots = std::move(snapshots)](std::vector<Token> text) mutable {
      sessions->remember(owner, name, slot, {std::move(text), std::move(adapters), std::move(snapshots)});
    };
  }
  job.check_wanted();
  start_generation(std::move(parts));
}

std::string make_id(std::string_view prefix) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;  // Ids of stored responses must not be guessed.
  std::uniform_int_distribution<std::size_t> letter(0, kLetters.size() - 1);
  std::string id(prefix);
  for (int i = 0; i < 24; ++i) id += kLetters[letter(random)];
  return id;
}

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace weft::server
