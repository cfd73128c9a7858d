#include "speech/transcriber.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/to_size.h"
#include "speech/languages.h"
#include "speech/words.h"
#include "weft/error.h"

namespace weft {
namespace {

using speech::Decoded;
using speech::kSecondsPerTimestamp;
using speech::Vocabulary;

constexpr int kFramesPerSecond = Audio::kSampleRate / audio::kHop;
constexpr int kFramesPerRow = 2;  // A row of the encoder's output, or a step of timestamps.
constexpr std::int64_t kFewestSamples = Audio::kSampleRate / 10;
/// Two steps of 16 bits: dithered digital silence. Whisper invents sentences for it.
constexpr float kSilence = 2.0f / 32768.0f;
/// Transcripts sampled with a higher temperature do not become prompts.
constexpr float kTrustedTemperature = 0.5f;
constexpr std::size_t kMaxTemperatures = 16;

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::kInvalidArgument, why); }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kBlank);
  return begin == text.npos ? std::string_view()
                            : text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

bool is_silent(std::span<const float> samples) {
  return std::all_of(samples.begin(), samples.end(), [](float x) { return std::abs(x) <= kSilence; });
}

/// whisper.cpp's word is "auto".
bool is_detected(std::string_view language) { return language.empty() || language == "auto"; }

/// A transcription in progress.
class Transcription {
 public:
  Transcription(Transcriber::Impl& impl, std::span<const float> samples, const TranscribeParams& params)
      : impl_(impl),
        vocabulary_(impl.file.vocabulary),
        sizes_(impl.file.sizes),
        samples_(samples),
        params_(params),
        random_(params.seed),
        n_frames_(static_cast<int>(std::ssize(samples) / audio::kHop)) {
    result_.duration = static_cast<double>(samples.size()) / Audio::kSampleRate;
    if (!is_detected(params.language)) result_.language = *language_code(params.language);
    const std::string_view prompt = trimmed(params.prompt);
    if (!prompt.empty()) history_ = vocabulary_.encode(" " + std::string(prompt));
  }

  Transcript run() {
    if (std::ssize(samples_) < kFewestSamples || is_silent(samples_)) return std::move(result_);
    loudest_ = impl_.loudest(samples_);
    for (seek_ = 0; seek_ < n_frames_;) {
      report();
      const int n = std::min(sizes_.n_frames(), n_frames_ - seek_);
      seek_ += transcribe_window(n);
    }
    report();
    return std::move(result_);
  }

 private:
  void report() const {
    if (params_.goes_on &&
        !params_.goes_on(std::min(1.0, static_cast<double>(seek_) / std::max(n_frames_, 1))))
      throw Error(ErrorCode::kCancelled, "the transcription was cancelled");
  }

  /// Transcribes up to n frames, and returns how many.
  int transcribe_window(int n) {
    const std::size_t first = to_size(seek_) * audio::kHop;
    if (n * audio::kHop < kFewestSamples) return n;
    if (is_silent(samples_.subspan(first, std::min(samples_.size() - first, to_size(n) * audio::kHop))))
      return n;
    impl_.decoder.hear(impl_.encoder.encode(impl_.mels(samples_, seek_, loudest_)));
    if (result_.language.empty()) result_.language = detect_language();
    const Decoded decoded = decode();
    if (decoded.no_speech > static_cast<double>(params_.max_no_speech_prob) &&
        decoded.mean_log_prob <= static_cast<double>(params_.min_mean_log_prob))
      return n;
    const std::size_t n_before = result_.segments.size();
    probabilities_.clear();
    const int used = split(decoded, n);
    if (params_.words) add_words(n_before, n);
    for (std::size_t i = n_before; i < result_.segments.size(); ++i)
      if (params_.on_segment) params_.on_segment(result_.segments[i]);
    if (!params_.condition_on_previous || decoded.temperature > kTrustedTemperature) history_.clear();
    return used;
  }

  std::string detect_language() {
    if (vocabulary_.languages.empty()) return "en";
    std::vector<Token> tokens;
    for (const auto& [code, token] : vocabulary_.languages) tokens.push_back(token);
    const Token start[] = {vocabulary_.start};
    const std::vector<float> all = speech::probabilities(impl_.decoder.logits(start).last, tokens);
    return vocabulary_.languages[to_size(std::max_element(all.begin(), all.end()) - all.begin())].first;
  }

