#pragma once
// The handle of a chat, as requests use it.
#include <vector>

#include "model.h"
#include "weft/chat.h"

struct weft_chat {
  std::shared_ptr<weft::c::LoadedModel> loaded = {};
  weft::ChatOpening opening = {};
  std::vector<weft::Token> tokens = {};
  std::vector<int> snapshot_at = {};
  std::shared_ptr<const weft::CompiledGrammar> grammar = {};  ///< May be null.
  std::vector<weft::ResponseEvent> events = {};
  std::vector<weft_chat_event> told = {};  ///< They refer to `events`.
  weft::c::OneUser user = {};
};

namespace weft::c {

/// Adds what the response of a chat needs.
void add_chat(RequestParams& params, const weft_chat& chat);

}  // namespace weft::c
