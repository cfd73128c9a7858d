// Audio: files, spectrograms, encoders compared with transformers, and prompts with audio.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <limits>
#include <numbers>
#include <random>
#include <string>

#include "audio/spectrogram.h"
#include "engine/test_support.h"
#include "vision/vision_testing.h"
#include "weft/audio.h"
#include "weft/vision.h"

// What libsndfile loses of Ogg files that are damaged at their beginning is none of ours.
extern "C" const char* __lsan_default_suppressions() { return "leak:vorbis_info_init\n"; }

namespace weft {
namespace {

std::filesystem::path audio_dir() { return std::filesystem::path(WEFT_TEST_DATA) / "audio"; }

Audio tiny_audio() { return read_audio_file(audio_dir() / "sound.wav"); }

constexpr int kMels = 32, kFrames = 96;  // Of the tiny models.

class AudioFamilies : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path file() const { return audio_dir() / GetParam() / "mmproj.gguf"; }
};

TEST_P(AudioFamilies, MatchesTransformersWithAnyThreadCount) {
  const std::vector<float> expected = test::read_floats(audio_dir() / GetParam() / "rows.f32");
  std::vector<float> first;
  for (const int n_threads : {1, 2}) {
    const auto audio = AudioModel::load(file(), {.devices = {"cpu"}, .n_threads = n_threads});
    const auto encoded = audio->encode(tiny_audio());
    ASSERT_EQ(encoded->rows.size(), expected.size());
    const double difference = test::nmse(encoded->rows, expected);
    RecordProperty("nmse", testing::PrintToString(difference));
    EXPECT_LE(difference, 1e-6);
    if (first.empty()) first = encoded->rows;
    EXPECT_TRUE(encoded->rows == first) << n_threads << " threads";
  }
}

TEST_P(AudioFamilies, CachesRepeatedAudio) {
  const auto audio = AudioModel::load(file(), {.devices = {"cpu"}});
  const Audio sound = tiny_audio();
  Audio other = sound;
  other.samples[100] += 0.001f;
  const auto first = audio->encode(sound);
  EXPECT_NE(audio->encode(other)->id, first->id);
  EXPECT_EQ(audio->encode(sound), first);
  EXPECT_EQ(audio->n_computed(), 2);
  EXPECT_EQ(audio->n_found(), 1);
  // No audio has the id of an image.
  const auto vision = VisionModel::load(test::vision_dir() / "gemma3" / "mmproj.gguf", {.devices = {"cpu"}});
  const auto picture = vision->encode(test::tiny_image("gemma3"));
  EXPECT_NE(picture->id, first->id);
  EXPECT_NE(AudioModel::load(file(), {.devices = {"cpu"}})->encode(sound)->id, picture->id);
}

TEST_P(AudioFamilies, EncodingCanBeCancelled) {
  const auto audio = AudioModel::load(file(), {.devices = {"cpu"}});
  Audio sound = tiny_audio();
  sound.samples.resize(static_cast<std::size_t>(3 * audio->info().part_seconds * Audio::kSampleRate), 0.0f);
  int n_asked = 0;
  const auto once = [&] { return ++n_asked < 2; };
  try {
    audio->encode(sound, once);
    ADD_FAILURE() << "not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
  EXPECT_EQ(n_asked, 2);
  EXPECT_EQ(audio->n_computed(), 0);
  EXPECT_FALSE(audio->encode(tiny_audio())->rows.empty());
}

TEST_P(AudioFamilies, PlacesAudioAtMarks) {
  const auto audio = AudioModel::load(file(), {.devices = {"cpu"}});
  const auto model = Model::load(test::golden_dir() / "qwen2vl" / "model.gguf");
  const std::string mark = make_media_marker();
  const std::shared_ptr<const EncodedMedia> media[] = {audio->encode(tiny_audio())};
  const std::vector<PromptPiece> prompt = {{"a ", true}, {"question " + mark + " of", false}};
  const PromptWithMedia placed = place_media(model->tokenizer(), prompt, media, mark);
  ASSERT_EQ(placed.parts.size(), 2u);  // It is longer than one part.
  for (const EmbeddedPart& part : placed.parts) {
    EXPECT_EQ(part.n_embd, audio->info().n_embd);
    EXPECT_LE(part.n, audio->info().max_rows);
    for (int i = part.first; i < part.first + part.n; ++i)
      EXPECT_EQ(placed.tokens[static_cast<std::size_t>(i)], kMediaToken);
  }
  EXPECT_NE(placed.parts[0].id, placed.parts[1].id);
}

INSTANTIATE_TEST_SUITE_P(Families, AudioFamilies, testing::Values("voxtral", "qwen2a", "ultravox"),
                         test::name_of_family);

TEST(Spectrogram, MatchesTransformers) {
  const std::vector<float> expected = test::read_floats(audio_dir() / "mels.f32");
  audio::Spectrogram spectrogram(kMels, kFrames, open_devices(std::vector<std::string>{"cpu"}), {});
  const Audio sound = tiny_audio();
  const std::vector<float> mels =
      spectrogram.compute(std::span(sound.samples).first(std::size_t{kFrames} * audio::kHop));
  ASSERT_EQ(mels.size(), expected.size());
  EXPECT_LE(test::nmse(mels, expected), 1e-7);
}

/// A WAV file of these bytes of samples.
std::vector<std::byte> wav(std::uint16_t coding, std::uint16_t channels, std::uint32_t rate,
                           std::uint16_t bits, std::span<const std::byte> samples) {
  std::vector<std::byte> file;
  const auto text = [&](const char* four) {
    for (int i = 0; i < 4; ++i) file.push_back(static_cast<std::byte>(four[i]));
  };
  const auto number = [&](std::uint32_t value, int n) {
    for (int i = 0; i < n; ++i) file.push_back(static_cast<std::byte>(value >> (8 * i) & 0xffu));
  };
  text("RIFF"), number(static_cast<std::uint32_t>(36 + samples.size()), 4), text("WAVE");
  text("fmt "), number(16, 4), number(coding, 2), number(channels, 2), number(rate, 4);
  number(rate * channels * bits / 8u, 4), number(channels * bits / 8u, 2), number(bits, 2);
  text("data"), number(static_cast<std::uint32_t>(samples.size()), 4);
  file.insert(file.end(), samples.begin(), samples.end());
  return file;
}

template <typename T>
std::vector<std::byte> bytes_of(std::initializer_list<T> values) {
  const auto bytes = std::as_bytes(std::span(values.begin(), values.size()));
  return {bytes.begin(), bytes.end()};
}

TEST(AudioFile, SamplesOfAllCodings) {
  using Samples = std::vector<float>;
  EXPECT_EQ(read_audio(wav(1, 1, 16000, 16, bytes_of<std::int16_t>({0, 16384, -32768}))).samples,
            (Samples{0.0f, 0.5f, -1.0f}));
  EXPECT_EQ(read_audio(wav(1, 1, 16000, 8, bytes_of<std::uint8_t>({128, 192, 0}))).samples,
            (Samples{0.0f, 0.5f, -1.0f}));
  EXPECT_EQ(read_audio(wav(1, 1, 16000, 24, bytes_of<std::uint8_t>({0, 0, 0x40, 0, 0, 0x80}))).samples,
            (Samples{0.5f, -1.0f}));
  EXPECT_EQ(read_audio(wav(1, 1, 16000, 32, bytes_of<std::int32_t>({1 << 30, -(1 << 30)}))).samples,
            (Samples{0.5f, -0.5f}));
  EXPECT_EQ(read_audio(wav(3, 1, 16000, 32, bytes_of<float>({0.25f, -2.0f}))).samples,
            (Samples{0.25f, -2.0f}));
  // Channels are averaged.
  EXPECT_EQ(read_audio(wav(1, 2, 16000, 16, bytes_of<std::int16_t>({16384, 0, -16384, 16384}))).samples,
            (Samples{0.25f, 0.0f}));
}

TEST(AudioFile, RejectsOtherFormatsWithAdvice) {
  const std::vector<std::byte> samples = bytes_of<std::int16_t>({1, 2, 3, 4});
  const auto complaint = [](const std::vector<std::byte>& file) -> std::string {
    try {
      read_audio(file);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  for (const auto& file : {wav(1, 0, 16000, 16, samples), wav(99, 1, 16000, 16, samples),
                           std::vector<std::byte>(100), std::vector<std::byte>()})
    EXPECT_NE(complaint(file).find("ffmpeg"), std::string::npos);
  EXPECT_NE(complaint(wav(1, 1, 10, 16, samples)).find("10 samples per second"), std::string::npos);
  EXPECT_NE(complaint(wav(1, 1, 16000, 16, {})).find("no samples"), std::string::npos);
  EXPECT_NE(complaint(wav(3, 1, 16000, 32, bytes_of<float>({std::numeric_limits<float>::quiet_NaN()})))
                .find("samples that are not numbers"),
            std::string::npos);
  EXPECT_NE(complaint(wav(3, 1, 16000, 32, bytes_of<float>({3e38f}))).find("far too large"),
            std::string::npos);
  // Cut and damaged anywhere: audio or an error.
  const std::vector<std::byte> good = wav(1, 1, 16000, 16, samples);
  for (std::size_t n = 0; n < good.size(); ++n)
    (void)complaint({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n)});
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::byte> damaged = good;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    (void)complaint(damaged);
  }
}

TEST(AudioFile, ReadingCanBeCancelled) {
  const std::vector<std::byte> file = wav(1, 1, 16000, 16, bytes_of<std::int16_t>({1, 2, 3, 4}));
  int n_asked = 0;
  EXPECT_EQ(read_audio(file, [&] { return ++n_asked > 0; }).samples.size(), 4u);
  EXPECT_GE(n_asked, 2);
  try {
    read_audio(file, [] { return false; });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
}

/// Its part at this frequency, of a tone that fills it: 1 for a sine of height 1.
double height_at(std::span<const float> samples, double hz) {
  double real = 0.0, imaginary = 0.0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double angle = 2.0 * std::numbers::pi * hz * static_cast<double>(i) / Audio::kSampleRate;
    real += samples[i] * std::cos(angle);
    imaginary += samples[i] * std::sin(angle);
  }
  return 2.0 * std::hypot(real, imaginary) / static_cast<double>(samples.size());
}

TEST(AudioFile, OtherRatesAreResampled) {
  for (const std::uint32_t rate : {8000u, 22050u, 44100u, 48000u, 96000u}) {
    // Half a second of two tones, of which the upper one is above what 16000 samples can hold.
    std::vector<float> tones(rate / 2);
    for (std::size_t i = 0; i < tones.size(); ++i) {
      const double seconds = static_cast<double>(i) / rate;
      tones[i] = static_cast<float>(0.5 * std::sin(2.0 * std::numbers::pi * 1000.0 * seconds));
      if (rate > 20000)
        tones[i] += static_cast<float>(0.25 * std::sin(2.0 * std::numbers::pi * 10000.0 * seconds));
    }
    const Audio sound = read_audio(wav(3, 1, rate, 32, std::as_bytes(std::span(tones))));
    EXPECT_NEAR(static_cast<double>(sound.samples.size()), 8000.0, 2.0) << rate;
    // Whole periods of all that is asked for, away from the ends.
    const auto middle = std::span(sound.samples).subspan(1600, 4800);
    EXPECT_NEAR(height_at(middle, 1000.0), 0.5, 1e-3) << rate;
    EXPECT_LT(height_at(middle, 6000.0), 1e-3) << rate;  // Where 10 kHz would be mirrored to.
  }
}

TEST(AudioFile, ReadsCommonFormats) {
  for (const char* name : {"tone.flac", "tone.ogg", "tone.opus", "tone.mp3", "tone.aiff"}) {
    const Audio sound = read_audio_file(audio_dir() / name);  // A quarter of a second of 440 Hz.
    ASSERT_GE(sound.samples.size(), 3990u) << name;
    EXPECT_NEAR(height_at(std::span(sound.samples).subspan(1000, 2400), 440.0), 0.5, 0.03) << name;
    const std::vector<std::byte> good = test::read_bytes(audio_dir() / name);
    std::mt19937 random(5);
    for (int round = 0; round < 60; ++round) {
      std::vector<std::byte> damaged = good;
      for (int i = 0; i < 4; ++i) damaged[random() % damaged.size()] = static_cast<std::byte>(random());
      if (round % 2 == 0) damaged.resize(random() % damaged.size());
      try {
        (void)read_audio(damaged);
      } catch (const Error&) {
      }
    }
  }
}

TEST(AudioFile, RejectsTruncatedFiles) {
  std::vector<std::byte> flac = test::read_bytes(audio_dir() / "tone.flac");
  flac.resize(flac.size() * 3 / 4);
  EXPECT_THROW((void)read_audio(flac), Error);
}

TEST(AudioModel, RejectsDamagedAndForeignFiles) {
  EXPECT_THROW(AudioModel::load(test::vision_dir() / "gemma3" / "mmproj.gguf"), Error);
  EXPECT_THROW(media_kinds(test::golden_dir() / "gemma3" / "model.gguf"), Error);
  EXPECT_TRUE(media_kinds(audio_dir() / "voxtral" / "mmproj.gguf").audio);
  EXPECT_FALSE(media_kinds(audio_dir() / "voxtral" / "mmproj.gguf").images);
  const std::vector<std::byte> bytes = test::read_bytes(audio_dir() / "voxtral" / "mmproj.gguf");
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) /
                                     ("damaged-audio-mmproj-" + std::to_string(::getpid()) + ".gguf");
  const auto complaint = [&](const std::vector<std::byte>& file) -> std::string {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
    try {
      AudioModel::load(path, {.devices = {"cpu"}, .n_threads = 1});
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kInvalidFile || error.code() == ErrorCode::kUnsupported)
          << error.what();
      return error.what();
    }
    return {};
  };
  const auto edited = [&](const std::string& text, std::size_t offset, const auto& value) {
    std::vector<std::byte> file = bytes;
    const auto wanted = std::as_bytes(std::span(text));
    const auto found = std::search(file.begin(), file.end(), wanted.begin(), wanted.end());
    EXPECT_NE(found, file.end()) << text;
    std::memcpy(&*found + offset, &value, sizeof(value));
    return complaint(file);
  };
  EXPECT_EQ(complaint(bytes), "");
  const std::string eps = "clip.audio.attention.layer_norm_epsilon",
                    stacked = "clip.audio.projector.stack_factor";
  for (const float value : {-1.0f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_NE(edited(eps, eps.size() + 4, value).find(eps), std::string::npos);
  EXPECT_NE(edited(stacked, stacked.size() + 4, std::uint32_t{0}).find(stacked), std::string::npos);
  EXPECT_NE(edited(stacked, stacked.size() + 4, std::uint32_t{7}).find("position_embd"), std::string::npos);
  for (const char* name : {"a.post_ln.weight", "a.blk.1.attn_q.bias", "a.conv1d.2.bias", "mm.a.mlp.2.weight"})
    EXPECT_NE(edited(name, 0, 'x').find(name), std::string::npos) << name;
  // The same bytes with a type that norms do not take. The name is followed by the number of axes and one
  // axis.
  const std::string norm = "a.post_ln.weight";
  EXPECT_NE(edited(norm, norm.size() + 4 + 8, std::uint32_t{26}).find(norm), std::string::npos);
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::byte> damaged = bytes;
    for (int i = 0; i < 4; ++i) damaged[random() % 3000] = static_cast<std::byte>(random());
    (void)complaint(damaged);
  }
  std::filesystem::remove(path);
  const auto audio = AudioModel::load(audio_dir() / "voxtral" / "mmproj.gguf", {.devices = {"cpu"}});
  EXPECT_THROW(audio->encode({}), Error);
  EXPECT_THROW(audio->encode({{0.0f, std::numeric_limits<float>::infinity()}}), Error);
  EXPECT_NO_THROW(audio->check_fits("llama", audio->info().n_embd));
  EXPECT_THROW(audio->check_fits("gemma3", audio->info().n_embd), Error);
}

}  // namespace
}  // namespace weft
