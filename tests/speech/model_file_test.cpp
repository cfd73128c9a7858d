// Files of Whisper models: whisper.cpp's container, GGUF, and damaged ones.
#include "speech/model_file.h"

#include "speech/speech_testing.h"
#include "weft/error.h"
#include "weft/transcriber.h"

namespace weft {
namespace {

using test::ScratchFile;
using test::TinyModel;

TEST(WhisperFile, ReadsTheContainerOfWhisperCpp) {
  const TinyModel model;
  const ScratchFile file("f32.bin");
  file.write(model.container(DType::kF32));
  EXPECT_TRUE(is_transcriber_file(file.path()));
  const speech::ModelFile read(file.path());
  EXPECT_EQ(read.sizes.width, TinyModel::kWidth);
  EXPECT_EQ(read.sizes.n_heard, TinyModel::kHeard);
  EXPECT_EQ(read.sizes.n_mels, TinyModel::kMels);
  EXPECT_EQ(read.sizes.decoder_layers, TinyModel::kLayers);
  const speech::Vocabulary& v = read.vocabulary;
  EXPECT_EQ(v.end, std::ssize(model.tokens));
  EXPECT_EQ(v.size() - v.first_timestamp, 1501);
  // The merges follow from the order of the tokens.
  const std::vector<Token> the = {static_cast<Token>(258)};
  EXPECT_EQ(v.encode(" the"), the);
  EXPECT_EQ(v.text(the), " the");
  // All heads of the last half of the layers.
  EXPECT_EQ(read.alignment_heads.size(), 2u);
}

TEST(WhisperFile, NamesSpecialTokensAsThePublishedModels) {
  // Ids of the published multilingual models: 50,257 tokens of text, 51,865 in total, or 51,866 with
  // Cantonese.
  const std::vector<std::string> tokens(50257, "x");
  for (const int n_vocab : {51865, 51866}) {
    const text::Vocabulary v = speech::complete_vocabulary(tokens, n_vocab);
    const int more = n_vocab - 51865;
    ASSERT_EQ(std::ssize(v.tokens), n_vocab);
    EXPECT_EQ(v.tokens[50257], "<|endoftext|>");
    EXPECT_EQ(v.tokens[50258], "<|startoftranscript|>");
    EXPECT_EQ(v.tokens[50259], "<|en|>");
    EXPECT_EQ(v.tokens[50261], "<|de|>");
    EXPECT_EQ(v.tokens[static_cast<std::size_t>(50358 + more)], "<|translate|>");
    EXPECT_EQ(v.tokens[static_cast<std::size_t>(50359 + more)], "<|transcribe|>");
    EXPECT_EQ(v.tokens[static_cast<std::size_t>(50361 + more)], "<|startofprev|>");
    EXPECT_EQ(v.tokens[static_cast<std::size_t>(50363 + more)], "<|notimestamps|>");
    EXPECT_EQ(v.tokens[static_cast<std::size_t>(50364 + more)], "<|0.00|>");
    EXPECT_EQ(v.tokens.back(), "<|30.00|>");
  }
  EXPECT_THROW(speech::complete_vocabulary(tokens, 51000), Error);
}

TEST(WhisperFile, TruncatedFilesAreRefused) {
  const std::vector<char> whole = TinyModel().container(DType::kF16);
  const ScratchFile file("cut.bin");
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    // Within the header and the vocabulary, and anywhere.
    const std::size_t most = i < 30 ? 80 * 201 * 4 + 2048 : whole.size() - 1;
    const std::size_t n = i < 16 ? static_cast<std::size_t>(i) * 4 : random() % most;
    file.write(std::span(whole).first(n));
    EXPECT_THROW(speech::ModelFile{file.path()}, Error) << n;
  }
}

TEST(WhisperFile, DamagedFilesDoNotCrash) {
  const std::vector<char> whole = TinyModel().container(DType::kQ5_0);
  const ScratchFile file("damaged.bin");
  std::mt19937 random(2);
  const std::size_t filters = 12 * 4 + 8, vocabulary = filters + 80 * 201 * 4;
  int n_refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::vector<char> bytes = whole;
    // In the hyperparameters, the vocabulary, or the heads of the first tensors.
    const std::size_t at = i < 100 ? random() % filters : vocabulary + random() % 6000;
    const std::uint32_t value =
        std::array<std::uint32_t, 5>{0, 1, 0x7fffffff, 0xffffffff, 0x10000}[random() % 5];
    std::memcpy(bytes.data() + std::min(at, bytes.size() - 4), &value, sizeof value);
    file.write(bytes);
    try {
      const speech::ModelFile read(file.path());
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kInvalidFile || error.code() == ErrorCode::kUnsupported)
          << error.what();
      ++n_refused;
    }
  }
  EXPECT_GT(n_refused, 100);
}

TEST(WhisperFile, OldQuantizationsAreRefusedIfTheirBlocksDiffer) {
  const ScratchFile file("old.bin");
  const auto write = [&](DType type, std::int32_t file_type) {
    std::vector<char> bytes = TinyModel().container(type);
    std::memcpy(bytes.data() + 11 * sizeof file_type, &file_type, sizeof file_type);
    file.write(bytes);
  };
  // Published files of q5_0 and q5_1 have version 1, whose blocks are the same.
  write(DType::kQ5_1, 1009);
  EXPECT_NO_THROW(speech::ModelFile{file.path()});
  for (const std::int32_t file_type : {7, 1007}) {
    write(DType::kQ8_0, file_type);
    try {
      const speech::ModelFile read(file.path());
      ADD_FAILURE() << "read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("quantize the model again"), std::string::npos)
          << error.what();
    }
  }
}

TEST(WhisperFile, OtherModelsAreRefused) {
  const ScratchFile file("other.gguf");
  GgufWriter writer;
  writer.set("general.architecture", std::string("llama"));
  writer.write(file.path());
  EXPECT_FALSE(is_transcriber_file(file.path()));
  EXPECT_FALSE(is_transcriber_file(file.path().string() + ".none"));
  try {
    Transcriber::load(file.path());
    ADD_FAILURE() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("'llama'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace weft
