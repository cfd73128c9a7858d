#pragma once
// Transcripts in the formats of OpenAI's API; `weft transcribe` writes the same ones.
#include <optional>
#include <string>
#include <string_view>

#include "json.h"
#include "weft/transcriber.h"

namespace weft::server {

enum class TranscriptFormat : std::uint8_t { kJson, kText, kSrt, kVerboseJson, kVtt };

/// The object of "verbose_json". `segments` and `words` select the lists that it has.
Json verbose_json(const Transcript& transcript, bool translated, bool segments, bool words);

/// The text of a whole response or file. Text has a newline at its end, as OpenAI's service sends it.
std::string format_transcript(const Transcript& transcript, TranscriptFormat format, bool translated,
                              bool segments, bool words);

}  // namespace weft::server
