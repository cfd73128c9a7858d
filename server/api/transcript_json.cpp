#include "api/transcript_json.h"

#include <cmath>

namespace weft::server {
namespace {

/// Times have 10 ms, or 20 ms; doubles would show digits that mean nothing.
double rounded(double seconds) { return std::round(seconds * 1000.0) / 1000.0; }

Json segment_json(const TranscribedSegment& segment) {
  return {{"id", segment.id},
          {"seek", segment.seek},
          {"start", rounded(segment.start)},
          {"end", rounded(segment.end)},
          {"text", segment.text},
          {"tokens", segment.tokens},
          {"temperature", rounded(static_cast<double>(segment.temperature))},
          {"avg_logprob", segment.mean_log_prob},
          {"compression_ratio", segment.compression_ratio},
          {"no_speech_prob", segment.no_speech_prob}};
}

Json duration_json(const Transcript& transcript) {
  return {{"type", "duration"}, {"seconds", static_cast<std::int64_t>(std::ceil(transcript.duration))}};
}

}  // namespace

Json verbose_json(const Transcript& transcript, bool translated, bool segments, bool words) {
  Json json = {{"task", translated ? "translate" : "transcribe"},
               {"language", language_name(transcript.language)},
               {"duration", rounded(transcript.duration)},
               {"text", transcript.text()}};
  Json word_list = Json::array(), segment_list = Json::array();
  for (const TranscribedSegment& segment : transcript.segments) {
    segment_list.push_back(segment_json(segment));
    for (const TranscribedWord& word : segment.words) {
      const std::size_t begin = word.text.find_first_not_of(' ');
      word_list.push_back({{"word", begin == std::string::npos ? std::string() : word.text.substr(begin)},
                           {"start", rounded(word.start)},
                           {"end", rounded(word.end)},
                           {"probability", word.probability}});
    }
  }
  if (words) json["words"] = std::move(word_list);
  if (segments) json["segments"] = std::move(segment_list);
  json["usage"] = duration_json(transcript);
  return json;
}

std::string format_transcript(const Transcript& transcript, TranscriptFormat format, bool translated,
                              bool segments, bool words) {
  switch (format) {
    case TranscriptFormat::kText:
      return transcript.text() + "\n";
    case TranscriptFormat::kSrt:
      return to_srt(transcript);
    case TranscriptFormat::kVtt:
      return to_vtt(transcript);
    case TranscriptFormat::kVerboseJson:
      return to_text(verbose_json(transcript, translated, segments, words));
    case TranscriptFormat::kJson:
      break;
  }
  return to_text({{"text", transcript.text()}, {"usage", duration_json(transcript)}});
}

}  // namespace weft::server
