#include "api/rerank.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "api/encoder_texts.h"
#include "api/fields.h"
#include "base/to_size.h"

namespace weft::server {
namespace {

enum class Form : std::uint8_t { kDocuments, kTexts };

/// `"text"`, or `{"text": "..."}`.
std::vector<std::string> read_documents(Fields& fields, const char* name, std::size_t at_most) {
  const Json* const array = fields.array(name);
  if (array == nullptr || array->empty())
    throw bad_request(name, fmt::format("'{}' is {}, expected an array of documents", name,
                                        array == nullptr ? "missing" : "empty"));
  if (array->size() > at_most)
    throw bad_request(name, fmt::format("at most {} documents can be ranked at once", at_most));
  std::vector<std::string> documents;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const Json& one = (*array)[i];
    const Json* const text = one.is_object() && one.contains("text") ? &one["text"] : &one;
    if (!text->is_string())
      throw bad_request(element(name, i), "a document must be a string, or an object with a string \"text\"");
    documents.push_back(text->get<std::string>());
  }
  return documents;
}

}  // namespace

void rerank(Job& job) {
  Fields fields = job.fields();
  const std::string query = fields.string("query");
  if (query.empty())
    throw bad_request("query", std::string("'query' is ") + (fields.has("query") ? "empty" : "missing") +
                                   "; it must be a string");
  // Hugging Face's TEI server names the documents `texts`.
  const Form form = fields.has("texts") ? Form::kTexts : Form::kDocuments;
  const char* const name = form == Form::kTexts ? "texts" : "documents";
  const std::vector<std::string> documents = read_documents(fields, name, job.params->n_inputs);
  const auto n_best = to_size(fields.integer("top_n", static_cast<int>(documents.size()), 1));
  bool with_documents = fields.boolean("return_documents", false);
  bool raw = true;
  if (form == Form::kTexts) {
    with_documents = fields.boolean("return_text", with_documents);
    raw = fields.boolean("raw_scores", false);
    // Documents that are too long are always cut.
    fields.ignore({"truncate", "truncation_direction"});
  }
  fields.without_effect("truncate_prompt_tokens");  // Documents that are too long are always cut.
  fields.ignore({"user"});
  fields.done();
  if (job.model->embedding == nullptr || job.model->embedding->n_scores() != 1)
    throw bad_request("model", "the model '" + job.model->spec.name +
                                   "' is not a reranker: it has no classifier; use /v1/embeddings");
  EncoderTexts texts;
  texts.scores = true;
  const PairTokens pair(job.model->tokenizer(), query, job.model->embedding->max_tokens());
  for (const std::string& document : documents) texts.texts.push_back(pair.with(document));
  const std::size_t n_tokens = check_texts(*job.model, texts.texts, name);
  texts.answer = [=, model = job.model_name](const std::vector<float>& scores) {
    std::vector<Ranked> ranked = rank(scores);
    ranked.resize(std::min(ranked.size(), n_best));
    // The classifier's output: `ranked` has probabilities.
    const auto score_of = [&](const Ranked& one) { return scores[to_size(one.index)]; };
    const auto text_of = [&](const Ranked& one) { return documents[to_size(one.index)]; };
    Json results = Json::array();
    for (const Ranked& one : ranked) {
      if (form == Form::kTexts) {
        results.push_back({{"index", one.index}, {"score", raw ? score_of(one) : one.score}});
        if (with_documents) results.back()["text"] = text_of(one);
      } else {
        results.push_back({{"index", one.index}, {"relevance_score", score_of(one)}});
        if (with_documents) results.back()["document"] = {{"text", text_of(one)}};
      }
    }
    if (form == Form::kTexts) return results;
    return Json{{"object", "list"},
                {"model", model},
                {"results", std::move(results)},
                {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}};
  };
  submit(job, std::move(texts));
}

}  // namespace weft::server
