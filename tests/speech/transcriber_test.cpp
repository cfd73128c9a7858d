// Transcripts: compared with transformers, and of audio that servers get.
#include "weft/transcriber.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "engine/test_support.h"
#include "speech/speech_testing.h"
#include "speech/transcriber.h"
#include "speech/words.h"
#include "weft/convert.h"
#include "weft/error.h"

namespace weft {
namespace {

using test::ScratchFile;
using test::speech_dir;
using test::TinyModel;
using test::tones;

const TranscriberParams kCpu = {.devices = {"cpu"}, .n_threads = 2};

std::shared_ptr<const Transcriber> load_tiny(DType matrices) {
  const ScratchFile file("tiny.bin");
  file.write(TinyModel().container(matrices));
  return Transcriber::load(file.path(), kCpu);
}

/// Greedy, without any threshold: the model is random.
TranscribeParams plain(const std::string& language = "en") {
  return {.language = language,
          .temperatures = {0.0f},
          .min_mean_log_prob = -100.0f,
          .max_no_speech_prob = 2.0f,
          .condition_on_previous = false};
}

class Golden : public testing::Test {
 protected:
  Golden() {
    convert(speech_dir() / "model", file_.path());
    transcriber_ = Transcriber::load(file_.path(), kCpu);
    std::ifstream stream(speech_dir() / "expected.json");
    stream >> expected_;
  }
  Transcriber::Impl& impl() { return transcriber_->impl(); }
  std::vector<float> first_window() {
    const Audio sound = read_audio_file(speech_dir() / "sound.wav");
    return impl().mels(sound.samples, 0, impl().loudest(sound.samples));
  }

