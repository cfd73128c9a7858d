/// @file
/// weft in C: contexts, batches and saved states. The rules of weft.h hold here, too.
#ifndef WEFT_CONTEXT_H
#define WEFT_CONTEXT_H

#include "weft_model.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The KV cache of many sequences, and the computation of batches of their tokens. A cell holds one token's
/// keys and values in all layers. A step computes at most n_ubatch tokens; a larger batch takes several
/// steps.
typedef struct weft_context weft_context;
/// A sequence of a context, from 0.
typedef int32_t weft_seq;
/// A position of a token in its sequence, from 0.
typedef int32_t weft_pos;
/// The position after the sequence's last one.
#define WEFT_NEXT_POS (-1)
/// All sequences of a context.
#define WEFT_ALL_SEQUENCES (-1)

/// Parameters of a context.
typedef struct weft_context_params {
  size_t struct_size;
  int32_t n_ctx;  ///< Cells of the cache, shared by all sequences. 0: the training length, at most 8192.
  int32_t n_sequences;  ///< The most sequences at the same time.
  int32_t n_ubatch;     ///< The most tokens of a step.
  int32_t n_outputs;    ///< The most rows of logits of a step. 0: max(64, n_sequences).
  int32_t n_threads;    ///< 0: the number of cores.
  /// The largest n of weft_batch_set_n_best. 0: none. -1: 64 if all devices are CPUs, otherwise 0.
  int32_t n_best;
  weft_cache_type k_type;
  weft_cache_type v_type;
  const weft_adapter_use* adapters;  ///< Default adapters of sequences; NULL: none.
  size_t n_adapters;
  /// With sliding-window layers: how many last tokens of a sequence can be removed again. -1: any number.
  int32_t window_rewind;
  /// A context whose memory for temporaries the new one shares, as a draft model's context and the main
  /// model's can. The two are made and used in turns, never by two threads at once. NULL: none.
  const weft_context* shares_with;
  /// For an encoder-decoder model: the most tokens of an encoder input. 0: the training length, at most 512.
  int32_t n_source;
  /// Quantised caches keep keys and values rotated (Hadamard), which lowers the quantisation error.
  bool rotate_cache;
  /// With recurrent layers: how many last items with logits, of all sequences together, can be removed again.
  /// Each takes the memory of a running state. Drafts of a batcher need one for each completion, and one more
  /// for each token. 0: none.
  int64_t state_rewind;
} weft_context_params;

/// Sets struct_size and the defaults.
WEFT_API void weft_context_params_init(weft_context_params* params, size_t struct_size);
/// Makes a context: reserves its cache and the memory for temporaries of steps.
WEFT_API weft_context* weft_context_create(const weft_model* model, const weft_context_params* params,
                                           weft_error** error);
/// Frees the handle.
WEFT_API void weft_context_free(weft_context* context);

/// Tokens to compute, of any sequences in any order. Each is an item. weft_batch_clear empties it for another
/// use.
typedef struct weft_batch weft_batch;

/// Makes an empty batch.
WEFT_API weft_batch* weft_batch_create(weft_error** error);
/// Frees it.
WEFT_API void weft_batch_free(weft_batch* batch);
/// Empties it.
WEFT_API void weft_batch_clear(weft_batch* batch);
/// The number of items. Items are numbered from 0 in the order in which they were added.
WEFT_API int32_t weft_batch_size(const weft_batch* batch);
/// Adds a token of a sequence, at a position or at WEFT_NEXT_POS. weft_context_decode checks token, sequence
/// and position.
WEFT_API weft_status weft_batch_add(weft_batch* batch, weft_token token, weft_seq seq, weft_pos pos,
                                    bool logits, weft_error** error);
/// Adds consecutive tokens. With logits_at_end, requests the logits of the last one.
WEFT_API weft_status weft_batch_add_tokens(weft_batch* batch, const weft_token* tokens, size_t n_tokens,
                                           weft_seq seq, bool logits_at_end, weft_error** error);
/// Adds a token that several sequences share. It is computed once.
WEFT_API weft_status weft_batch_add_shared(weft_batch* batch, weft_token token, const weft_seq* seqs,
                                           size_t n_seqs, weft_pos pos, bool logits, weft_error** error);
/// Adds an embedding instead of a token: weft_model_info::n_embd_input floats, the input of the first layer.
WEFT_API weft_status weft_batch_add_embedding(weft_batch* batch, const float* embedding, size_t n,
                                              weft_seq seq, weft_pos pos, bool logits, weft_error** error);
