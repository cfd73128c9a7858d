#pragma once
// The format of a template that is not known, learned from what the template makes of earlier calls.
#include <optional>

#include "chat/abilities.h"
#include "chat/format.h"
#include "weft/chat_template.h"

namespace weft::chat {

/// What a template makes of answers with calls: the answers' own text.
struct WrittenCalls {
  std::string one = {};  ///< Of a call of probe_first with {"probe_key": "probe_one", "probe_n": 7}.
  /// With a second one, of probe_second with {"probe_key": "probe_two", "probe_n": 8}; empty where the
  /// template writes one call only.
  std::string two = {};
};

/// Nothing where the template does not write calls.
std::optional<WrittenCalls> write_probe_calls(const ChatTemplate& chat_template, const Abilities& abilities);

/// Whether a reader of the format finds the calls in that text.
bool reads_back(const Format& format, const WrittenCalls& written);

/// Nothing where the text is none of the styles that weft reads.
std::optional<Format> derive_format(const WrittenCalls& written);

}  // namespace weft::chat
