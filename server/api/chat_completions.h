#pragma once
// POST /v1/chat/completions
#include "api/job.h"

namespace weft::server {

void chat_completions(Job& job);
/// POST /v1/chat/completions/input_tokens: how long the prompt would be.
void count_chat_tokens(Job& job);

}  // namespace weft::server
