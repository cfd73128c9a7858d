// Texts to vectors, and to scores.
#include "weft/embedder.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>

#include <mutex>

#include "binding.h"
#include "model.h"
#include "options.h"

namespace weft::python {

namespace {

Pooling pooling_of(const std::string& name) {
  if (name == "mean") return Pooling::kMean;
  if (name == "cls") return Pooling::kCls;
  if (name == "last") return Pooling::kLast;
  refuse("pooling is '" + name + "'; it must be one of mean, cls, last");
}

/// Any thread; each waits for its turn.
class PyEmbedder {
 public:
  PyEmbedder(const ModelPtr& model, const EmbedderParams& params)
      : model_(model), embedder_(model->model(), params) {}

  nb::ndarray<nb::numpy, float> embed(const std::vector<std::string>& texts, bool normalise_them,
                                      const std::optional<std::string>& pooling,
                                      std::optional<int> dimensions) {
    const int width = embedder_.dimensions();
    const int kept = dimensions.value_or(width);
    if (kept < 1 || kept > width)
      refuse("dimensions is " + std::to_string(kept) + "; a vector of this model has " +
             std::to_string(width));
    std::vector<float> vectors;
    {
      const Unlocked unlocked;
      vectors = compute(texts, pooling ? std::optional(pooling_of(*pooling)) : std::nullopt);
      vectors = cut(vectors, texts.size(), static_cast<std::size_t>(kept));
      if (normalise_them)
        for (std::size_t i = 0; i < texts.size(); ++i)
          normalise(
              std::span(vectors).subspan(i * static_cast<std::size_t>(kept), static_cast<std::size_t>(kept)));
    }
    return to_numpy(std::move(vectors), {texts.size(), static_cast<std::size_t>(kept)});
  }
  std::vector<std::pair<int, float>> rank_texts(const std::string& query,
                                                const std::vector<std::string>& documents) {
    const auto turn = wait();
    std::vector<std::pair<int, float>> result;
    for (const Ranked& one : rank(embedder_, query, documents).ranked)
      result.emplace_back(one.index, one.score);
    return result;
  }
  int dimensions() const { return embedder_.dimensions(); }
  int max_tokens() const { return embedder_.max_tokens(); }

 private:
  /// The calling thread must not have the interpreter's lock: the thread that has the turn may need it.
  std::unique_lock<std::mutex> wait() {
    home_.check("the embedder");
    return std::unique_lock(mutex_);
  }
  std::vector<float> compute(const std::vector<std::string>& texts, std::optional<Pooling> pooling) {
    const auto turn = wait();
    std::vector<std::vector<Token>> tokens;
    for (const std::string& text : texts)
      tokens.push_back(
          cut_tokens(model_->tokenizer(), tokens_of_text(model_->tokenizer(), text), embedder_.max_tokens()));
    std::vector<TextTokens> spans;
    for (const std::vector<Token>& one : tokens) spans.push_back({.tokens = one});
    return pooling ? embedder_.embed(spans, *pooling) : embedder_.embed(spans);
  }
  std::vector<float> cut(const std::vector<float>& vectors, std::size_t n, std::size_t kept) const {
    const auto width = static_cast<std::size_t>(embedder_.dimensions());
    if (kept == width) return vectors;
    std::vector<float> result;
    for (std::size_t i = 0; i < n; ++i) {
      const auto first = vectors.begin() + static_cast<std::ptrdiff_t>(i * width);
      result.insert(result.end(), first, first + static_cast<std::ptrdiff_t>(kept));
    }
    return result;
  }

  ModelPtr model_;
  Embedder embedder_;
  Home home_;
  std::mutex mutex_;
};

}  // namespace

void bind_embedder(nb::module_& m) {
  nb::class_<PyEmbedder>(m, "Embedder")
      .def_static(
          "make",
          [](const ModelPtr& model, const Dict& options) {
            EmbedderParams params;
            set_fields(params, embedder_fields(), options);
            const Unlocked unlocked;
            return std::make_unique<PyEmbedder>(model, params);
          },
          nb::arg("model"), nb::arg("options"))
      .def("embed", &PyEmbedder::embed, nb::arg("texts"), nb::arg("normalize"), nb::arg("pooling").none(),
           nb::arg("dimensions").none())
      .def("rank", &PyEmbedder::rank_texts, nb::arg("query"), nb::arg("documents"), WithoutLock())
      .def_prop_ro("dimensions", &PyEmbedder::dimensions)
      .def_prop_ro("max_tokens", &PyEmbedder::max_tokens);

  m.def("embedder_options", [] { return names_of(embedder_fields()); });
}

}  // namespace weft::python
