// SentencePiece's tokenizers, against the files that Python's packages wrote of them, whose tokens the tests
// of tokenizers hold against SentencePiece's own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "base/base64.h"
#include "convert/folder_testing.h"
#include "weft/convert.h"
#include "weft/gguf.h"

namespace weft {
namespace {

const std::filesystem::path kTokenizers = std::filesystem::path(WEFT_TEST_DATA) / "tokenizers";
using Keys = std::map<std::string, GgufValue>;

Keys keys_of(const std::filesystem::path& file) {
  const auto entries = read_gguf_metadata(file);
  return {entries.begin(), entries.end()};
}

class SentencePiece : public testing::TestWithParam<const char*> {
 protected:
  SentencePiece() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    test::write_small_model(folder_, static_cast<std::int64_t>(texts("tokens").size()));
  }
  ~SentencePiece() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> texts(const std::string& key) const {
    return std::get<std::vector<std::string>>(expected_.at("tokenizer.ggml." + key));
  }

  void expect_the_same() const {
    convert(folder_, folder_ / "made.gguf");
    const Keys found = keys_of(folder_ / "made.gguf");
    for (const auto& [key, value] : expected_) {
      if (!key.starts_with("tokenizer.")) continue;
      ASSERT_TRUE(found.contains(key)) << key;
      EXPECT_EQ(found.at(key), value) << key;
    }
  }

  const Keys expected_ = keys_of(kTokenizers / (std::string(GetParam()) + ".gguf"));
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("weft_sentencepiece_" + std::to_string(getpid()));
};

TEST_P(SentencePiece, ModelFile) {
  std::filesystem::copy(kTokenizers / (std::string(GetParam()) + ".model"), folder_ / "tokenizer.model");
  expect_the_same();
}

TEST_P(SentencePiece, TokenizerJson) {
  const auto tokens = texts("tokens");
  const auto scores = std::get<std::vector<float>>(expected_.at("tokenizer.ggml.scores"));
  const auto kinds = std::get<std::vector<std::int32_t>>(expected_.at("tokenizer.ggml.token_type"));
  constexpr std::int32_t kControl = 3, kUserDefined = 4, kByte = 6;
  nlohmann::json vocabulary = nlohmann::json::array(), added = nlohmann::json::array();
  bool bytes = false;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    vocabulary.push_back({tokens[i], scores[i]});
    bytes |= kinds[i] == kByte;
    if (kinds[i] == kControl || kinds[i] == kUserDefined)
      added.push_back({{"id", i}, {"content", tokens[i]}, {"special", kinds[i] == kControl}});
  }
  const auto flag = [&](const char* key) {
    return std::get<bool>(expected_.at(std::string("tokenizer.ggml.") + key));
  };
  nlohmann::json steps = nlohmann::json::array();
  if (const auto map = expected_.find("tokenizer.ggml.precompiled_charsmap"); map != expected_.end()) {
    const auto& values = std::get<std::vector<std::uint8_t>>(map->second);
    steps.push_back({{"type", "Precompiled"},
                     {"precompiled_charsmap", base::to_base64(std::as_bytes(std::span(values)))}});
  }
  if (flag("remove_extra_whitespaces"))
    steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "\u2581"}});
  const auto number = [&](const char* key) {
    return std::get<std::uint32_t>(expected_.at(std::string("tokenizer.ggml.") + key));
  };
  const nlohmann::json tokenizer = {{"added_tokens", added},
                                    {"normalizer", {{"type", "Sequence"}, {"normalizers", steps}}},
                                    {"pre_tokenizer",
                                     {{"type", "Metaspace"},
                                      {"replacement", "\u2581"},
                                      {"prepend_scheme", flag("add_space_prefix") ? "always" : "never"}}},
                                    {"model",
                                     {{"type", "Unigram"},
                                      {"vocab", vocabulary},
                                      {"unk_id", number("unknown_token_id")},
                                      {"byte_fallback", bytes}}}};
  test::write_text(folder_ / "tokenizer.json", tokenizer.dump());
  nlohmann::json names = {{"bos_token", tokens[number("bos_token_id")]},
                          {"eos_token", tokens[number("eos_token_id")]}};
  // The model's own unknown token takes precedence.
  names["unk_token"] = names["eos_token"];
  test::write_text(folder_ / "tokenizer_config.json", names.dump());
  expect_the_same();
}

INSTANTIATE_TEST_SUITE_P(Models, SentencePiece,
                         testing::Values("unigram", "unigram-bytes", "unigram-plain", "unigram-identity"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace weft
