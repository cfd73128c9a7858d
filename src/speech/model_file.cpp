#include "speech/model_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "base/open_file.h"
#include "base/to_size.h"
#include "engine/vocabulary_from_gguf.h"
#include "gguf/gguf.h"
#include "weft/error.h"
#include "weft/transcriber.h"
#include "weights/ggml_file.h"

namespace weft {
namespace speech {
namespace {

constexpr std::int64_t kMaxHeads = 1024, kMaxLayers = 512, kMaxWidth = 1 << 16, kMaxMels = 1024;
constexpr std::int64_t kMaxVocabulary = 1 << 20, kMaxPositions = 1 << 14, kMaxHeard = 1500;  // Of 30 s.

std::array<std::byte, 4> magic_of(const std::filesystem::path& path) {
  std::array<std::byte, 4> magic{};
  (void)base::OpenFile(path).read_at(0, magic);
  return magic;
}
constexpr auto kGgml = std::bit_cast<std::array<std::byte, 4>>(kGgmlMagic);

/// A size of a tensor. A model takes its sizes from its tensors.
int size_of(const WeightFile& weights, const std::string& name, std::size_t rank, std::size_t axis,
            std::int64_t most) {
  const WeightFile::Tensor* const tensor = weights.find(name);
  if (tensor == nullptr) throw Error(ErrorCode::kInvalidFile, "tensor " + name + " is missing");
  if (tensor->shape.size() != rank || tensor->shape[axis] < 1 || tensor->shape[axis] > most)
    throw Error(ErrorCode::kInvalidFile, "tensor " + name + " has another number of dimensions than " +
                                             std::to_string(rank) + ", or a size that is not 1 to " +
                                             std::to_string(most));
  return static_cast<int>(tensor->shape[axis]);
}

int count_layers(const WeightFile& weights, const std::string& stem) {
  int n = 0;
  while (n < kMaxLayers && weights.find(stem + std::to_string(n) + ".mlp_ln.weight") != nullptr) ++n;
  if (n == 0) throw Error(ErrorCode::kInvalidFile, "tensor " + stem + "0.mlp_ln.weight is missing");
  return n;
}

Sizes sizes_of(const WeightFile& weights, std::int64_t encoder_heads, std::int64_t decoder_heads) {
  Sizes s;
  s.n_mels = size_of(weights, "encoder.conv1.weight", 3, 1, kMaxMels);
  s.n_heard = size_of(weights, "encoder.positional_embedding", 2, 0, kMaxHeard);
  s.width = size_of(weights, "decoder.token_embedding.weight", 2, 1, kMaxWidth);
  s.n_vocab = size_of(weights, "decoder.token_embedding.weight", 2, 0, kMaxVocabulary);
  s.n_positions = size_of(weights, "decoder.positional_embedding", 2, 0, kMaxPositions);
  s.encoder_layers = count_layers(weights, "encoder.blocks.");
  s.decoder_layers = count_layers(weights, "decoder.blocks.");
  for (const std::int64_t heads : {encoder_heads, decoder_heads})
    if (heads < 1 || heads > kMaxHeads || s.width % heads != 0)
      throw Error(
          ErrorCode::kInvalidFile,
          std::to_string(heads) + " heads of attention do not divide the width " + std::to_string(s.width));
  s.encoder_heads = static_cast<int>(encoder_heads);
  s.decoder_heads = static_cast<int>(decoder_heads);
  constexpr int kFewestPositions = 16;
  if (s.n_positions < kFewestPositions)
    throw Error(ErrorCode::kInvalidFile, "tensor decoder.positional_embedding has " +
                                             std::to_string(s.n_positions) + " rows, expected at least " +
                                             std::to_string(kFewestPositions));
  return s;
}

std::vector<AlignmentHead> heads_or_default(std::vector<AlignmentHead> heads, const Sizes& sizes) {
  std::erase_if(heads, [&](const AlignmentHead& one) {
    return one.layer < 0 || one.layer >= sizes.decoder_layers || one.head < 0 ||
           one.head >= sizes.decoder_heads;
  });
  if (heads.empty())
    for (int layer = sizes.decoder_layers / 2; layer < sizes.decoder_layers; ++layer)
      for (int head = 0; head < sizes.decoder_heads; ++head) heads.push_back({layer, head});
  return heads;
}

}  // namespace

struct ModelFile::Header {
  std::string name;
  std::int64_t encoder_heads = 0, decoder_heads = 0;
  text::Vocabulary vocabulary;
  std::optional<bool> multilingual;
  std::optional<std::vector<std::int64_t>> suppressed, suppressed_at_start;
  std::vector<AlignmentHead> alignment_heads;

