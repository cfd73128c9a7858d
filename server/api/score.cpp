#include "api/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "api/encoder_texts.h"
#include "api/prompts.h"
#include "base/to_size.h"

namespace weft::server {
namespace {

using Strings = std::vector<std::string>;

/// A string or a list of them.
Strings read_side(Fields& fields, std::string_view name, std::size_t at_most) {
  Strings strings = fields.strings(name, at_most);
  if (strings.empty())
    throw bad_request(fields.path_of(name),
                      fmt::format("'{0}' is {1}; '{0}' must be a string or a list of strings",
                                  fields.path_of(name), fields.has(name) ? "empty" : "missing"));
  return strings;
}

/// The pairs of a request, in order. The first side has one string for all pairs, or one for each.
struct Pairs {
  Strings first, second;

  const std::string& first_of(std::size_t i) const { return first[first.size() == 1 ? 0 : i]; }
};

Pairs read_pairs(Fields& fields, std::size_t at_most) {
  const std::pair<const char*, const char*> names[] = {
      {"text_1", "text_2"}, {"queries", "documents"}, {"queries", "items"}, {"data_1", "data_2"}};
  const auto* const given = std::find_if(std::begin(names), std::end(names), [&](const auto& pair) {
    return fields.has(pair.first) && fields.has(pair.second);
  });
  if (given == std::end(names))
    throw bad_request("text_1", "'text_1' and 'text_2' are needed: strings, or lists of strings");
  Pairs pairs{read_side(fields, given->first, at_most), read_side(fields, given->second, at_most)};
  if (pairs.first.size() != 1 && pairs.first.size() != pairs.second.size())
    throw bad_request(given->first,
                      fmt::format("'{}' has {} strings and '{}' {}: it must have one, or as many",
                                  given->first, pairs.first.size(), given->second, pairs.second.size()));
  return pairs;
}

float sigmoid_of(float score) { return 1.0f / (1.0f + std::exp(-score)); }

Json usage_of(std::size_t n_tokens) {
  return {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}, {"completion_tokens", 0}};
}

Json listed(const char* id_prefix, const std::string& model, Json data, std::size_t n_tokens) {
  return {{"id", make_id(id_prefix)}, {"object", "list"},        {"created", seconds_now()},
          {"model", model},           {"data", std::move(data)}, {"usage", usage_of(n_tokens)}};
}

/// `score_of` returns the score of a pair.
template <typename ScoreOf>
Json scores_json(std::size_t n, const std::string& model, std::size_t n_tokens, const ScoreOf& score_of) {
  Json data = Json::array();
  for (std::size_t i = 0; i < n; ++i)
    data.push_back({{"index", i}, {"object", "score"}, {"score", score_of(i)}});
  return listed("score-", model, std::move(data), n_tokens);
}

/// vLLM's switch for sigmoid or softmax, under its newer and older name.
bool read_activation(Fields& fields) {
  return fields.boolean("use_activation", fields.boolean("activation", true));
}

void score_by_classifier(Job& job, const Pairs& pairs, bool activation) {
  const EmbeddingService& service = *job.model->embedding;
  EncoderTexts texts;
  texts.scores = true;
  std::optional<PairTokens> query;
  for (std::size_t i = 0; i < pairs.second.size(); ++i) {
    if (i == 0 || pairs.first.size() > 1)
      query.emplace(job.model->tokenizer(), pairs.first_of(i), service.max_tokens());
    texts.texts.push_back(query->with(pairs.second[i]));
  }
  const std::size_t n_tokens = check_texts(*job.model, texts.texts, "text_2");
  texts.answer = [=, model = job.model_name](const std::vector<float>& scores) {
    return scores_json(scores.size(), model, n_tokens,
                       [&](std::size_t i) { return activation ? sigmoid_of(scores[i]) : scores[i]; });
  };
  submit(job, std::move(texts));
}

void score_by_embeddings(Job& job, const Pairs& pairs, int n_kept) {
  const EmbeddingService& service = *job.model->embedding;
  EncoderTexts texts;
  texts.pooling = job.params->defaults.pooling.value_or(job.model->model->info().pooling);
  for (const Strings* side : {&pairs.first, &pairs.second})
    for (const std::string& text : *side) {
      texts.texts.push_back({tokens_of_text(job.model->tokenizer(), text), -1});
      keep_end(texts.texts.back().tokens, n_kept, job.model->tokenizer());
    }
  const std::size_t n_tokens = check_texts(*job.model, texts.texts, "text_1");
  texts.answer = [n_tokens, n_first = pairs.first.size(), n_pairs = pairs.second.size(),
                  n_columns = to_size(service.dimensions()),
                  model = job.model_name](std::vector<float> values) {
    const auto row = [&](std::size_t i) { return std::span(values).subspan(i * n_columns, n_columns); };
    for (std::size_t i = 0; i < n_first + n_pairs; ++i) normalise(row(i));
    return scores_json(n_pairs, model, n_tokens, [&](std::size_t i) {
      const auto first = row(n_first == 1 ? 0 : i);
      const auto second = row(n_first + i);
      double sum = 0.0;
      for (std::size_t j = 0; j < n_columns; ++j)
        sum += static_cast<double>(first[j]) * static_cast<double>(second[j]);
      return std::clamp(sum, -1.0, 1.0);  // Rounding may exceed the range of a cosine.
    });
  };
  submit(job, std::move(texts));
}

/// In place: probabilities. One class has a sigmoid, as in vLLM.
void activate(std::span<float> scores) {
  if (scores.size() == 1) {
    scores[0] = sigmoid_of(scores[0]);
    return;
  }
  const float most = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (float& value : scores) {
    value = std::exp(value - most);
    sum += static_cast<double>(value);
  }
  for (float& value : scores) value = static_cast<float>(static_cast<double>(value) / sum);
}

}  // namespace

