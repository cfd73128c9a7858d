#pragma once
// POST /v1/audio/transcriptions and /v1/audio/translations, as OpenAI documents them.
#include "api/job.h"

namespace weft::server {

/// Transcribes the job's file on this thread, which may take minutes, and sends the response. Between tokens
/// it looks whether the client is still there. Throws ApiError and Error.
void transcribe_audio(Job& job, bool translate);

}  // namespace weft::server
