#pragma once
// A tiny Whisper model with random weights, written as whisper.cpp's container and as GGUF.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "speech/vocabulary.h"
#include "tensor/codec.h"
#include "weft/audio.h"
#include "weft/gguf.h"

namespace weft::test {

inline std::filesystem::path speech_dir() { return std::filesystem::path(WEFT_TEST_DATA) / "speech"; }

/// A file that is removed at the end.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("weft-speech-" + std::to_string(::getpid()) + "-" + name)) {}
  ~ScratchFile() { std::filesystem::remove(path_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void write(std::span<const char> bytes) const {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::filesystem::path path_;
};

struct TinyTensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< Outermost first.
  std::vector<float> values;
};

/// A model for English with windows of a second.
struct TinyModel {
  static constexpr std::int64_t kWidth = 32, kHeard = 50, kMels = 80, kPositions = 64, kHeads = 2,
                                kLayers = 2;
  static constexpr int kLanguages = 99;
  std::vector<std::string> tokens;  ///< Bytes of the text tokens.
  std::vector<TinyTensor> tensors;

  TinyModel() {
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    for (const char* more : {" t", "he", " the", "in", "ing"}) tokens.emplace_back(more);
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, float scale,
                         float mean = 0.0f) {
      std::int64_t n = 1;
      for (const std::int64_t size : shape) n *= size;
      TinyTensor tensor{name, std::move(shape), {}};
      for (std::int64_t i = 0; i < n; ++i)  // Values that F16 has, too.
        tensor.values.push_back(f16_to_f32(f32_to_f16(mean + scale * normal(random))));
      tensors.push_back(std::move(tensor));
    };
    const std::int64_t d = kWidth;
    const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in, bool bias = true) {
      add(name + ".weight", {out, in}, 1.3f / std::sqrt(static_cast<float>(in)));
      if (bias) add(name + ".bias", {out}, 0.2f);
    };
    const auto norm = [&](const std::string& name) {
      add(name + ".weight", {d}, 0.2f, 1.0f);
      add(name + ".bias", {d}, 0.2f);
    };
    const auto attention = [&](const std::string& name) {
      linear(name + ".query", d, d);
      linear(name + ".key", d, d, false);
      linear(name + ".value", d, d);
      linear(name + ".out", d, d);
    };
    add("encoder.positional_embedding", {kHeard, d}, 0.3f);
    add("encoder.conv1.weight", {d, kMels, 3}, 0.1f);
    add("encoder.conv1.bias", {d, 1}, 0.1f);
    add("encoder.conv2.weight", {d, d, 3}, 0.1f);
    add("encoder.conv2.bias", {d, 1}, 0.1f);
    for (const std::string part : {"encoder", "decoder"})
      for (int i = 0; i < kLayers; ++i) {
        const std::string layer = part + ".blocks." + std::to_string(i) + ".";
        attention(layer + "attn");
        norm(layer + "attn_ln");
        if (part == "decoder") attention(layer + "cross_attn");
        if (part == "decoder") norm(layer + "cross_attn_ln");
        linear(layer + "mlp.0", 2 * d, d);
        linear(layer + "mlp.2", d, 2 * d);
        norm(layer + "mlp_ln");
      }
    norm("encoder.ln_post");
    norm("decoder.ln");
    add("decoder.positional_embedding", {kPositions, d}, 0.5f);
    add("decoder.token_embedding.weight", {n_vocab(), d}, 0.5f);
  }

  int n_vocab() const { return static_cast<int>(tokens.size()) + 1501 + 8 + kLanguages; }

  static bool is_vector(const TinyTensor& tensor) {
    return tensor.shape.size() < 2 || tensor.name.ends_with("bias") ||
           tensor.name.ends_with("positional_embedding");
  }

  /// The bytes of whisper.cpp's container. Matrices have this type; filters of convolutions are F16 unless it
  /// is F32.
  std::vector<char> container(DType matrices) const {
    std::vector<char> bytes;
    const auto number = [&](std::int64_t value) {
      const auto n = static_cast<std::int32_t>(value);
      const char* const at = reinterpret_cast<const char*>(&n);
      bytes.insert(bytes.end(), at, at + sizeof n);
    };
    const bool quantized = info(matrices).block_elements > 1;
    for (const std::int64_t value :
         {std::int64_t{0x67676d6c}, std::int64_t{n_vocab()}, kHeard, kWidth, kHeads, kLayers, kPositions,
          kWidth, kHeads, kLayers, kMels, std::int64_t{quantized ? 2008 : 1}})
      number(value);
    number(kMels);
    number(201);
    bytes.resize(bytes.size() + kMels * 201 * sizeof(float), '\0');
    number(std::ssize(tokens));
    for (const std::string& token : tokens) {
      number(std::ssize(token));
      bytes.insert(bytes.end(), token.begin(), token.end());
    }
    for (const TinyTensor& tensor : tensors) {
      DType type = matrices;
      if (is_vector(tensor))
        type = DType::kF32;
      else if (tensor.shape.size() == 3 && quantized)
        type = DType::kF16;
      number(std::ssize(tensor.shape));
      number(std::ssize(tensor.name));
      number(static_cast<std::int64_t>(type));
      for (std::size_t i = tensor.shape.size(); i-- > 0;) number(tensor.shape[i]);
      bytes.insert(bytes.end(), tensor.name.begin(), tensor.name.end());
      const std::int64_t columns = tensor.shape.back();
      const std::size_t n = row_bytes(type, columns);
      for (std::size_t at = 0; at < tensor.values.size(); at += static_cast<std::size_t>(columns)) {
        bytes.resize(bytes.size() + n);
        pack_row(type, std::span(tensor.values).subspan(at, static_cast<std::size_t>(columns)),
                 reinterpret_cast<std::byte*>(bytes.data() + bytes.size() - n));
      }
    }
    return bytes;
  }

  /// The same model with F32 weights.
  void write_gguf(const std::filesystem::path& path) const {
    GgufWriter file;
    file.set("general.architecture", std::string("whisper"));
    file.set("general.name", std::string("tiny"));
    file.set("whisper.encoder.attention.head_count", static_cast<std::uint32_t>(kHeads));
    file.set("whisper.decoder.attention.head_count", static_cast<std::uint32_t>(kHeads));
    const text::Vocabulary v = speech::complete_vocabulary(tokens, n_vocab());
    std::vector<std::int32_t> kinds;
    for (const TokenKind kind : v.kinds) kinds.push_back(kind == TokenKind::kControl ? 3 : 1);
    file.set("tokenizer.ggml.model", std::string("gpt2"));
    file.set("tokenizer.ggml.pre", std::string("gpt-2"));
    file.set("tokenizer.ggml.tokens", v.tokens);
    file.set("tokenizer.ggml.token_type", kinds);
    file.set("tokenizer.ggml.merges", v.merges);
    for (const TinyTensor& tensor : tensors)
      file.add_tensor(tensor.name, DType::kF32, tensor.shape, std::as_bytes(std::span(tensor.values)));
    file.write(path);
  }
};

/// Tones that come and go.
inline Audio tones(double seconds, double loudness = 0.2) {
  Audio sound;
  for (int i = 0; i < static_cast<int>(seconds * Audio::kSampleRate); ++i) {
    const double t = static_cast<double>(i) / Audio::kSampleRate * 2.0 * std::numbers::pi;
    sound.samples.push_back(static_cast<float>(
        loudness * (std::sin(300.0 * t) * std::sin(0.7 * t) + std::sin(1100.0 * t) * std::sin(1.3 * t))));
  }
  return sound;
}

}  // namespace weft::test
