#pragma once
// Ollama's API. Streams are lines of JSON, times are nanoseconds, and options of the sampler are in an object
// of their own. Requests become turns and parameters of the chat APIs.
#include "api/job.h"

namespace weft::server {

// POST, with a model. A request without a prompt only loads the model.
void ollama_chat(Job& job);
void ollama_generate(Job& job);
void ollama_embed(Job& job);
void ollama_embeddings(Job& job);

/// Handles requests that only unload a model: no prompt, and "keep_alive": 0. False: it is another request.
bool unload_by_request(Job& job);

// The served models. Models are never loaded for these.
void ollama_tags(Job& job);
void ollama_ps(Job& job);
void ollama_show(Job& job);

/// Succeeds for a served model. Other models are refused: the server downloads nothing.
void ollama_pull(Job& job);
// Refused: the server changes no files.
void ollama_copy(Job& job);
void ollama_create(Job& job);
void ollama_push(Job& job);
void ollama_delete(Job& job);

}  // namespace weft::server