/// Requests the n best tokens of an item instead of all its logits (weft_context_best). The item must request
/// logits.
WEFT_API weft_status weft_batch_set_n_best(weft_batch* batch, int32_t item, int32_t n, weft_error** error);
/// Requests the log-sum-exp of an item, too (weft_context_log_sum_exp), and the logit of `token` unless that
/// is WEFT_NO_TOKEN (weft_context_logit). The item must request logits.
WEFT_API weft_status weft_batch_set_log_sum_exp(weft_batch* batch, int32_t item, weft_token token,
                                                weft_error** error);
/// Requests the embedding of an item (weft_context_embedding).
WEFT_API weft_status weft_batch_set_embedding(weft_batch* batch, int32_t item, weft_error** error);
/// The item attends to all positions of its sequence below `end`, later ones included.
WEFT_API weft_status weft_batch_set_attend_to(weft_batch* batch, int32_t item, weft_pos end,
                                              weft_error** error);
/// Sets an item's positions in time, image row and image column, for models with M-RoPE. By default all three
/// are the item's own position.
WEFT_API weft_status weft_batch_set_axes(weft_batch* batch, int32_t item, const weft_pos positions[3],
                                         weft_error** error);
/// The item does not attend to `other`, an item of the same sequence.
WEFT_API weft_status weft_batch_hide(weft_batch* batch, int32_t item, int32_t other, weft_error** error);

/// Computes a batch. After WEFT_CACHE_FULL, WEFT_CANCELLED and WEFT_INVALID_ARGUMENT (wrong tokens, sequences
/// or positions) all sequences are as before. The same holds after WEFT_DEVICE and WEFT_OUT_OF_MEMORY, but
/// some sequences may be damaged (weft_context_intact). The call may then be repeated.
WEFT_API weft_status weft_context_decode(weft_context* context, const weft_batch* batch, weft_error** error);
/// Makes the running weft_context_decode or weft_generate end soon with WEFT_CANCELLED or
/// WEFT_STOP_CANCELLED. If none is running, it ends the next one. Any thread or signal handler may call it.
WEFT_API void weft_context_cancel(weft_context* context);

/// A token and its logit.
typedef struct weft_best {
  weft_token token;
  float logit;
} weft_best;

/// The n_vocab logits of an item of the last batch, which must have requested them. Sets `n` to n_vocab if
/// `n` is not NULL. Valid until the next weft_context_decode.
WEFT_API const float* weft_context_logits(const weft_context* context, int32_t item, size_t* n,
                                          weft_error** error);
/// The best tokens of an item, best first. Valid until the next call of this or weft_context_decode.
WEFT_API const weft_best* weft_context_best(weft_context* context, int32_t item, size_t* n,
                                            weft_error** error);
/// The log-sum-exp of an item: log(sum(e^logit)). A token's log-probability is its logit minus this.
WEFT_API weft_status weft_context_log_sum_exp(const weft_context* context, int32_t item, float* result,
                                              weft_error** error);
/// The logit of the token given to weft_batch_set_log_sum_exp.
WEFT_API weft_status weft_context_logit(const weft_context* context, int32_t item, float* result,
                                        weft_error** error);
/// The last hidden state of an item: n_embd numbers. Valid until the next weft_context_decode.
WEFT_API const float* weft_context_embedding(const weft_context* context, int32_t item, size_t* n,
                                             weft_error** error);

// Operations on sequences. Ranges of positions are [begin, end); end < 0: to the end. If the cache lacks
// cells, they return WEFT_CACHE_FULL and change nothing. Models with recurrent layers remove and copy whole
// sequences only, otherwise WEFT_UNSUPPORTED.

/// Removes a range of a sequence.
WEFT_API weft_status weft_context_remove(weft_context* context, weft_seq seq, weft_pos begin, weft_pos end,
                                         weft_error** error);
/// Replaces a range of `to` by the same range of `from`. Both share the cells.
WEFT_API weft_status weft_context_copy(weft_context* context, weft_seq from, weft_seq to, weft_pos begin,
                                       weft_pos end, weft_error** error);
/// Removes all other sequences.
WEFT_API weft_status weft_context_keep(weft_context* context, weft_seq seq, weft_error** error);
/// Adds delta to the positions in the range. They must stay in order with those outside it.
WEFT_API weft_status weft_context_shift(weft_context* context, weft_seq seq, weft_pos begin, weft_pos end,
                                        weft_pos delta, weft_error** error);
