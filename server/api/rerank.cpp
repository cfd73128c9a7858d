#include "api/rerank.h"

#include <utility>

#include "api/encoder_texts.h"
#include "api/fields.h"

namespace weft::server {
namespace {

/// "text", or {"text": "..."}.
std::vector<std::string> read_documents(Fields& fields, std::size_t at_most) {
  const Json* const array = fields.array("documents");
  if (array == nullptr || array->empty())
    throw bad_request("documents", std::string("'documents' is ") + (array == nullptr ? "missing" : "empty") +
                                       ": an array of texts is expected");
  if (array->size() > at_most)
    throw bad_request("documents", "at most " + std::to_string(at_most) + " documents can be ranked at once");
  std::vector<std::string> documents;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const Json& one = (*array)[i];
    const Json* const text = one.is_object() && one.contains("text") ? &one["text"] : &one;
    if (!text->is_string())
      throw bad_request(element("documents", i), "a document must be a text, or an object with a \"text\"");
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
                                   ": a text to rank documents by is expected");
  const std::vector<std::string> documents = read_documents(fields, job.params->n_inputs);
  const auto n_best =
      static_cast<std::size_t>(fields.integer("top_n", static_cast<int>(documents.size()), 1));
  const bool with_documents = fields.boolean("return_documents", false);
  fields.ignore({"user"});
  fields.done();
  if (job.model->embedding == nullptr || job.model->embedding->n_scores() != 1)
    throw bad_request("model", "the model '" + job.model->spec.name +
                                   "' is no reranker: it has no classifier that scores texts");
  EncoderTexts texts;
  texts.scores = true;
  const PairTokens pair(job.model->tokenizer(), query, job.model->embedding->max_tokens());
  for (const std::string& document : documents) texts.texts.push_back(pair.with(document));
  const std::size_t n_tokens = check_texts(*job.model, texts.texts, "documents");
  texts.answer = [documents, n_best, with_documents, n_tokens,
                  model = job.model_name](std::vector<float> scores) {
    std::vector<Ranked> ranked = rank(scores);
    ranked.resize(std::min(ranked.size(), n_best));
    Json results = Json::array();
    for (const Ranked& one : ranked) {
      Json result = {{"index", one.index}, {"relevance_score", one.score}};
      if (with_documents) result["document"] = {{"text", documents[static_cast<std::size_t>(one.index)]}};
      results.push_back(std::move(result));
    }
    return Json{{"object", "list"},
                {"model", model},
                {"results", std::move(results)},
                {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}};
  };
  submit(job, std::move(texts));
}

}  // namespace weft::server
