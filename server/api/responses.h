#pragma once
// POST /v1/responses. The server keeps no answers: conversations are sent whole.
#include "api/job.h"

namespace weft::server {

void responses(Job& job);

}  // namespace weft::server
