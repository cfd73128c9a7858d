#include "transcriber.h"

#include <weft/error.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

namespace whisper {
namespace {

constexpr double kNoSpeech = 0.6;      // Windows above this probability of silence ...
constexpr double kTrusted = -1.0;      // ... are skipped, unless the mean log-probability is above this.
constexpr int kFramesOfTimestamp = 2;  // Timestamps count rows of the encoder, which are two frames each.

weft::PlanParams plan_params(const TranscriberParams& params, std::string_view names,
                             const std::shared_ptr<weft::Workspaces>& workspaces) {
  weft::PlanParams result;
  result.n_threads = params.n_threads;
  result.workspaces = workspaces;
  for (const weft::Pin& pin : params.pins)
    if (std::string_view(pin.pattern).starts_with(names)) result.pins.push_back(pin);
  return result;
}

/// Those of pins; the rest is the CPU's.
weft::Devices open_devices(const TranscriberParams& params) {
  std::vector<std::string> names = {"cpu"};
  for (const weft::Pin& pin : params.pins) {
    if (!pin.pattern.starts_with("encoder") && !pin.pattern.starts_with("decoder"))
      throw weft::Error(weft::ErrorCode::kInvalidArgument,
                        "--pin " + pin.pattern + ": write encoder.=DEVICE, decoder.=DEVICE, or longer names");
    if (std::find(names.begin(), names.end(), pin.device) == names.end()) names.push_back(pin.device);
  }
  return weft::open_devices(names);
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\n\r\f\v") == std::string_view::npos;
}

}  // namespace

Transcriber::Transcriber(const std::filesystem::path& folder, const TranscriberParams& params)
    : file_(folder / "model.bin"),
      sizes_(file_),
      vocabulary_(folder, sizes_.n_vocab),
      beam_(params.beam),
      devices_(open_devices(params)),
      spectrogram_(sizes_.n_mels, devices_, plan_params(params, "spectrogram", workspaces_)),
      encoder_(file_, sizes_, params.matrices, devices_, plan_params(params, "encoder", workspaces_)),
      decoder_(file_, sizes_, params.matrices, params.beam, devices_,
               plan_params(params, "decoder", workspaces_)) {}

Tokens Transcriber::make_prompt(const std::string& language, bool to_english) const {
  Tokens prompt = {vocabulary_.start};
  if (vocabulary_.languages.empty()) {
    if (language != "en" || to_english)
      throw weft::Error(weft::ErrorCode::kInvalidArgument,
                        "the model knows English only: use -l en, or a multilingual one");
    return prompt;
  }
  const auto found = vocabulary_.languages.find(language);
  if (found == vocabulary_.languages.end())
    throw weft::Error(weft::ErrorCode::kInvalidArgument,
                      "the model does not know the language '" + language + "'; codes are en, de, fr, ...");
  prompt.push_back(found->second);
  prompt.push_back(to_english ? vocabulary_.translate : vocabulary_.transcribe);
  return prompt;
}

std::pair<std::string, double> Transcriber::find_language() {
  if (vocabulary_.languages.empty()) return {"en", 1.0};
  Tokens tokens;
  for (const auto& [code, token] : vocabulary_.languages) tokens.push_back(token);
  const std::vector<Tokens> start = {{vocabulary_.start}};
  const std::vector<float> all = probabilities(decoder_.logits(start), tokens);
  const auto best = std::max_element(all.begin(), all.end());
  return {std::next(vocabulary_.languages.begin(), best - all.begin())->first, static_cast<double>(*best)};
}

Transcript Transcriber::transcribe(std::span<const float> samples, const std::string& language,
                                   bool to_english) {
  Transcript transcript;
  transcript.language = language;
  if (!language.empty()) make_prompt(language, to_english);  // Refused before anything is computed.
  const std::vector<float> mels = spectrogram_.compute(samples);
  const auto n_frames = static_cast<int>(samples.size() / kHop);
  for (int frame = 0; frame < n_frames;) {
    const int n = std::min(kWindowFrames, n_frames - frame);
    const auto n_mels = static_cast<std::size_t>(sizes_.n_mels);
    decoder_.hear(encoder_.encode(std::span(mels).subspan(static_cast<std::size_t>(frame) * n_mels,
                                                          static_cast<std::size_t>(n) * n_mels)));
    if (transcript.language.empty())
      std::tie(transcript.language, transcript.language_probability) = find_language();
    const std::vector<Tokens> start = {{vocabulary_.start}};
    const double no_speech = static_cast<double>(probability(decoder_.logits(start), vocabulary_.no_speech));
    const Found found = search(decoder_, vocabulary_, make_prompt(transcript.language, to_english), beam_);
    if (no_speech > kNoSpeech && found.mean_log_prob <= kTrusted) {
      frame += n;
    } else {
      frame += split(found, frame, n, no_speech, transcript.segments);
    }
  }
  return transcript;
}

int Transcriber::split(const Found& found, int first_frame, int n_frames, double no_speech,
                       std::vector<Segment>& segments) const {
  const Vocabulary& v = vocabulary_;
  const std::span<const Token> tokens = found.tokens;
  const double offset = static_cast<double>(first_frame) / kFramesPerSecond;
  const auto add = [&](std::span<const Token> part, double start, double end) {
    std::string text = v.text(part);
    if (start == end || is_blank(text)) return;
    segments.push_back({offset + start,
                        offset + end,
                        std::move(text),
                        {part.begin(), part.end()},
                        found.mean_log_prob,
                        no_speech});
  };
  // A segment ends between two timestamps: the end of one, and the start of the next.
  std::vector<std::size_t> ends;
  for (std::size_t i = 1; i < tokens.size(); ++i)
    if (v.is_timestamp(tokens[i - 1]) && v.is_timestamp(tokens[i])) ends.push_back(i);
  const bool ends_alone =
      tokens.size() >= 2 && !v.is_timestamp(tokens.end()[-2]) && v.is_timestamp(tokens.back());
  if (ends.empty()) {
    double length = static_cast<double>(n_frames) / kFramesPerSecond;
    const auto last =
        std::find_if(tokens.rbegin(), tokens.rend(), [&](Token t) { return v.is_timestamp(t); });
    if (last != tokens.rend() && *last != v.first_timestamp) length = v.seconds(*last);
    add(tokens, 0.0, length);
    return n_frames;
  }
  if (ends_alone) ends.push_back(tokens.size());
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const auto part = tokens.subspan(begin, end - begin);
    add(part, v.seconds(part.front()), v.seconds(part.back()));
    begin = end;
  }
  // After a last timestamp alone nothing is said any more. Otherwise a segment has begun that the window
  // cuts: the next window begins with it.
  if (ends_alone) return n_frames;
  const int rest = (tokens[begin - 1] - v.first_timestamp) * kFramesOfTimestamp;
  return rest > 0 ? rest : n_frames;
}

Numbers Transcriber::numbers(std::span<const float> samples, const std::string& language) {
  Numbers numbers;
  numbers.mels = spectrogram_.compute(samples);
  const std::size_t n = std::min(samples.size() / kHop, static_cast<std::size_t>(kWindowFrames));
  decoder_.hear(encoder_.encode(std::span(numbers.mels).first(n * static_cast<std::size_t>(sizes_.n_mels))));
  numbers.rows = encoder_.rows();
  const Tokens prompt = make_prompt(language.empty() ? find_language().first : language, false);
  const Found found = search(decoder_, vocabulary_, prompt, 1);
  numbers.tokens = prompt;
  numbers.tokens.insert(numbers.tokens.end(), found.tokens.begin(), found.tokens.end());
  for (std::size_t i = 1; i <= numbers.tokens.size(); ++i) {
    const std::vector<Tokens> text = {
        {numbers.tokens.begin(), numbers.tokens.begin() + static_cast<std::ptrdiff_t>(i)}};
    const std::span<const float> logits = decoder_.logits(text);
    numbers.logits.insert(numbers.logits.end(), logits.begin(), logits.end());
  }
  return numbers;
}

}  // namespace whisper
