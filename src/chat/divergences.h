#pragma once
// Where the prompts of later turns diverge from this turn's prompt.
#include <functional>
#include <string>
#include <vector>

#include "chat/messages.h"

namespace weft::chat {

/// ChatOpening::divergences of a prompt that was rendered from `messages`, with a generation prompt.
/// `render(messages)` returns the prompt of other messages; it may throw Error if the template rejects them.
std::vector<std::size_t> find_divergences(
    const std::string& prompt, const std::vector<Message>& messages,
    const std::function<std::string(const std::vector<Message>& messages)>& render);

}  // namespace weft::chat