  /// The start of the transcript, its language and its task.
  std::vector<Token> start() const {
    std::vector<Token> tokens = {vocabulary_.start};
    if (vocabulary_.languages.empty()) return tokens;
    tokens.push_back(vocabulary_.language(result_.language));
    tokens.push_back(params_.translate ? vocabulary_.translate : vocabulary_.transcribe);
    return tokens;
  }

  Decoded decode() {
    std::vector<Token> prompt;
    // Half of the context is for the prompt, and half for the transcript.
    const std::size_t most = to_size(sizes_.n_positions / 2) - 1;
    if (history_.size() > most)
      history_.erase(history_.begin(), history_.end() - static_cast<std::ptrdiff_t>(most));
    if (!history_.empty()) {
      prompt.push_back(vocabulary_.previous);
      prompt.insert(prompt.end(), history_.begin(), history_.end());
    }
    const auto at = static_cast<int>(prompt.size());
    for (const Token token : start()) prompt.push_back(token);
    speech::DecodeParams params;
    params.max_tokens = std::min(params_.max_tokens > 0 ? params_.max_tokens : sizes_.n_positions / 2,
                                 sizes_.n_positions - static_cast<int>(prompt.size()));
    params.goes_on = [this] { return report(), true; };
    Decoded decoded;
    for (const float temperature : params_.temperatures) {
      params.temperature = temperature;
      decoded = speech::decode(impl_.decoder, vocabulary_, prompt, at, params, random_);
      const bool unlikely = decoded.mean_log_prob < static_cast<double>(params_.min_mean_log_prob);
      const bool repeats = decoded.compression_ratio > static_cast<double>(params_.max_compression_ratio);
      const bool silent = unlikely && decoded.no_speech > static_cast<double>(params_.max_no_speech_prob);
      if (silent || !(unlikely || repeats)) break;
    }
    return decoded;
  }

