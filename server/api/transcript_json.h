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

/// A whole response or file. kText ends with a newline, as in responses of OpenAI's service.
std::string format_transcript(const Transcript& transcript, TranscriptFormat format, bool translated,
                              bool segments, bool words);

}  // namespace weft::server
