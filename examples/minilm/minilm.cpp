// Sentences in, vectors and similarities out: sentence-transformers/all-MiniLM-L6-v2 from its own files, as a
// custom graph. Sentences of all lengths are concatenated and computed together without padding, and a vector
// does not depend on the other sentences.
//
//   minilm FOLDER [SENTENCE ...]          the model's folder (model.safetensors, vocab.txt); similarities
//   minilm FOLDER --vectors < SENTENCES   a line each in, a vector a line out
//   minilm FOLDER --bench < SENTENCES     sentences a second; --batch of them together
// With --device vulkan0 the GPU computes all of it.
#include <weft/error.h>
#include <weft/graph.h>
#include <weft/plan.h>
#include <weft/tokenizer.h>
#include <weft/weights.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

namespace {

constexpr int kLayers = 6, kHeads = 12, kWidth = 384, kFeedForward = 1536, kVocabulary = 30522;
constexpr int kMaxTokens = 256;  // Of a sentence: what the model was trained for.
constexpr float kEps = 1e-12f;

weft::Graph make_graph(int max_tokens, int max_sentences) {
  using weft::Value;
  weft::Graph g;
  const weft::Dim n = g.symbol("n_tokens", 1, max_tokens), s = g.symbol("n_sentences", 1, max_sentences);
  const Value ids = g.input("ids", {n}, weft::DType::kI32),
              positions = g.input("positions", {n}, weft::DType::kI32);
  // For each token the range of its sentence's rows, and for each sentence the range of its own rows.
  const Value begins = g.input("begins", {n}, weft::DType::kI32),
              ends = g.input("ends", {n}, weft::DType::kI32);
  const Value firsts = g.input("firsts", {s}, weft::DType::kI32),
              lasts = g.input("lasts", {s}, weft::DType::kI32);

  const auto linear = [&](Value x, const std::string& name, int outputs, int inputs) {
    return weft::linear(x, g.weight(name + ".weight", {outputs, inputs}),
                        g.weight(name + ".bias", {outputs}));
  };
  const auto norm = [&](Value x, const std::string& name) {
    return weft::layer_norm(x, g.weight(name + ".weight", {kWidth}), g.weight(name + ".bias", {kWidth}),
                            kEps);
  };

  const Value zeros = g.input("types", {n}, weft::DType::kI32);  // All of the first type.
  Value x = weft::take(g.weight("embeddings.word_embeddings.weight", {kVocabulary, kWidth}), ids) +
            weft::take(g.weight("embeddings.position_embeddings.weight", {512, kWidth}), positions) +
            weft::take(g.weight("embeddings.token_type_embeddings.weight", {2, kWidth}), zeros);
  x = norm(x, "embeddings.LayerNorm");
  for (int i = 0; i < kLayers; ++i) {
    const std::string layer = "encoder.layer." + std::to_string(i);
    const std::string self = layer + ".attention.self.";
    const Value attended = weft::ragged_attention(
        linear(x, self + "query", kWidth, kWidth), linear(x, self + "key", kWidth, kWidth),
        linear(x, self + "value", kWidth, kWidth), begins, ends, kHeads);
    x = norm(x + linear(attended, layer + ".attention.output.dense", kWidth, kWidth),
             layer + ".attention.output.LayerNorm");
    const Value hidden = weft::gelu(linear(x, layer + ".intermediate.dense", kFeedForward, kWidth));
    x = norm(x + linear(hidden, layer + ".output.dense", kWidth, kFeedForward), layer + ".output.LayerNorm");
  }
  g.output("vectors", weft::normalize(weft::ragged_mean(x, firsts, lasts)));
  return g;
}

class Encoder {
 public:
  /// On `device`, where one is named.
  Encoder(const std::filesystem::path& folder, int max_sentences, int n_threads, const std::string& device)
      : tokenizer_(weft::read_word_pieces(folder / "vocab.txt")),
        max_sentences_(max_sentences),
        plan_(make_graph(max_sentences * kMaxTokens, max_sentences),
              device.empty() ? weft::open_devices() : weft::open_devices({device}),
              {.pins = device.empty() ? std::vector<weft::Pin>() : std::vector<weft::Pin>{{"", device}},
               .n_threads = n_threads}) {
    plan_.set_weights(weft::WeightFile(folder / "model.safetensors"));
  }

