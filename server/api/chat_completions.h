#pragma once
// POST /v1/chat/completions
#include "api/job.h"

namespace weft::server {

void chat_completions(Job& job);

}  // namespace weft::server