  /// Appends the segments of a window of n frames. Returns the frames that are done.
  int split(const Decoded& decoded, int n) {
    const std::span<const Token> tokens = decoded.tokens;
    const auto is_timestamp = [&](std::size_t i) { return vocabulary_.is_timestamp(tokens[i]); };
    // A segment ends between two timestamps: its end, and the start of the next.
    std::vector<std::size_t> ends;
    for (std::size_t i = 1; i < tokens.size(); ++i)
      if (is_timestamp(i - 1) && is_timestamp(i)) ends.push_back(i);
    const bool ends_alone =
        tokens.size() >= 2 && !is_timestamp(tokens.size() - 2) && is_timestamp(tokens.size() - 1);
    if (ends.empty()) {
      double length = static_cast<double>(n) / kFramesPerSecond;
      const auto last =
          std::find_if(tokens.rbegin(), tokens.rend(), [&](Token t) { return vocabulary_.is_timestamp(t); });
      if (last != tokens.rend() && *last != vocabulary_.first_timestamp) length = vocabulary_.seconds(*last);
      add(decoded, tokens, 0.0, length, n);
      return n;
    }
    if (ends_alone) ends.push_back(tokens.size());
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      const auto part = tokens.subspan(begin, end - begin);
      add(decoded, part, vocabulary_.seconds(part.front()), vocabulary_.seconds(part.back()), n);
      begin = end;
    }
    // After a last timestamp alone nothing is said any more. Otherwise a segment has begun that the window
    // cuts: the next window begins with it.
    if (ends_alone) return n;
    const int done = (tokens[begin - 1] - vocabulary_.first_timestamp) * kFramesPerRow;
    return done > 0 ? std::min(done, n) : n;
  }

  void add(const Decoded& decoded, std::span<const Token> tokens, double start, double end, int n) {
    std::string text = vocabulary_.text(tokens);
    if (start >= end || trimmed(text).empty()) return;
    history_.insert(history_.end(), tokens.begin(), tokens.end());
    const std::size_t first = to_size(tokens.data() - decoded.tokens.data());
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] < vocabulary_.end) probabilities_.push_back(decoded.probabilities[first + i]);
    start = time(start, n);
    end = time(end, n);
    // Models also transcribe words after the end of the audio. It gets the time that is left, or joins the segment
    // that has it.
    if (start >= end) {
      start = time(0.0, n);
      if (!result_.segments.empty()) start = std::max(start, result_.segments.back().end);
    }
    if (start >= end) {
      TranscribedSegment& last = result_.segments.back();
      last.text += text;
      last.tokens.insert(last.tokens.end(), tokens.begin(), tokens.end());
      return;
    }
    result_.segments.push_back({.id = static_cast<int>(result_.segments.size()),
                                .start = start,
                                .end = end,
                                .text = std::move(text),
                                .tokens = {tokens.begin(), tokens.end()},
                                .temperature = decoded.temperature,
                                .mean_log_prob = decoded.mean_log_prob,
                                .compression_ratio = decoded.compression_ratio,
                                .no_speech_prob = decoded.no_speech,
                                .seek = seek_});
  }

  /// Adds words to the segments from `first` on, which a window of n frames has.
  void add_words(std::size_t first, int n) {
    const std::vector<Token> begin = start();
    // Start, no timestamps, the tokens, and the end.
    std::size_t n_free = to_size(sizes_.n_positions) - begin.size() - 2;
    std::vector<speech::AlignedWord> words;
    for (std::size_t i = first; i < result_.segments.size(); ++i) {
      std::vector<Token> tokens;
      for (const Token token : result_.segments[i].tokens)
        if (token < vocabulary_.end && tokens.size() < n_free) tokens.push_back(token);
      n_free -= tokens.size();
      speech::split_words(vocabulary_, tokens, result_.language, i, words);
    }
    speech::align_words(impl_.decoder, vocabulary_, begin, (n + 1) / kFramesPerRow, sizes_.n_heard, words);
    std::size_t at = 0;
    for (speech::AlignedWord& word : words) {
      double sum = 0.0;
      for (std::size_t k = 0; k < word.tokens.size(); ++k) sum += static_cast<double>(probabilities_[at++]);
      result_.segments[word.segment].words.push_back({time(word.start, n), time(word.end, n),
                                                      std::move(word.text),
                                                      sum / static_cast<double>(word.tokens.size())});
    }
  }

  /// Seconds from the begin of the audio, of a time within a window of n frames.
  double time(double seconds, int n) const {
    const double offset = static_cast<double>(seek_) / kFramesPerSecond;
    return std::min(offset + std::min(seconds, static_cast<double>(n) / kFramesPerSecond), result_.duration);
  }

  Transcriber::Impl& impl_;
  const Vocabulary& vocabulary_;
  const speech::Sizes& sizes_;
  const std::span<const float> samples_;
  const TranscribeParams& params_;
  std::mt19937_64 random_;
  const int n_frames_;
  float loudest_ = 0.0f;
  int seek_ = 0;
  std::vector<Token> history_;        ///< The prompt of the next window.
  std::vector<float> probabilities_;  ///< The window's, without timestamps.
  Transcript result_;
};

std::string clock(double seconds, char point) {
  const std::int64_t ms = std::llround(seconds * 1000.0);
  char text[32];
  std::snprintf(text, sizeof text, "%02lld:%02lld:%02lld%c%03lld", static_cast<long long>(ms / 3600000),
                static_cast<long long>(ms / 60000 % 60), static_cast<long long>(ms / 1000 % 60), point,
                static_cast<long long>(ms % 1000));
  return text;
}

/// A line of subtitles cannot contain the arrow between times.
std::string subtitle(std::string_view text) {
  std::string line(trimmed(text));
  for (std::size_t at = line.find("-->"); at != line.npos; at = line.find("-->", at))
    line.replace(at, 3, "->");
  return line;
}

Devices devices_of(const TranscriberParams& params) {
  return params.registry ? open_devices(*params.registry, params.devices) : open_devices(params.devices);
}

}  // namespace

std::string Transcript::text() const {
  std::string all;
  for (const TranscribedSegment& segment : segments) all += segment.text;
  return std::string(trimmed(all));
}

std::string to_srt(const Transcript& transcript) {
  std::string text;
  for (const TranscribedSegment& segment : transcript.segments)
    text += std::to_string(segment.id + 1) + "\n" + clock(segment.start, ',') + " --> " +
            clock(segment.end, ',') + "\n" + subtitle(segment.text) + "\n\n";
  return text;
}

std::string to_vtt(const Transcript& transcript) {
  std::string text = "WEBVTT\n\n";
  for (const TranscribedSegment& segment : transcript.segments)
    text += clock(segment.start, '.') + " --> " + clock(segment.end, '.') + "\n" + subtitle(segment.text) +
            "\n\n";
  return text;
}