void score(Job& job) {
  Fields fields = job.fields();
  const Pairs pairs = read_pairs(fields, job.params->n_inputs);
  const bool activation = read_activation(fields);
  const int n_kept = read_n_kept(fields);
  fields.ignore({"user"});
  fields.done();
  if (job.model->embedding == nullptr)
    throw bad_request("model",
                      fmt::format("the model '{}' is not an encoder, which /v1/score needs; compare vectors "
                                  "of /v1/embeddings",
                                  job.model->spec.name));
  const int n_scores = job.model->embedding->n_scores();
  if (n_scores > 1)
    throw bad_request("model",
                      fmt::format("the model '{}' has {} classes, and no score of pairs; use /classify",
                                  job.model->spec.name, n_scores));
  if (n_scores != 1) return score_by_embeddings(job, pairs, n_kept);
  if (n_kept > 0) fields.note("truncate_prompt_tokens");  // Pairs that are too long are always cut.
  score_by_classifier(job, pairs, activation);
}

void classify(Job& job) {
  Fields fields = job.fields();
  std::vector<Prompt> prompts = read_prompts(fields, "input", job.model->tokenizer(), job.params->n_inputs,
                                             {.add_special = fields.boolean("add_special_tokens", true)});
  const int n_kept = read_n_kept(fields);
  for (Prompt& prompt : prompts) keep_end(prompt.tokens, n_kept, job.model->tokenizer());
  const bool activation = read_activation(fields);
  fields.ignore({"user"});
  fields.done();
  if (job.model->embedding == nullptr || job.model->embedding->n_scores() == 0)
    throw bad_request("model", fmt::format("the model '{}' is not a classifier; use /v1/embeddings or a chat",
                                           job.model->spec.name));
  EncoderTexts texts;
  texts.scores = true;
  for (Prompt& prompt : prompts) texts.texts.push_back({std::move(prompt.tokens), -1});
  const std::size_t n_tokens = check_texts(*job.model, texts.texts, "input");
  texts.answer = [=, n_classes = to_size(job.model->embedding->n_scores()),
                  model = job.model_name](std::vector<float> values) {
    Json data = Json::array();
    for (std::size_t i = 0; i * n_classes < values.size(); ++i) {
      const auto scores = std::span(values).subspan(i * n_classes, n_classes);
      const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
      if (activation) activate(scores);
      data.push_back({{"index", i},
                      {"label", fmt::format("LABEL_{}", best)},
                      {"probs", std::vector<float>(scores.begin(), scores.end())},
                      {"num_classes", n_classes}});
    }
    return listed("classify-", model, std::move(data), n_tokens);
  };
  submit(job, std::move(texts));
}

}  // namespace weft::server
