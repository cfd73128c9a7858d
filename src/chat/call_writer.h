#pragma once
// Calls as a format writes them: for templates that do not write them themselves.
#include <string>
#include <vector>

#include "chat/format.h"
#include "chat/messages.h"

namespace weft::chat {

std::string write_calls(const CallFormat& format, const std::vector<HistoryCall>& calls);

}  // namespace weft::chat