  ScratchFile file_{"golden.gguf"};
  std::shared_ptr<const Transcriber> transcriber_;
  nlohmann::json expected_;
};

TEST_F(Golden, EncoderAndDecoderMatchTransformers) {
  impl().decoder.hear(impl().encoder.encode(first_window()));
  const double rows = test::nmse(impl().encoder.rows(), test::read_floats(speech_dir() / "rows.f32"));
  RecordProperty("rows", testing::PrintToString(rows));
  EXPECT_LE(rows, 1e-6);
  const auto tokens = expected_["tokens"].get<std::vector<Token>>();
  std::vector<float> logits;
  for (std::size_t i = 1; i <= tokens.size(); ++i) {
    const auto last = impl().decoder.logits(std::span(tokens).first(i)).last;
    logits.insert(logits.end(), last.begin(), last.end());
  }
  const double difference = test::nmse(logits, test::read_floats(speech_dir() / "logits.f32"));
  RecordProperty("logits", testing::PrintToString(difference));
  EXPECT_LE(difference, 1e-6);
  // One step for all tokens has the same result.
  const auto both = impl().decoder.logits(tokens, 2);
  const auto n = both.last.size();
  EXPECT_LE(test::nmse(both.last, std::span(logits).last(n)), 1e-10);
  EXPECT_LE(test::nmse(both.also, std::span(logits).subspan(2 * n, n)), 1e-10);
}

TEST_F(Golden, SegmentsMatchTransformers) {
  TranscribeParams params = plain("german");
  params.max_tokens = 32;
  const Transcript transcript = transcriber_->transcribe(read_audio_file(speech_dir() / "sound.wav"), params);
  EXPECT_EQ(transcript.language, "de");
  nlohmann::json segments = expected_["segments"];
  // transformers also has segments after the end of the audio. Here they are a part of the last one.
  while (segments.back()["start"].get<double>() >= transcript.duration) {
    const nlohmann::json after = segments.back();
    segments.erase(segments.size() - 1);
    for (const nlohmann::json& token : after["tokens"]) segments.back()["tokens"].push_back(token);
  }
  ASSERT_EQ(transcript.segments.size(), segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    auto tokens = segments[i]["tokens"].get<std::vector<Token>>();
    // The last one of a window may have the start of the next one, too.
    if (tokens.size() >= 2 && tokens.back() == tokens[tokens.size() - 2] &&
        transcript.segments[i].tokens != tokens)
      tokens.pop_back();
    EXPECT_EQ(transcript.segments[i].tokens, tokens) << i;
    // transformers also has times after the end of the audio.
    const auto time = [&](const char* name) {
      return std::min(segments[i][name].get<double>(), transcript.duration);
    };
    EXPECT_NEAR(transcript.segments[i].start, time("start"), 0.011) << i;
    EXPECT_NEAR(transcript.segments[i].end, time("end"), 0.011) << i;
  }
}

TEST_F(Golden, DetectsTheLanguageOfTransformers) {
  const Transcript transcript =
      transcriber_->transcribe(read_audio_file(speech_dir() / "sound.wav"), plain(""));
  EXPECT_EQ(transcript.language, expected_["language"].get<std::string>());
  EXPECT_EQ(transcriber_->info().languages, (std::vector<std::string>{"en", "zh", "de", "es"}));
  EXPECT_THROW(transcriber_->check({.language = "french"}), Error);
  EXPECT_NO_THROW(transcriber_->check({.language = "de-DE", .translate = true}));
}

TEST_F(Golden, ReadsAlignmentHeadsAndSuppressedTokens) {
  EXPECT_EQ(impl().file.alignment_heads.size(), 2u);
  EXPECT_EQ(impl().file.alignment_heads[1].head, 2);
  EXPECT_EQ(impl().file.vocabulary.suppressed.front(), 3);
}

/// A copy of the folder whose config.json has another value for a field.
class Folder {
 public:
  Folder(const std::string& field, const nlohmann::json& value)
      : path_(std::filesystem::temp_directory_path() / ("weft-whisper-" + std::to_string(::getpid()))) {
    std::filesystem::copy(speech_dir() / "model", path_);
    nlohmann::json config;
    std::ifstream(path_ / "config.json") >> config;
    config[field] = value;
    std::ofstream(path_ / "config.json") << config;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(WhisperFolder, TypesAreConvertedAndRead) {
  const ScratchFile file("typed.gguf");
  for (const char* type : {"f16", "q8_0", "bf16"}) {
    convert(speech_dir() / "model", file.path(), {.type = type});
    const auto transcriber = Transcriber::load(file.path(), kCpu);
    EXPECT_GT(transcriber->transcribe(tones(2.0), plain("de")).duration, 1.9) << type;
  }
}

TEST(WhisperFolder, OtherNetworksAreRefused) {
  const ScratchFile file("other.gguf");
  const std::pair<const char*, nlohmann::json> fields[] = {{"activation_function", "relu"},
                                                           {"tie_word_embeddings", false},
                                                           {"scale_embedding", true},
                                                           {"d_model", "wide"}};
  for (const auto& [field, value] : fields) {
    const Folder folder(field, value);
    EXPECT_THROW(convert(folder.path(), file.path()), Error) << field;
  }
  // Heads that do not divide the width are found when the file is loaded.
  const Folder folder("decoder_attention_heads", 3);
  convert(folder.path(), file.path());
  EXPECT_THROW(Transcriber::load(file.path(), kCpu), Error);
}

TEST(Mels, MatchTransformers) {
  const Audio sound = read_audio_file(speech_dir() / "sound.wav");
  for (const int n_mels : {80, 128}) {
    audio::Spectrogram spectrogram(n_mels, 300, open_devices({"cpu"}), {.n_threads = 1});
    const std::vector<float> expected =
        test::read_floats(speech_dir() / ("mels" + std::to_string(n_mels) + ".f32"));
    const std::span<const float> samples = std::span(sound.samples).first(300 * 160 - 4000);
    EXPECT_LE(test::nmse(spectrogram.compute(samples), expected), 1e-7) << n_mels;
    std::vector<float> mels = spectrogram.logarithms(samples, 0);
    audio::Spectrogram::scale(mels, *std::max_element(mels.begin(), mels.end()));
    EXPECT_LE(test::nmse(mels, expected), 1e-7) << n_mels;
  }
}

TEST(Transcriber, FormatsOfFilesAgree) {
  const ScratchFile file("same.gguf");
  TinyModel().write_gguf(file.path());
  const auto gguf = Transcriber::load(file.path(), kCpu);
  const Transcript expected = gguf->transcribe(tones(3.3), plain());
  ASSERT_FALSE(expected.segments.empty());
  for (const DType type : {DType::kF32, DType::kF16}) {
    const Transcript transcript = load_tiny(type)->transcribe(tones(3.3), plain());
    EXPECT_EQ(transcript.text(), expected.text());
    EXPECT_EQ(to_srt(transcript), to_srt(expected));
  }
}

TEST(Transcriber, ReadsQuantizedContainers) {
  for (const DType type : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0}) {
    const Transcript transcript = load_tiny(type)->transcribe(tones(1.5), plain());
    EXPECT_GT(transcript.duration, 1.4) << info(type).name;
  }
}

TEST(Transcriber, TimesAreWithinTheAudio) {
  // Public reports: timestamps after the end of the audio, a last segment that is cut off, and segments
  // without a length.
  const auto transcriber = load_tiny(DType::kF32);
  for (const double seconds : {0.1, 0.15, 0.2, 0.35, 0.6, 1.0, 1.05, 1.3, 2.72}) {
    TranscribeParams params = plain();
    params.words = true;
    const Transcript transcript = transcriber->transcribe(tones(seconds), params);
    double last = 0.0;
    for (const TranscribedSegment& segment : transcript.segments) {
      EXPECT_LE(last, segment.start + 1e-9);
      EXPECT_LT(segment.start + 1e-3, segment.end) << seconds;
      EXPECT_LE(segment.end, transcript.duration + 1e-9);
      last = segment.end;
      std::string text;
      for (const TranscribedWord& word : segment.words) {
        EXPECT_LE(word.start, word.end + 1e-9);
        EXPECT_LE(word.end, transcript.duration + 1e-9);
        EXPECT_GE(word.probability, 0.0);
        EXPECT_LE(word.probability, 1.0 + 1e-6);
        text += word.text;
      }
      EXPECT_FALSE(segment.words.empty());
    }
  }
}

TEST(Transcriber, SilenceAndVeryShortAudioHaveNoText) {
  // Public reports: "Thank you for watching" for digital silence, and errors or endless loops for a few
  // samples.
  const auto transcriber = load_tiny(DType::kF32);
  EXPECT_TRUE(transcriber->transcribe({std::vector<float>(48000, 0.0f)}, plain()).segments.empty());
  EXPECT_TRUE(
      transcriber->transcribe({std::vector<float>(48000, 1.0f / 32768.0f)}, plain("")).segments.empty());
  for (const std::size_t n : {0, 1, 159, 1599}) {
    const Transcript transcript = transcriber->transcribe({std::vector<float>(n, 0.25f)}, plain());
    EXPECT_TRUE(transcript.segments.empty()) << n;
    EXPECT_EQ(transcript.text(), "");
    EXPECT_EQ(to_srt(transcript), "");
    EXPECT_EQ(to_vtt(transcript), "WEBVTT\n\n");
  }
  // A silent window between others is skipped.
  Audio sound = tones(1.0);
  sound.samples.resize(48000, 0.0f);
  for (const TranscribedSegment& segment : transcriber->transcribe(sound, plain()).segments)
    EXPECT_LT(segment.start, 2.0);
}

TEST(Transcriber, RefusesWrongParameters) {
  const auto transcriber = load_tiny(DType::kF32);
  const auto refuses = [](const Transcriber& t, const TranscribeParams& params, const std::string& word) {
    try {
      t.check(params);
      ADD_FAILURE() << word;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  refuses(*transcriber, {.language = "klingon"}, "klingon");
  refuses(*transcriber, {.temperatures = {}}, "temperatures");
  refuses(*transcriber, {.temperatures = {std::numeric_limits<float>::quiet_NaN()}}, "temperatures");
  refuses(*transcriber, {.max_tokens = -1}, "max_tokens");
  for (const char* language : {"", "auto", "en", "english", "English", "en-US", "EN"})
    EXPECT_NO_THROW(transcriber->check({.language = language})) << language;
  EXPECT_THROW(transcriber->transcribe({{std::numeric_limits<float>::infinity()}}), Error);
  // Small vocabularies are taken for English only, as the published ones are.
  refuses(*transcriber, {.language = "de"}, "English only");
  refuses(*transcriber, {.translate = true}, "cannot translate");
  EXPECT_EQ(transcriber->transcribe(tones(1.0), plain("")).language, "en");
}

TEST(Transcriber, PromptsLongerThanTheContextAreCut) {
  // Public report: a prompt longer than the window ends in an error.
  TranscribeParams params = plain();
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "the thing ";
  params.prompt = text;
  const auto transcriber = load_tiny(DType::kF32);
  EXPECT_NO_THROW(transcriber->transcribe(tones(2.2), params));
  params.prompt = "\xff\xfe broken \x80";
  EXPECT_NO_THROW(transcriber->transcribe(tones(2.2), params));
}

TEST(Transcriber, RepetitionsFallBackToHigherTemperatures) {
  EXPECT_GT(speech::compression_ratio(std::string(40, 'a') + std::string(200, 'b')), 2.4);
  EXPECT_LT(speech::compression_ratio("a sentence without any repetition"), 2.4);
  const auto transcriber = load_tiny(DType::kF32);
  TranscribeParams params = plain();
  params.temperatures = {0.0f, 0.4f, 1.0f};
  params.min_mean_log_prob = 0.0f;  // No transcript is so good.
  const Transcript transcript = transcriber->transcribe(tones(1.0), params);
  for (const TranscribedSegment& segment : transcript.segments) EXPECT_EQ(segment.temperature, 1.0f);
  // Sampling is repeatable.
  EXPECT_EQ(transcriber->transcribe(tones(1.0), params).text(), transcript.text());
}

TEST(Transcriber, ReportsSegmentsAndProgressAndCanBeCancelled) {
  const auto transcriber = load_tiny(DType::kF32);
  TranscribeParams params = plain();
  std::vector<std::string> texts;
  double last = -1.0;
  params.on_segment = [&](const TranscribedSegment& segment) { texts.push_back(segment.text); };
  params.goes_on = [&](double done) {
    EXPECT_GE(done, last);
    last = done;
    return true;
  };
  const Transcript transcript = transcriber->transcribe(tones(3.0), params);
  EXPECT_EQ(last, 1.0);
  ASSERT_EQ(texts.size(), transcript.segments.size());
  params.goes_on = [](double done) { return done < 0.3; };
  try {
    transcriber->transcribe(tones(3.0), params);
    ADD_FAILURE() << "not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
  // The next call is not affected.
  EXPECT_EQ(transcriber->transcribe(tones(3.0), plain()).text(), transcript.text());
}

TEST(Transcriber, EarlierTextIsThePromptOfTheNextWindow) {
  const auto transcriber = load_tiny(DType::kF32);
  TranscribeParams params = plain();
  params.condition_on_previous = true;
  const Transcript with = transcriber->transcribe(tones(4.0), params);
  const Transcript without = transcriber->transcribe(tones(4.0), plain());
  ASSERT_FALSE(with.segments.empty());
  EXPECT_EQ(with.segments.front().tokens, without.segments.front().tokens);
  EXPECT_NE(with.text(), without.text());
}

TEST(Transcript, SubtitlesAreWellFormed) {
  Transcript transcript;
  transcript.segments = {{.id = 0, .start = 0.0, .end = 1.5, .text = " An arrow --> here."},
                         {.id = 1, .start = 3661.004, .end = 3662.0, .text = " Later."}};
  EXPECT_EQ(transcript.text(), "An arrow --> here. Later.");
  EXPECT_EQ(
      to_srt(transcript),
      "1\n00:00:00,000 --> 00:00:01,500\nAn arrow -> here.\n\n2\n01:01:01,004 --> 01:01:02,000\nLater.\n\n");
  EXPECT_EQ(to_vtt(transcript),
            "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nAn arrow -> here.\n\n01:01:01.004 --> "
            "01:01:02.000\nLater.\n\n");
}

TEST(Languages, HaveCodesAndNames) {
  EXPECT_EQ(language_code("German"), "de");
  EXPECT_EQ(language_code("de-DE"), "de");
  EXPECT_EQ(language_code("zh_CN"), "zh");
  EXPECT_EQ(language_code("haw"), "haw");
  EXPECT_EQ(language_code("mandarin"), "zh");
  EXPECT_EQ(language_code(""), std::nullopt);
  EXPECT_EQ(language_code("xx"), std::nullopt);
  EXPECT_EQ(language_name("yue"), "cantonese");
  EXPECT_EQ(language_name(""), "");
}

TEST(Warp, FindsThePathOfTheLowestCost) {
  // Row 0 is cheap in columns 0 and 1, row 1 in column 2, row 2 in columns 3 and 4.
  const std::vector<float> cost = {0, 0, 9, 9, 9, 9, 9, 0, 9, 9, 9, 9, 9, 0, 0};
  EXPECT_EQ(speech::warp(cost, 3, 5), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(speech::warp(std::vector<float>{1.0f}, 1, 1), (std::vector<int>{0}));
}

TEST(Rules, TimestampsComeInPairsAndDoNotDecrease) {
  const auto transcriber = load_tiny(DType::kF32);
  const speech::Vocabulary& v = transcriber->impl().file.vocabulary;
  const auto allowed = [&](const std::vector<Token>& generated, float of_text) {
    std::vector<float> logits(static_cast<std::size_t>(v.size()), 0.0f);
    std::fill_n(logits.begin(), v.end + 1, of_text);
    speech::apply_rules(v, generated, logits);
    return [logits](Token token) { return std::isfinite(logits[static_cast<std::size_t>(token)]); };
  };
  const Token t0 = v.first_timestamp;
  const auto first = allowed({}, 100.0f);
  EXPECT_FALSE(first('a'));
  EXPECT_FALSE(first(v.end));
  EXPECT_TRUE(first(t0 + 50));
  EXPECT_FALSE(first(t0 + 51));  // The first one is within a second.
  const auto second = allowed({t0 + 5}, 100.0f);
  EXPECT_TRUE(second('a'));
  EXPECT_FALSE(second(t0 + 6));
  EXPECT_FALSE(second(v.no_timestamps));
  const auto text = allowed({t0 + 5, 'a'}, 100.0f);
  EXPECT_TRUE(text('b'));
  EXPECT_FALSE(text(t0 + 5));
  EXPECT_TRUE(text(t0 + 6));
  const auto closed = allowed({t0 + 5, 'a', t0 + 9}, 100.0f);
  EXPECT_FALSE(closed('b'));
  EXPECT_TRUE(closed(t0 + 9));
  EXPECT_TRUE(closed(v.end));
  // 1,501 timestamps together are more probable than any token of text.
  EXPECT_FALSE(allowed({t0 + 5, 'a'}, 1.0f)('b'));
}

}  // namespace
}  // namespace weft
