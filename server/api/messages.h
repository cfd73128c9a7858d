#pragma once
// POST /v1/messages as Anthropic's clients send it, and /v1/messages/count_tokens.
#include "api/job.h"

namespace weft::server {

void messages(Job& job);
void count_message_tokens(Job& job);

}  // namespace weft::server