Transcriber::Impl::Impl(const std::filesystem::path& path, const Devices& devices, int n_threads)
    : file(path),
      spectrogram(file.sizes.n_mels, file.sizes.n_frames(), devices, {.n_threads = n_threads}),
      encoder(file, devices, {.n_threads = n_threads}),
      decoder(file, devices, {.n_threads = n_threads}) {
  info = {.name = file.name,
          .n_mels = file.sizes.n_mels,
          .n_vocab = file.sizes.n_vocab,
          .n_encoder_layers = file.sizes.encoder_layers,
          .n_decoder_layers = file.sizes.decoder_layers,
          .width = file.sizes.width,
          .window_seconds = static_cast<double>(file.sizes.n_frames()) / kFramesPerSecond};
  for (const auto& [code, token] : file.vocabulary.languages) info.languages.push_back(code);
}

float Transcriber::Impl::loudest(std::span<const float> samples) {
  float most = -10.0f;
  const std::int64_t step = std::int64_t{file.sizes.n_frames()} * audio::kHop;
  for (std::int64_t at = 0; at < std::ssize(samples); at += step)
    for (const float x : spectrogram.logarithms(samples, at)) most = std::max(most, x);
  return most;
}

std::vector<float> Transcriber::Impl::mels(std::span<const float> samples, int first_frame, float loudest) {
  std::vector<float> mels = spectrogram.logarithms(samples, std::int64_t{first_frame} * audio::kHop);
  audio::Spectrogram::scale(mels, loudest);
  const auto n_frames = std::ssize(samples) / audio::kHop - first_frame;
  const auto n_heard = std::min(mels.size(), to_size(n_frames) * to_size(file.sizes.n_mels));
  std::fill(mels.begin() + static_cast<std::ptrdiff_t>(n_heard), mels.end(), 0.0f);
  return mels;
}

Transcript Transcriber::Impl::transcribe(std::span<const float> samples, const TranscribeParams& params) {
  const std::scoped_lock lock(mutex);
  return Transcription(*this, samples, params).run();
}

Transcriber::Transcriber(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Transcriber::~Transcriber() = default;

std::shared_ptr<const Transcriber> Transcriber::load(const std::filesystem::path& path,
                                                     const TranscriberParams& params) {
  return std::shared_ptr<const Transcriber>(
      new Transcriber(std::make_unique<Impl>(path, devices_of(params), params.n_threads)));
}

const TranscriberInfo& Transcriber::info() const { return impl_->info; }

void Transcriber::check(const TranscribeParams& params) const {
  const Vocabulary& vocabulary = impl_->file.vocabulary;
  if (!is_detected(params.language)) {
    const auto code = language_code(params.language);
    if (!code)
      refuse("unknown language '" + params.language.substr(0, 64) +
             "'; give a code such as 'en' or a name such as 'english'");
    if (vocabulary.languages.empty() ? *code != "en" : vocabulary.language(*code) == kNoToken)
      refuse("the model does not know the language '" + *code + "'" +
             (vocabulary.languages.empty() ? ": it is for English only" : ""));
  }
  if (params.translate && vocabulary.languages.empty())
    refuse("the model cannot translate: it is for English only");
  if (params.temperatures.empty() || params.temperatures.size() > kMaxTemperatures ||
      !std::all_of(params.temperatures.begin(), params.temperatures.end(),
                   [](float t) { return t >= 0.0f && t <= 2.0f; }))
    refuse("there must be 1 to " + std::to_string(kMaxTemperatures) + " temperatures from 0 to 2");
  if (params.max_tokens < 0)
    refuse("max_tokens is " + std::to_string(params.max_tokens) + ", expected 0 or more");
}

Transcript Transcriber::transcribe(const Audio& sound, const TranscribeParams& params) const {
  check(params);
  if (std::ssize(sound.samples) > Audio::kMaxSamples ||
      !std::all_of(sound.samples.begin(), sound.samples.end(), [](float x) { return std::isfinite(x); }))
    refuse("audio must have at most " + std::to_string(Audio::kMaxSamples) +
           " finite samples; this one has " + std::to_string(sound.samples.size()));
  return impl_->transcribe(sound.samples, params);
}

}  // namespace weft