/// Divides the positions in the range, rounding down (self-extend).
WEFT_API weft_status weft_context_divide(weft_context* context, weft_seq seq, weft_pos begin, weft_pos end,
                                         int32_t divisor, weft_error** error);
/// Removes all sequences.
WEFT_API weft_status weft_context_clear(weft_context* context, weft_error** error);
/// Sets the LoRA adapters of an empty sequence. For an encoder-decoder model set them before the encoder
/// input, which is encoded with them.
WEFT_API weft_status weft_context_set_adapters(weft_context* context, weft_seq seq,
                                               const weft_adapter_use* adapters, size_t n_adapters,
                                               weft_error** error);
/// The position of a sequence's next token; 0 for an empty one.
WEFT_API weft_status weft_context_next_pos(const weft_context* context, weft_seq seq, weft_pos* pos,
                                           weft_error** error);
/// The first position that a sequence holds; -1 for an empty one.
WEFT_API weft_status weft_context_min_pos(const weft_context* context, weft_seq seq, weft_pos* pos,
                                          weft_error** error);
/// Whether the positions from `pos` on can be removed, so that the sequence can continue at `pos`.
WEFT_API weft_status weft_context_can_cut(const weft_context* context, weft_seq seq, weft_pos pos, bool* can,
                                          weft_error** error);
/// Sets `intact` to false if the sequence's cells are undefined, because a step that had to move them failed.
/// Remove the sequence then, and compute its tokens again.
WEFT_API weft_status weft_context_intact(const weft_context* context, weft_seq seq, bool* intact,
                                         weft_error** error);

/// A context's sizes and use.
typedef struct weft_context_info {
  size_t struct_size;
  int32_t n_ctx;
  int32_t n_sequences;
  int32_t n_ubatch;
  int32_t batch_size;  ///< The number of tokens per batch that computes a long prompt fastest.
  int32_t cells_used;
  int32_t cells_total;
  int64_t cache_bytes;  ///< Bytes of the cache pages that have held tokens so far.
  bool can_shift;       ///< Whether the model supports weft_context_shift and weft_context_divide.
} weft_context_info;

/// Its current state.
WEFT_API weft_status weft_context_get_info(const weft_context* context, weft_context_info* info,
                                           weft_error** error);

// Saved states of one sequence, or of all (WEFT_ALL_SEQUENCES). They can be restored into any context of the
// same model with the same cache types. They are checked in full before anything changes.

/// Saves a state as bytes.
WEFT_API weft_status weft_context_save(const weft_context* context, weft_seq seq, void** state,
                                       size_t* n_bytes, weft_error** error);
/// Replaces `seq` by the saved sequence, or all sequences by a saved context.
WEFT_API weft_status weft_context_restore(weft_context* context, weft_seq seq, const void* state,
                                          size_t n_bytes, weft_error** error);
/// The same to a file, which is written atomically.
WEFT_API weft_status weft_context_save_file(const weft_context* context, weft_seq seq, const char* path,
                                            weft_error** error);
/// The same from a file.
WEFT_API weft_status weft_context_restore_file(weft_context* context, weft_seq seq, const char* path,
                                               weft_error** error);

// Old names.

WEFT_DEPRECATED("use weft_batch_set_n_best")
WEFT_API weft_status weft_batch_only_best(weft_batch* batch, int32_t item, int32_t n, weft_error** error);
WEFT_DEPRECATED("use weft_batch_set_log_sum_exp")
WEFT_API weft_status weft_batch_want_log_sum_exp(weft_batch* batch, int32_t item, weft_token token,
                                                 weft_error** error);
WEFT_DEPRECATED("use weft_batch_set_embedding")
WEFT_API weft_status weft_batch_want_embedding(weft_batch* batch, int32_t item, weft_error** error);
WEFT_DEPRECATED("use weft_batch_set_attend_to")
WEFT_API weft_status weft_batch_see_to(weft_batch* batch, int32_t item, weft_pos end, weft_error** error);
WEFT_DEPRECATED("use weft_batch_set_axes")
WEFT_API weft_status weft_batch_stand_at(weft_batch* batch, int32_t item, const weft_pos positions[3],
                                         weft_error** error);

#ifdef __cplusplus
}
#endif

#endif
