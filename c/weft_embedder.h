/// @file
/// weft in C: embeddings and reranking. The rules of weft.h hold here, too.
#ifndef WEFT_EMBEDDER_H
#define WEFT_EMBEDDER_H

#include "weft_model.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Embeddings and reranking, by encoders or decoders.
typedef struct weft_embedder weft_embedder;

/// Parameters of an embedder.
typedef struct weft_embedder_params {
  size_t struct_size;
  int32_t n_tokens;                  ///< The most tokens of an input. 0: the training length, at most 8192.
  int32_t n_threads;                 ///< 0: the number of cores.
  const weft_adapter_use* adapters;  ///< For decoders.
  size_t n_adapters;
} weft_embedder_params;

/// Tokens of an input.
typedef struct weft_tokens {
  const weft_token* tokens;
  size_t n_tokens;
} weft_tokens;

/// Sets struct_size and the defaults.
WEFT_API void weft_embedder_params_init(weft_embedder_params* params, size_t struct_size);
/// Reserves the workspace.
WEFT_API weft_embedder* weft_embedder_create(const weft_model* model, const weft_embedder_params* params,
                                             weft_error** error);
/// Frees it.
WEFT_API void weft_embedder_free(weft_embedder* embedder);
/// The number of floats of a vector.
WEFT_API int32_t weft_embedder_dimensions(const weft_embedder* embedder);
/// The most tokens of an input.
WEFT_API int32_t weft_embedder_max_tokens(const weft_embedder* embedder);
/// One vector per string, one after another. `vectors` has room for n_floats = n_texts *
/// weft_embedder_dimensions floats. With `normalise` they have length 1. Longer inputs are truncated.
/// WEFT_INVALID_ARGUMENT for WEFT_POOLING_NONE, also if the file names no pooling.
WEFT_API weft_status weft_embedder_embed(weft_embedder* embedder, const char* const* texts, size_t n_texts,
                                         weft_pooling pooling, bool normalise, float* vectors,
                                         size_t n_floats, weft_error** error);
/// The same for tokens. Longer inputs are refused.
WEFT_API weft_status weft_embedder_embed_tokens(weft_embedder* embedder, const weft_tokens* texts,
                                                size_t n_texts, weft_pooling pooling, bool normalise,
                                                float* vectors, size_t n_floats, weft_error** error);
/// The relevance of each document to a query, from 0 to 1, in the order of the documents. WEFT_UNSUPPORTED
/// for a model that is not a reranker.
WEFT_API weft_status weft_embedder_rank(weft_embedder* embedder, const char* query,
                                        const char* const* documents, size_t n_documents, float* scores,
                                        weft_error** error);

#ifdef __cplusplus
}
#endif

#endif
