#include "api/encoder_texts.h"

#include <fmt/format.h>

#include <utility>

#include "base/to_size.h"

namespace weft::server {

std::size_t check_texts(const ServedModel& model, const std::vector<TokenPair>& texts,
                        std::string_view param) {
  std::size_t n_tokens = 0;
  const auto most = to_size(model.embedding->max_tokens());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t n = texts[i].tokens.size();
    if (n == 0) throw bad_request(std::string(param), fmt::format("input {} (counting from 0) is empty", i));
    if (n > most) {
      throw prompt_too_long(
          std::string(param),
          fmt::format(
              "input {} (counting from 0) has {} tokens, but the limit of the model is {}; shorten it, or "
              "set truncate_prompt_tokens",
              i, n, most),
          n, most, most);
    }
    n_tokens += n;
  }
  return n_tokens;
}

void submit(Job& job, EncoderTexts texts) {
  job.check_wanted();
  EmbeddingRequest request;
  request.texts = std::move(texts.texts);
  request.scores = texts.scores;
  request.pooling = texts.pooling;
  request.is_background = job.is_background();
  request.is_abandoned = [exchange = job.exchange] { return exchange->closed(); };
  // The request's reference to the model is dropped on the HTTP thread: the service's own thread cannot join
  // itself.
  request.done = [http = job.http, exchange = job.exchange, model = job.model, done = job.done,
                  headers = job.headers(), shape = texts.shape, answer = std::move(texts.answer)](
                     std::vector<float> values, std::exception_ptr error) mutable {
    Outcome outcome;
    HttpResponse made;
    try {
      if (error != nullptr) std::rethrow_exception(error);
      made.body = to_text(answer(std::move(values)));
      model->note_failure({});
    } catch (...) {
      const ApiError failed = model->gone().value_or(to_api_error(std::current_exception()));
      if (failed.code == "not_numbers") model->note_failure(failed.what());
      made = error_response(failed, shape);
      outcome = {.status = failed.status, .error = failed.what()};
    }
    if (exchange->closed()) outcome.status = 499;
    made.headers.insert(made.headers.end(), headers.begin(), headers.end());
    http->post([exchange = std::move(exchange), model = std::move(model), done = std::move(done),
                made = std::move(made), outcome = std::move(outcome)]() mutable {
      exchange->send(std::move(made));
      if (done) done(outcome);
    });
  };
  job.model->embedding->submit(std::move(request));
}

}  // namespace weft::server
