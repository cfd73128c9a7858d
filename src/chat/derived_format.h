#pragma once
// Learns the format of an unknown template from the calls that the template renders.
#include <optional>

#include "chat/abilities.h"
#include "chat/format.h"
#include "weft/chat_template.h"

namespace weft::chat {

/// Assistant messages with calls as a template writes them, without the turn's header and end.
struct WrittenCalls {
  std::string one = {};  ///< A call of probe_first with {"probe_key": "probe_one", "probe_n": 7}.
  /// The same, followed by a call of probe_second with {"probe_key": "probe_two", "probe_n": 8}. Empty where
  /// the template writes one call only.
  std::string two = {};
};

/// Nothing where the template does not write calls.
std::optional<WrittenCalls> write_probe_calls(const ChatTemplate& chat_template, const Abilities& abilities);

/// Whether a reader of the format finds the calls in `written`.
bool reads_back(const Format& format, const WrittenCalls& written);

/// Returns nullopt if the calls have none of the styles that weft reads.
std::optional<Format> derive_format(const WrittenCalls& written);

}  // namespace weft::chat
