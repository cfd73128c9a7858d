// POST /api/embed and /api/embeddings.
#include <algorithm>
#include <utility>

#include "api/embeddings.h"
#include "api/ollama/keep_alive.h"
#include "api/ollama/ollama.h"
#include "base/to_size.h"

namespace weft::server {
namespace {

/// Keeps the beginning of an input that is too long, with its end token.
void keep_start(std::vector<Token>& tokens, std::size_t most) {
  if (tokens.size() <= most) return;
  const Token last = tokens.back();
  tokens.resize(most);
  tokens.back() = last;
}

/// The fields of both endpoints, apart from the input.
EmbeddingOrder read_ollama_embedding(Fields& fields, Job& job, std::string field) {
  EmbeddingOrder order = usual_embedding(job);
  order.field = std::move(field);
  order.shape = ErrorShape::kOllama;
  if (const KeepAlive keep = read_keep_alive(fields); keep.is_given)
    job.models->keep(job.model_name, keep.time);
  fields.without_effect("options");  // Of the sampler and of loading.
  if (fields.has(order.field))
    order.prompts = read_prompts(fields, order.field, job.model->tokenizer(), job.params->n_inputs, {});
  if (fields.boolean("truncate", true))
    for (Prompt& prompt : order.prompts) keep_start(prompt.tokens, to_size(max_input_tokens(*job.model)));
  return order;
}

/// A request without inputs only loads the model.
bool is_no_input(const Json& body, const std::string& field) {
  const auto found = body.find(field);
  return found == body.end() || found->is_null() || *found == "" || *found == Json::array();
}

}  // namespace

void ollama_embed(Job& job) {
  Fields fields = job.fields();
  if (is_no_input(job.body, "input")) job.body.erase("input");
  EmbeddingOrder order = read_ollama_embedding(fields, job, "input");
  const int n_embd =
      job.model->embedding != nullptr ? job.model->embedding->dimensions() : job.model->model->info().n_embd;
  // More dimensions than the model has are all of them.
  order.form.n_dimensions = to_size(std::min(fields.integer("dimensions", 0, 0), n_embd));
  fields.done();
  Json head = {{"model", job.model_name}};
  if (order.prompts.empty()) {
    head["embeddings"] = Json::array();
    return job.send_at_once(head);
  }
  order.answer = [head, start = job.start, load = std::chrono::steady_clock::now() - job.start](
                     const auto& vectors, std::size_t n_tokens) {
    Json json = head;
    json["embeddings"] = vectors;
    json["total_duration"] = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
    json["load_duration"] = std::chrono::nanoseconds(load).count();
    json["prompt_eval_count"] = n_tokens;
    return json;
  };
  embed(job, std::move(order));
}

void ollama_embeddings(Job& job) {
  Fields fields = job.fields();
  if (is_no_input(job.body, "prompt")) job.body.erase("prompt");
  EmbeddingOrder order = read_ollama_embedding(fields, job, "prompt");
  fields.done();
  if (order.prompts.empty()) return job.send_at_once({{"embedding", Json::array()}});
  if (order.prompts.size() != 1)
    throw bad_request("prompt", "'prompt' must be one string; /api/embed takes several as 'input'");
  order.form.norm = -1;  // This endpoint does not normalise, unlike /api/embed.
  order.answer = [](const auto& vectors, std::size_t) { return Json{{"embedding", vectors.front()}}; };
  embed(job, std::move(order));
}

}  // namespace weft::server