  /// A vector for each of at most max_sentences sentences, concatenated.
  std::vector<float> encode(const std::string* sentences, int n_sentences) {
    std::vector<std::int32_t> ids, positions, begins, ends, firsts, lasts;
    for (int s = 0; s < n_sentences; ++s) {
      std::vector<weft::Token> tokens = tokenizer_.encode(sentences[s]);
      if (tokens.size() > kMaxTokens) {
        tokens.erase(tokens.begin() + kMaxTokens - 1, tokens.end() - 1);  // The end mark stays.
      }
      const auto begin = static_cast<std::int32_t>(ids.size());
      firsts.push_back(begin);
      ids.insert(ids.end(), tokens.begin(), tokens.end());
      const auto end = static_cast<std::int32_t>(ids.size());
      lasts.push_back(end);
      for (std::int32_t i = begin; i < end; ++i) positions.push_back(i - begin);
      begins.resize(ids.size(), begin);
      ends.resize(ids.size(), end);
    }
    const std::vector<std::int32_t> types(ids.size());
    const auto n = static_cast<std::int64_t>(ids.size());
    plan_.run({{"n_tokens", n}, {"n_sentences", n_sentences}}, {{"ids", ids},
                                                                {"positions", positions},
                                                                {"types", types},
                                                                {"begins", begins},
                                                                {"ends", ends},
                                                                {"firsts", firsts},
                                                                {"lasts", lasts}});
    return plan_.read("vectors");
  }

  int max_sentences() const { return max_sentences_; }

 private:
  weft::Tokenizer tokenizer_;
  int max_sentences_;
  weft::Plan plan_;
};

std::vector<std::string> read_lines() {
  std::vector<std::string> lines;
  for (std::string line; std::getline(std::cin, line);) lines.push_back(line);
  return lines;
}

std::vector<float> encode_all(Encoder& encoder, const std::vector<std::string>& sentences) {
  std::vector<float> vectors;
  for (std::size_t i = 0; i < sentences.size(); i += static_cast<std::size_t>(encoder.max_sentences())) {
    const std::size_t n = std::min(sentences.size() - i, static_cast<std::size_t>(encoder.max_sentences()));
    const std::vector<float> some = encoder.encode(sentences.data() + i, static_cast<int>(n));
    vectors.insert(vectors.end(), some.begin(), some.end());
  }
  return vectors;
}

void print_similarities(Encoder& encoder, const std::vector<std::string>& sentences) {
  const std::vector<float> vectors = encode_all(encoder, sentences);
  for (std::size_t a = 0; a < sentences.size(); ++a) {
    for (std::size_t b = 0; b < sentences.size(); ++b) {
      const float* const x = vectors.data() + a * kWidth;
      const float* const y = vectors.data() + b * kWidth;
      std::printf("%6.3f ", static_cast<double>(std::inner_product(x, x + kWidth, y, 0.0f)));
    }
    std::printf(" %s\n", sentences[a].c_str());
  }
}

void print_speed(Encoder& encoder, const std::vector<std::string>& sentences) {
  double best = 0.0;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    encode_all(encoder, sentences);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(sentences.size()) / taken.count());
  }
  std::printf("%.1f sentences/s, %d together\n", best, encoder.max_sentences());
}

}  // namespace

int main(int argc, char** argv) try {
  std::string folder, mode, device;
  std::vector<std::string> sentences;
  int batch = 64, n_threads = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--vectors" || word == "--bench") {
      mode = word;
    } else if (i + 1 < argc && (word == "-t" || word == "--batch")) {
      (word == "-t" ? n_threads : batch) = std::atoi(argv[++i]);
    } else if (i + 1 < argc && word == "--device") {
      device = argv[++i];
    } else if (folder.empty()) {
      folder = word;
    } else {
      sentences.push_back(word);
    }
  }
  const bool help = folder == "-h" || folder == "--help";
  if (help || folder.empty() || batch < 1 || batch > 1024) {
    std::fputs(
        "usage: minilm FOLDER [SENTENCE ... | --vectors | --bench] [--batch 1 to 1024] [-t THREADS] "
        "[--device NAME]\n",
        help ? stdout : stderr);
    return help ? 0 : 2;
  }
  Encoder encoder(folder, batch, n_threads, device);
  if (mode == "--bench") {
    print_speed(encoder, read_lines());
  } else if (mode == "--vectors") {
    const std::vector<float> vectors = encode_all(encoder, read_lines());
    for (std::size_t i = 0; i < vectors.size(); ++i)
      std::printf("%.8g%c", static_cast<double>(vectors[i]), (i + 1) % kWidth == 0 ? '\n' : ' ');
  } else {
    if (sentences.empty())
      sentences = {"A cat sits on the mat.", "A kitten rests on a rug.", "The engine needs oil."};
    print_similarities(encoder, sentences);
  }
  return 0;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "minilm: %s\n", error.what());
  return 1;
}