  static Header read(const std::filesystem::path& path) {
    return magic_of(path) == kGgml ? read_ggml_header(path) : read_gguf_header(path);
  }

  static Header read_ggml_header(const std::filesystem::path& path) {
    const base::MappedFile mapped(path);
    Header header;
    try {
      const GgmlFile file = read_ggml(mapped);
      header.encoder_heads = file.n_audio_head;
      header.decoder_heads = file.n_text_head;
      header.vocabulary = complete_vocabulary(file.tokens, file.n_vocab);
    } catch (const Error& error) {
      throw Error(error.code(), path.string() + ": " + error.what());
    }
    header.name = path.stem().string();
    return header;
  }

  static Header read_gguf_header(const std::filesystem::path& path) {
    const gguf::File file = gguf::File::open(path);
    const std::string_view architecture = file.get_label("general.architecture");
    if (architecture != "whisper")
      throw Error(ErrorCode::kUnsupported,
                  path.string() + " is a model of the architecture '" +
                      std::string(architecture.substr(0, 64)) +
                      "', not a Whisper model; use a ggml-*.bin of whisper.cpp, or weft convert "
                      "with a Whisper model of Hugging Face");
    const auto heads = [&](const char* part) {
      const std::string key = std::string("whisper.") + part + ".attention.head_count";
      const auto value = file.get_int(key);
      if (!value) throw Error(ErrorCode::kInvalidFile, "metadata key " + key + " is missing");
      return *value;
    };
    Header header;
    header.name = file.get_label("general.name");
    header.encoder_heads = heads("encoder");
    header.decoder_heads = heads("decoder");
    header.vocabulary = engine::vocabulary_from_gguf(file);
    header.multilingual = file.get_bool("whisper.multilingual");
    header.suppressed = file.get_ints("whisper.suppress_tokens");
    header.suppressed_at_start = file.get_ints("whisper.begin_suppress_tokens");
    const auto pairs = file.get_ints("whisper.alignment_heads").value_or(std::vector<std::int64_t>());
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
      if (std::max(pairs[i], pairs[i + 1]) < kMaxHeads && std::min(pairs[i], pairs[i + 1]) >= 0)
        header.alignment_heads.push_back({static_cast<int>(pairs[i]), static_cast<int>(pairs[i + 1])});
    return header;
  }
};

ModelFile::ModelFile(const std::filesystem::path& path) : ModelFile(path, Header::read(path)) {}

ModelFile::ModelFile(const std::filesystem::path& path, Header header)
    : name(std::move(header.name)),
      weights(path),
      sizes(sizes_of(weights, header.encoder_heads, header.decoder_heads)),
      vocabulary(std::move(header.vocabulary), sizes.n_vocab, header.multilingual),
      alignment_heads(heads_or_default(std::move(header.alignment_heads), sizes)) {
  const auto replace = [&](std::vector<Token>& list, const std::optional<std::vector<std::int64_t>>& by) {
    if (!by) return;
    list.clear();
    for (const std::int64_t id : *by)
      if (id >= 0 && id < sizes.n_vocab) list.push_back(static_cast<Token>(id));
  };
  replace(vocabulary.suppressed, header.suppressed);
  replace(vocabulary.suppressed_at_start, header.suppressed_at_start);
  for (const Token token : {vocabulary.start, vocabulary.translate, vocabulary.transcribe,
                            vocabulary.previous, vocabulary.no_speech, vocabulary.no_timestamps})
    vocabulary.suppressed.push_back(token);
  for (const auto& [code, token] : vocabulary.languages) vocabulary.suppressed.push_back(token);
}

}  // namespace speech

bool is_transcriber_file(const std::filesystem::path& path) {
  try {
    if (speech::magic_of(path) == speech::kGgml) return true;
    constexpr std::array kGguf = {std::byte{'G'}, std::byte{'G'}, std::byte{'U'}, std::byte{'F'}};
    return speech::magic_of(path) == kGguf &&
           gguf::File::open(path).get_label("general.architecture") == "whisper";
  } catch (const Error&) {
    return false;
  }
}

}  // namespace weft
