#pragma once
// POST /v1/responses. The server stores no responses, so clients send whole conversations.
#include "api/job.h"

namespace weft::server {

void responses(Job& job);
/// POST /v1/responses/input_tokens: how long the prompt would be.
void count_response_tokens(Job& job);

}  // namespace weft::server
