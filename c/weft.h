/// @file
/// weft in C: models, tokenizers, contexts, samplers, batchers, services and embedders. weft_media.h has
/// images and audio, weft_graph.h has graphs.
///
/// These rules hold for all functions. Each function documents the rest.
///
/// Handles. A type weft_... without members is a handle. A function that makes one returns it, or NULL on
/// failure. Free it with its own weft_..._free, which ignores NULL. A handle keeps the objects alive from
/// which it was made, so handles may be freed in any order. A callback must not free the handle that calls
/// it.
///
/// Errors. A function that can fail returns a weft_status, or a pointer that is NULL on failure. Its last
/// parameter is a weft_error**, which may be NULL. If it is not, each call sets it: to NULL on success, or to
/// an error that the caller frees (weft_error_free). NULL for a handle or another required argument is
/// WEFT_INVALID_ARGUMENT. A failed call does not write to its results. Functions without a weft_error**
/// cannot fail: for NULL they return 0, false or NULL.
///
/// Memory. The caller owns a result that is returned through a pointer to a non-const pointer (char** text),
/// and frees it with weft_free. A pointer to const belongs to a handle; each function documents how long it
/// is valid. Arguments are copied, unless documented otherwise. Paths and names are UTF-8 and end with a zero
/// byte. Returned strings end with one, too, which lengths do not count.
///
/// Structs. A struct that begins with struct_size may get more members at its end in later versions. For
/// parameters, weft_..._params_init(&params, sizeof params) sets struct_size and the defaults; NULL instead
/// of parameters means the defaults. For a struct that a function fills, the caller sets struct_size to its
/// sizeof before. So a compiled program works with a later library. With an earlier library, members that it
/// lacks must be 0; otherwise the call fails. Other structs never change.
///
/// Threads. One thread at a time uses a handle, unless documented otherwise. If two threads compute with one
/// handle, the second gets an error. Different handles may be used at the same time, even with the same
/// model. After fork(), the child may use models that were loaded for the CPU, and make its own handles of
/// them. It must not use or free the parent's contexts, nor handles made of these, because their threads
/// exist in the parent only.
///
/// No exception leaves the library, and none may leave a callback.
#ifndef WEFT_H
#define WEFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Marks the functions that the library exports.
#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// The version of the binary interface, also in the library's name, libweft_c.so.1. It changes when programs
/// must be compiled again.
#define WEFT_ABI_VERSION 1

/// The library's WEFT_ABI_VERSION.
WEFT_API int32_t weft_abi_version(void);
/// The library's version, "0.1.0".
WEFT_API const char* weft_version(void);
/// Frees memory that a function returned to the caller. Does nothing for NULL.
WEFT_API void weft_free(void* memory);

// ---------------------------------------------------------------------------------------------------------
// Errors

/// The status of a call. Later versions may have more.
typedef int32_t weft_status;
enum {
  WEFT_OK = 0,
  WEFT_INVALID_ARGUMENT = 1,  ///< A wrong argument.
  WEFT_INVALID_FILE = 2,      ///< A file's content is damaged or contradicts itself.
  WEFT_UNSUPPORTED = 3,       ///< Valid, but this version of weft cannot do it.
  WEFT_NOT_FOUND = 4,         ///< A file, device or name does not exist.
  WEFT_IO = 5,                ///< Reading or writing failed.
  WEFT_OUT_OF_MEMORY = 6,     ///< Memory of the host or of a device is exhausted.
  WEFT_DEVICE = 7,            ///< A device failed.
  WEFT_CANCELLED = 8,         ///< The caller asked to stop.
  WEFT_OVERLOADED = 9,        ///< The queue is full: try again later.
  WEFT_UNAVAILABLE = 10,      ///< The service is shutting down, or waits for lost devices.
  WEFT_CACHE_FULL = 11,       ///< A context has no room: nothing changed. Remove sequences, then try again.
  WEFT_INTERNAL = 12          ///< A bug of weft, or of a callback.
};

/// The error of a failed call.
typedef struct weft_error weft_error;

/// The status that the call returned; WEFT_OK for NULL.
WEFT_API weft_status weft_error_status(const weft_error* error);
/// The message: the expected and the actual value, and what to do. Valid as long as the error. "" for NULL.
WEFT_API const char* weft_error_message(const weft_error* error);
/// With WEFT_OVERLOADED: milliseconds until there may be room. Otherwise 0.
WEFT_API double weft_error_retry_after_ms(const weft_error* error);
/// Frees an error.
WEFT_API void weft_error_free(weft_error* error);
/// "ok", "invalid_argument", ...; "unknown" for other numbers. Valid indefinitely.
WEFT_API const char* weft_status_name(weft_status status);

// ---------------------------------------------------------------------------------------------------------
// Devices

/// The devices at the time when the list was made.
typedef struct weft_device_list weft_device_list;

/// A device.
typedef struct weft_device_info {
  size_t struct_size;
  const char* name;  ///< Name for parameters: "cpu", "vulkan0". Valid as long as the list, as are the others.
  const char* backend;
  const char* description;
  uint64_t memory_total;  ///< Bytes.
  uint64_t memory_free;
} weft_device_info;

/// Lists the CPU and the devices of all backend modules in the subfolder `weft` of the library's folder.
WEFT_API weft_device_list* weft_device_list_create(weft_error** error);
/// Frees a list.
WEFT_API void weft_device_list_free(weft_device_list* devices);
/// The number of devices. Any thread.
WEFT_API size_t weft_device_list_size(const weft_device_list* devices);
/// The device at an index, from 0. Any thread.
WEFT_API weft_status weft_device_list_get(const weft_device_list* devices, size_t place,
                                          weft_device_info* info, weft_error** error);

// ---------------------------------------------------------------------------------------------------------
// Models

/// A loaded model: weights, a tokenizer and a chat template. Immutable: any number of threads may use one.
typedef struct weft_model weft_model;

/// A token: its index in a model's vocabulary.
typedef int32_t weft_token;
/// No token.
#define WEFT_NO_TOKEN (-1)

/// A LoRA adapter to load with a model.
typedef struct weft_adapter_file {
  const char* path;
  const char* name;  ///< NULL: the file's own.
} weft_adapter_file;

/// An adapter of a sequence, and its scale.
typedef struct weft_adapter_use {
  int32_t adapter;  ///< Its index in weft_model_params::adapters.
  float scale;      ///< 1: as trained.
} weft_adapter_use;

/// A control vector, which is added to the outputs of layers for all sequences.
typedef struct weft_control_vector {
  const char* path;
  double scale;
} weft_control_vector;

/// A placement rule: weights, states and nodes whose names contain a match of the pattern (PCRE2) are placed
/// on the device.
typedef struct weft_pin {
  const char* pattern;
  const char* device;
} weft_pin;

/// The loading thread calls it with 0 to 1 while weights load. Returning false cancels (WEFT_CANCELLED).
typedef bool (*weft_progress_callback)(float done, void* user_data);

/// Parameters for loading a model.
typedef struct weft_model_params {
  size_t struct_size;
  int32_t n_threads;           ///< CPU threads for loading. 0: the number of cores.
  int32_t n_gpu_layers;        ///< Layers on GPUs, counted from the last. -1: all that fit.
  const char* const* devices;  ///< Names of devices. NULL: all GPUs. The CPU takes the remaining layers.
  size_t n_devices;
  const float* shares;  ///< Each device's share of the layers. NULL: by free memory.
  size_t n_shares;
  const weft_pin* pins;
  size_t n_pins;
  const weft_adapter_file* adapters;
  size_t n_adapters;
  const weft_control_vector* control_vectors;
  size_t n_control_vectors;
  int32_t first_control_layer;  ///< The first and last layer that they change. -1: all.
  int32_t last_control_layer;
  int32_t n_cpu_moe;                ///< Experts of the first n_cpu_moe layers are placed on the CPU.
  int32_t n_ctx;                    ///< Cells of the expected context, for `fit`. 0: a context's default.
  int32_t n_sequences;              ///< Sequences of the expected context.
  int32_t n_ubatch;                 ///< n_ubatch of the expected context.
  const char* pack_cache;           ///< A folder that caches packed weights for the next start. NULL: none.
  const char* pre_tokenizer;        ///< Replaces the file's pre-tokenizer; NULL: the file's.
  weft_progress_callback progress;  ///< NULL: none.
  void* progress_data;              ///< Given to it.
  bool split_rows;      ///< Tensor parallelism: devices share each layer, by heads and rows of matrices.
  bool experts_on_cpu;  ///< All experts (MoE) are placed on the CPU.
  bool fit;             ///< Refuse a model that exceeds a device's free memory.
  /// Pack weights for the kernels. false: use them in the mapped file, which makes steps slower.
  bool repack;
  const char* chat_template;  ///< Replaces the file's chat template (Jinja); NULL: the file's.
} weft_model_params;

/// Properties of a model.
typedef struct weft_model_info {
  size_t struct_size;
  const char* name;  ///< Valid as long as the model, as are the others.
  const char* architecture;
  const char* quantisation;
  int64_t n_parameters;
  int64_t file_bytes;
  int64_t weight_bytes;  ///< Bytes in memory.
  int32_t n_vocab;
  int32_t n_ctx_train;
  int32_t n_embd;
  int32_t n_embd_input;  ///< Size of an embedding (weft_batch_add_embedding).
  int32_t n_layers;
  int32_t n_heads;
  int32_t n_kv_heads;
  int32_t window;  ///< The sliding window in tokens. 0: no layer has one.
  bool recurrent;  ///< Sequences are removed and copied as a whole only.
  bool encoder;    ///< It is an encoder (BERT): for a weft_embedder, not for a context.
  bool ranks;      ///< A reranker (weft_embedder_rank).
  bool has_chat_template;
} weft_model_info;

/// Sets struct_size and the defaults.
WEFT_API void weft_model_params_init(weft_model_params* params, size_t struct_size);
/// Loads a GGUF file, or a split set by the path of any of its files.
WEFT_API weft_model* weft_model_load(const char* path, const weft_model_params* params, weft_error** error);
/// Frees the handle. The weights are freed with the last handle that uses them.
WEFT_API void weft_model_free(weft_model* model);
/// Its properties.
WEFT_API weft_status weft_model_get_info(const weft_model* model, weft_model_info* info, weft_error** error);
/// The number of adapters that were loaded with it.
WEFT_API size_t weft_model_n_adapters(const weft_model* model);
/// The name of an adapter; NULL where there is none. Valid as long as the model.
WEFT_API const char* weft_model_adapter_name(const weft_model* model, size_t place);
/// The chat template (Jinja). NULL where the file has none and the model is not an encoder-decoder. Valid as
/// long as the model.
WEFT_API const char* weft_model_chat_template(const weft_model* model);
/// The number of notes. A note says in a sentence how weft reads an unusual key of the file.
WEFT_API size_t weft_model_n_notes(const weft_model* model);
/// A note; NULL where there is none. Valid as long as the model.
WEFT_API const char* weft_model_note(const weft_model* model, size_t place);

/// A GGUF file's metadata and tensors, without loading it. Any number of threads may read it.
typedef struct weft_file weft_file;

/// A tensor of a file.
typedef struct weft_file_tensor {
  size_t struct_size;
  const char* name;  ///< Valid as long as the file, as is the type.
  const char* type;  ///< "f16", "q4_K"
  int64_t shape[4];  ///< Outermost first.
  int32_t rank;
  uint64_t bytes;
} weft_file_tensor;

/// Reads a file's description.
WEFT_API weft_file* weft_file_open(const char* path, weft_error** error);
/// Frees it.
WEFT_API void weft_file_free(weft_file* file);
/// The number of keys.
WEFT_API size_t weft_file_n_keys(const weft_file* file);
/// The key at an index, from 0; NULL where there is none. Valid as long as the file.
WEFT_API const char* weft_file_key(const weft_file* file, size_t place);
/// A key's whole value as a string, arrays as "[1, 2]"; NULL for an unknown key. Valid as long as the file.
WEFT_API const char* weft_file_value(const weft_file* file, const char* key);
/// The number of tensors.
WEFT_API size_t weft_file_n_tensors(const weft_file* file);
/// The tensor at an index, from 0.
WEFT_API weft_status weft_file_get_tensor(const weft_file* file, size_t place, weft_file_tensor* tensor,
                                          weft_error** error);

// ---------------------------------------------------------------------------------------------------------
// Tokenizers

/// A tokenizer. Immutable: any number of threads may use one.
typedef struct weft_tokenizer weft_tokenizer;

enum {
  WEFT_ADD_SPECIAL = 1,   ///< Add the tokens that the model wants around its input (BOS, EOS, CLS, SEP).
  WEFT_PARSE_SPECIAL = 2  ///< Recognise control tokens in the input. Unsafe for users' input.
};

/// A model's tokenizer.
WEFT_API weft_tokenizer* weft_model_tokenizer(const weft_model* model, weft_error** error);
/// The tokenizer alone, from a GGUF file, which may have no tensors.
WEFT_API weft_tokenizer* weft_tokenizer_load(const char* path, weft_error** error);
/// Frees it.
WEFT_API void weft_tokenizer_free(weft_tokenizer* tokenizer);
/// The tokens of a string of n_bytes. `flags` is the sum of WEFT_ADD_SPECIAL and WEFT_PARSE_SPECIAL.
WEFT_API weft_status weft_tokenizer_encode(const weft_tokenizer* tokenizer, const char* text, size_t n_bytes,
                                           uint32_t flags, weft_token** tokens, size_t* n_tokens,
                                           weft_error** error);
/// The string of tokens, with control tokens only if `special`. n_bytes may be NULL, here and below.
WEFT_API weft_status weft_tokenizer_decode(const weft_tokenizer* tokenizer, const weft_token* tokens,
                                           size_t n_tokens, bool special, char** text, size_t* n_bytes,
                                           weft_error** error);
/// The bytes of a token in the middle of a string. They may be a part of a character.
WEFT_API weft_status weft_tokenizer_piece(const weft_tokenizer* tokenizer, weft_token token, bool special,
                                          char** bytes, size_t* n_bytes, weft_error** error);
/// The number of tokens.
WEFT_API int32_t weft_tokenizer_n_vocab(const weft_tokenizer* tokenizer);
/// The BOS token, or WEFT_NO_TOKEN.
WEFT_API weft_token weft_tokenizer_bos(const weft_tokenizer* tokenizer);
/// The EOS token, or WEFT_NO_TOKEN.
WEFT_API weft_token weft_tokenizer_eos(const weft_tokenizer* tokenizer);
/// Whether it ends a generation (EOS, end of turn, end of message).
WEFT_API bool weft_tokenizer_is_end(const weft_tokenizer* tokenizer, weft_token token);
/// The token with this string in the vocabulary, or WEFT_NO_TOKEN.
WEFT_API weft_token weft_tokenizer_find(const weft_tokenizer* tokenizer, const char* text);

/// Turns a stream of tokens into characters. Bytes are held back until they form complete characters.
typedef struct weft_detokenizer weft_detokenizer;

/// For one stream of tokens. Includes control tokens only if `special`.
WEFT_API weft_detokenizer* weft_detokenizer_create(const weft_tokenizer* tokenizer, bool special,
                                                   weft_error** error);
/// Frees it.
WEFT_API void weft_detokenizer_free(weft_detokenizer* detokenizer);
/// The characters that are complete after this token, valid until the next call; may be empty.
WEFT_API const char* weft_detokenizer_push(weft_detokenizer* detokenizer, weft_token token, size_t* n_bytes,
                                           weft_error** error);
/// Ends the stream: returns the bytes that are still held back, as U+FFFD. Valid until the next call, which
/// begins a new stream.
WEFT_API const char* weft_detokenizer_finish(weft_detokenizer* detokenizer, size_t* n_bytes,
                                             weft_error** error);

/// A message of a conversation.
typedef struct weft_chat_message {
  const char* role;  ///< "system", "user", "assistant", "tool"
  const char* content;
} weft_chat_message;

/// A conversation and the options for its prompt.
typedef struct weft_chat_params {
  size_t struct_size;
  /// A JSON array of messages as in OpenAI's API, instead of the array `messages`. NULL: none.
  const char* messages_json;
  const char* tools_json;      ///< A JSON array of tools as OpenAI's API has them; NULL: none.
  const char* variables_json;  ///< A JSON object of further variables for the template; NULL: none.
  bool add_generation_prompt;  ///< End with the header of the assistant's turn.
} weft_chat_params;

/// Sets struct_size and the defaults.
WEFT_API void weft_chat_params_init(weft_chat_params* params, size_t struct_size);
/// Renders a conversation with the model's chat template, as a string, as tokens or both. Pass NULL for
/// results that are not wanted. Special tokens are recognised where the template itself writes them, never in
/// messages. WEFT_UNSUPPORTED if the model has no template.
WEFT_API weft_status weft_model_apply_chat_template(const weft_model* model,
                                                    const weft_chat_message* messages, size_t n_messages,
                                                    const weft_chat_params* params, char** text,
                                                    weft_token** tokens, size_t* n_tokens,
                                                    weft_error** error);

/// A prompt with images and audio (weft_media.h). Immutable: any number of threads may use one.
typedef struct weft_prompt weft_prompt;

// ---------------------------------------------------------------------------------------------------------
// Contexts

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

/// The element type of cached keys or values.
typedef int32_t weft_cache_type;
enum {
  WEFT_CACHE_AUTO = 0,  ///< bf16 if attention reads it faster than f16 on all devices, otherwise f16.
  WEFT_CACHE_F32 = 1,
  WEFT_CACHE_F16 = 2,
  WEFT_CACHE_BF16 = 3,
  WEFT_CACHE_Q8_0 = 4,
  WEFT_CACHE_Q4_0 = 5
};

/// Parameters of a context.
typedef struct weft_context_params {
  size_t struct_size;
  int32_t n_ctx;  ///< Cells of the cache, shared by all sequences. 0: the training length, at most 8192.
  int32_t n_sequences;  ///< The most sequences at the same time.
  int32_t n_ubatch;     ///< The most tokens of a step.
  int32_t n_outputs;    ///< The most rows of logits of a step. 0: max(64, n_sequences).
  int32_t n_threads;    ///< 0: the number of cores.
  /// The largest n of weft_batch_only_best. 0: none. -1: 64 if all devices are CPUs, otherwise 0.
  int32_t n_best;
  weft_cache_type k_type;
  weft_cache_type v_type;
  const weft_adapter_use* adapters;  ///< Default adapters of sequences; NULL: none.
  size_t n_adapters;
  /// With sliding-window layers: how many last tokens of a sequence can be removed again. -1: any number.
  int32_t window_rewind;
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
WEFT_API weft_status weft_batch_only_best(weft_batch* batch, int32_t item, int32_t n, weft_error** error);
/// Requests the log-sum-exp of an item, too (weft_context_log_sum_exp), and the logit of `token` unless that
/// is WEFT_NO_TOKEN (weft_context_logit). The item must request logits.
WEFT_API weft_status weft_batch_want_log_sum_exp(weft_batch* batch, int32_t item, weft_token token,
                                                 weft_error** error);
/// Requests the embedding of an item (weft_context_embedding).
WEFT_API weft_status weft_batch_want_embedding(weft_batch* batch, int32_t item, weft_error** error);
/// The item attends to all positions of its sequence below `end`, later ones included.
WEFT_API weft_status weft_batch_see_to(weft_batch* batch, int32_t item, weft_pos end, weft_error** error);
/// Sets an item's positions in time, image row and image column, for models with M-RoPE. By default all three
/// are the item's own position.
WEFT_API weft_status weft_batch_stand_at(weft_batch* batch, int32_t item, const weft_pos positions[3],
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
/// The logit of the token given to weft_batch_want_log_sum_exp.
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

// ---------------------------------------------------------------------------------------------------------
// Samplers, and single completions

/// Samples tokens from logits. Each sequence needs its own.
typedef struct weft_sampler weft_sampler;

/// Added to a token's logit; minus infinity bans it.
typedef struct weft_logit_bias {
  weft_token token;
  float bias;
} weft_logit_bias;

/// Parameters of a sampler, with llama.cpp's meanings and defaults.
typedef struct weft_sampler_params {
  size_t struct_size;
  uint64_t seed;          ///< UINT64_MAX: a random one.
  float temperature;      ///< <= 0: greedy.
  int32_t top_k;          ///< <= 0: all.
  float top_p;            ///< 1: off.
  float min_p;            ///< 0: off.
  float typical_p;        ///< 1: off.
  float top_n_sigma;      ///< <= 0: off.
  float xtc_probability;  ///< 0: off.
  float xtc_threshold;
  float dynamic_temperature_range;
  float dynamic_temperature_exponent;
  int32_t mirostat;  ///< 0: off, 1 or 2.
  float mirostat_tau;
  float mirostat_eta;
  int32_t penalty_last_n;  ///< 0: off, -1: all tokens.
  float repetition_penalty;
  float frequency_penalty;
  float presence_penalty;
  float dry_multiplier;  ///< 0: off.
  float dry_base;
  int32_t dry_allowed_length;
  int32_t dry_penalty_last_n;
  const weft_logit_bias* logit_bias;
  size_t n_logit_bias;
  /// The order of steps, by llama.cpp's names: "top_k;top_p;temperature". NULL: the default order.
  const char* steps;
  /// DRY's sequence breakers: strings that end a repetition. They match within tokens and across them. NULL:
  /// newline, colon, quotation mark and asterisk, if the sampler has a tokenizer. Not NULL, with
  /// n_dry_breakers 0: none.
  const char* const* dry_breakers;
  size_t n_dry_breakers;
} weft_sampler_params;

/// Sets struct_size and the defaults.
WEFT_API void weft_sampler_params_init(weft_sampler_params* params, size_t struct_size);
/// Makes a sampler for a tokenizer's vocabulary, and keeps the tokenizer.
WEFT_API weft_sampler* weft_sampler_create_for(const weft_tokenizer* tokenizer,
                                               const weft_sampler_params* params, weft_error** error);
/// Makes a sampler without a tokenizer. DRY then has no breakers, and giving dry_breakers is an error.
WEFT_API weft_sampler* weft_sampler_create(int32_t n_vocab, const weft_sampler_params* params,
                                           weft_error** error);
/// Frees it.
WEFT_API void weft_sampler_free(weft_sampler* sampler);
/// Draws a token, but does not accept it. `allowed` is NULL or a mask: only tokens i with bit i % 32 of
/// allowed[i / 32] are drawn.
WEFT_API weft_status weft_sampler_sample(weft_sampler* sampler, const float* logits, size_t n_logits,
                                         const uint32_t* allowed, weft_token* token, weft_error** error);
/// Records a token that was appended to the sequence, drawn or of the prompt.
WEFT_API weft_status weft_sampler_accept(weft_sampler* sampler, weft_token token, weft_error** error);
/// Forgets all accepted tokens and restarts the random numbers from the seed.
WEFT_API weft_status weft_sampler_reset(weft_sampler* sampler, weft_error** error);
/// The seed in use, also if a random one was requested.
WEFT_API uint64_t weft_sampler_seed(const weft_sampler* sampler);

/// Why a completion ended.
typedef int32_t weft_stop;
enum {
  WEFT_STOP_END = 0,           ///< An end token.
  WEFT_STOP_LENGTH = 1,        ///< n_predict tokens.
  WEFT_STOP_CONTEXT_FULL = 2,  ///< The context is full.
  WEFT_STOP_STRING = 3,        ///< A stop string.
  WEFT_STOP_CANCELLED = 4,
  WEFT_STOP_TIMEOUT = 5,  ///< A deadline of the request.
  WEFT_STOP_ERROR = 6
};
/// "end", "length", "context", "stop", "cancelled", "timeout", "error"; "unknown". Valid indefinitely.
WEFT_API const char* weft_stop_name(weft_stop stop);

/// Called with new complete characters; a zero byte follows them. Valid during the call. Returning false ends
/// the generation.
typedef bool (*weft_text_callback)(const char* text, size_t n_bytes, void* user_data);
/// Called during prefill with the number of prompt tokens computed so far. Returning false ends the
/// generation.
typedef bool (*weft_prefill_callback)(int32_t n_done, void* user_data);

/// Parameters of a generation.
typedef struct weft_generate_params {
  size_t struct_size;
  int32_t n_predict;        ///< Tokens; < 0: until an end token or the context is full.
  int32_t n_keep;           ///< With context_shift: the first tokens, which stay.
  const char* const* stop;  ///< Strings that end it; the result excludes them.
  size_t n_stop;
  weft_text_callback on_text;        ///< NULL: none.
  weft_prefill_callback on_prefill;  ///< NULL: none.
  void* user_data;                   ///< Given to both.
  bool ignore_end;                   ///< Continue after end tokens.
  bool context_shift;  ///< When the context is full, drop the older half of the sequence and continue.
  /// The prompt whose tokens are given, if it has images or audio. Otherwise NULL.
  const weft_prompt* media;
  /// The sum of weft_part::n - weft_part::extent over the parts that the sequence already holds.
  int32_t n_skipped;
} weft_generate_params;

/// The result of a generation.
typedef struct weft_generation {
  size_t struct_size;
  weft_stop stop;
  int32_t n_prompt;
  int32_t n_generated;  ///< Without an end token.
  int32_t n_decoded;    ///< Steps after the prompt; they took decode_ms.
  double prefill_ms;
  double decode_ms;
} weft_generation;

/// Sets struct_size and the defaults.
WEFT_API void weft_generate_params_init(weft_generate_params* params, size_t struct_size);
/// Appends a prompt to a sequence and generates. Sets `text`, `tokens` and `result` if they are not NULL.
/// Cancelling is not an error: weft_generation::stop is then WEFT_STOP_CANCELLED.
WEFT_API weft_status weft_generate(weft_context* context, weft_sampler* sampler, const weft_token* prompt,
                                   size_t n_prompt, weft_seq seq, const weft_generate_params* params,
                                   char** text, weft_token** tokens, size_t* n_tokens,
                                   weft_generation* result, weft_error** error);

// ---------------------------------------------------------------------------------------------------------
// Grammars

/// A grammar that constrains completions. Immutable: any number of threads may use one.
typedef struct weft_grammar weft_grammar;

/// The kind of a grammar's source.
typedef int32_t weft_grammar_kind;
enum {
  WEFT_GRAMMAR_GBNF = 0,         ///< llama.cpp's GBNF. The start rule is "root".
  WEFT_GRAMMAR_REGEX = 1,        ///< A regular expression for the whole completion.
  WEFT_GRAMMAR_JSON_SCHEMA = 2,  ///< A JSON schema (draft 2020-12).
  WEFT_GRAMMAR_JSON_OBJECT = 3   ///< Any JSON object; the source is ignored, and may be NULL.
};

/// Compiles a grammar for a model's vocabulary. Any thread.
WEFT_API weft_grammar* weft_grammar_create(const weft_model* model, weft_grammar_kind kind,
                                           const char* source, weft_error** error);
/// Frees it.
WEFT_API void weft_grammar_free(weft_grammar* grammar);

// ---------------------------------------------------------------------------------------------------------
// Continuous batching

/// Continuous batching: each step computes one batch with tokens of all running requests.
typedef struct weft_batcher weft_batcher;
/// A request of a batcher.
typedef int64_t weft_request;

/// The drafter for speculative decoding.
typedef int32_t weft_speculation;
enum {
  WEFT_SPECULATION_NONE = 0,
  WEFT_SPECULATION_NGRAM = 1,  ///< The tokens that followed an earlier occurrence of the last tokens.
  WEFT_SPECULATION_MODEL = 2   ///< A smaller model with the same vocabulary (weft_batcher_params::draft).
};

/// Parameters of a batcher.
typedef struct weft_batcher_params {
  size_t struct_size;
  int32_t n_running;      ///< The most running completions. 0: the context's sequences.
  int32_t n_step_tokens;  ///< The most prompt tokens of a step. 0: weft_context_info::batch_size.
  double max_step_ms;     ///< Prompts are chunked so that a step takes about this long while others decode.
  double max_pause_ms;    ///< A paused completion keeps its cells for this long, unless others need them.
  int32_t n_waiting;      ///< The most waiting completions, then WEFT_OVERLOADED. 0: no limit.
  weft_speculation speculation;
  int32_t n_draft;   ///< The most drafted tokens of a completion per step.
  int32_t n_unread;  ///< For services: a completion pauses while this many tokens are unread.
  /// With WEFT_SPECULATION_MODEL: a context of the draft model, with at least as many sequences. The batcher
  /// reserves it.
  weft_context* draft;
  bool reuse_prefixes;  ///< Automatic prefix caching: finished sequences stay in the cache.
} weft_batcher_params;

/// A token and the natural logarithm of its probability.
typedef struct weft_logprob {
  weft_token token;
  float logprob;
} weft_logprob;

/// A generated token.
typedef struct weft_output_token {
  weft_token token;
  float logprob;            ///< Set if n_logprobs >= 0, and for prompt tokens.
  const weft_logprob* top;  ///< The most probable ones.
  size_t n_top;
} weft_output_token;

/// Statistics of a completion.
typedef struct weft_completion_stats {
  size_t struct_size;
  int32_t n_prompt;
  int32_t n_cached;  ///< Tokens of the prompt that were found in the cache.
  int32_t n_generated;
  int32_t n_preempted;
  int32_t n_recomputed;
  int32_t n_drafted;
  int32_t n_accepted;
  double queue_ms;
  double first_token_ms;
  double total_ms;
} weft_completion_stats;

/// New output of one completion. How long it is valid depends on the function that delivers it.
typedef struct weft_output {
  size_t struct_size;
  weft_request request;
  int32_t completion;   ///< 0 to n - 1.
  bool done;            ///< The last one of this completion.
  weft_stop stop;       ///< With done.
  int32_t stop_string;  ///< With WEFT_STOP_STRING: the index in weft_request_params::stop. Otherwise -1.
  const char* text;     ///< New complete characters, with a zero byte at the end.
  size_t n_bytes;
  const weft_output_token* tokens;
  size_t n_tokens;
  const weft_output_token* prompt;  ///< With prompt_logprobs: prompt tokens with their logprobs.
  size_t n_prompt;
  const float* embedding;  ///< With done and a pooling: n_embd floats.
  size_t n_embedding;
  const char* error;                   ///< With WEFT_STOP_ERROR: the message; otherwise "".
  const weft_completion_stats* stats;  ///< With done; otherwise NULL.
} weft_output;

/// Called by weft_batcher_step. The output is valid during the call. The callback may submit, cancel, pause
/// and resume, but not step. Returning false cancels the request.
typedef bool (*weft_output_callback)(const weft_output* output, void* user_data);

/// How the hidden states of an input's tokens become one vector.
typedef int32_t weft_pooling;
enum {
  WEFT_POOLING_NONE = 0,
  WEFT_POOLING_MEAN = 1,
  WEFT_POOLING_CLS = 2,   ///< The first token's.
  WEFT_POOLING_LAST = 3,  ///< The last token's.
  WEFT_POOLING_FILE = -1  ///< The model file's pooling, for weft_embedder only.
};

/// Parameters of a request.
typedef struct weft_request_params {
  size_t struct_size;
  const weft_sampler_params* sampler;  ///< NULL: the defaults. Completion i uses seed + i.
  const weft_grammar* grammar;         ///< Constrains completions; NULL: none.
  const char* const* stop;             ///< Strings that end a completion; the result excludes them.
  size_t n_stop;
  int32_t n;          ///< Completions.
  int32_t n_predict;  ///< The most tokens of each. Below 0: until an end token, or until the context is full.
  int32_t n_min;      ///< The least number of tokens before an end token or a stop string counts.
  int32_t n_logprobs;  ///< Return each token's logprob, and this many most probable tokens. < 0: none.
  int32_t priority;    ///< Higher goes first.
  int32_t n_ctx;       ///< The most cells of a completion, with its prompt. 0: the whole cache.
  int32_t n_keep;      ///< With context_shift: the first tokens, which stay.
  /// If not WEFT_POOLING_NONE: generate nothing, return the prompt's pooled embedding.
  weft_pooling pooling;
  double queue_timeout_ms;  ///< Deadline from submit until it is first admitted. 0: none.
  double first_token_timeout_ms;
  double timeout_ms;
  const weft_adapter_use* adapters;  ///< NULL: the context's default. Not NULL, with n_adapters 0: none.
  size_t n_adapters;
  weft_output_callback on_output;  ///< For batchers; must be NULL for services.
  void* user_data;                 ///< Given to it.
  bool ignore_end;                 ///< Continue after end tokens.
  bool special;                    ///< Completions include control tokens.
  bool prompt_logprobs;            ///< Return logprobs of prompt tokens.
  bool context_shift;              ///< When the sequence fills the cache, drop its older half and continue.
  bool speculate;                  ///< Allow drafts.
  const weft_prompt* media;        ///< As weft_generate_params::media.
} weft_request_params;

/// Counts since the batcher was made, and its current state.
typedef struct weft_batcher_stats {
  size_t struct_size;
  int64_t n_steps;
  int64_t n_failed_steps;
  int64_t n_requests;
  int64_t n_rejected;
  int64_t n_completed;      ///< Completions that ended by themselves.
  int64_t n_cancelled;      ///< Completions that were cancelled.
  int64_t n_timed_out;      ///< Completions that missed a deadline.
  int64_t n_errors;         ///< Completions that failed.
  int64_t n_prompt_tokens;  ///< Prompt tokens that were computed.
  int64_t n_cached_tokens;  ///< Prompt tokens that were found in the cache.
  int64_t n_generated_tokens;
  int64_t n_drafted_tokens;
  int64_t n_accepted_tokens;
  int64_t n_preempted;
  int32_t n_waiting;
  int32_t n_running;
  int32_t n_paused;
  int32_t cells_total;
  int32_t cells_used;
  int32_t cells_cached;  ///< Cells that only finished sequences hold.
} weft_batcher_stats;

/// Sets struct_size and the defaults.
WEFT_API void weft_batcher_params_init(weft_batcher_params* params, size_t struct_size);
/// Sets struct_size and the defaults.
WEFT_API void weft_request_params_init(weft_request_params* params, size_t struct_size);
/// Makes a batcher. It reserves the context until it is freed: other functions then refuse the context.
WEFT_API weft_batcher* weft_batcher_create(weft_context* context, const weft_batcher_params* params,
                                           weft_error** error);
/// Ends all requests without further output, and empties the context.
WEFT_API void weft_batcher_free(weft_batcher* batcher);
/// Adds a request. WEFT_OVERLOADED where the queue is full.
WEFT_API weft_status weft_batcher_submit(weft_batcher* batcher, const weft_token* prompt, size_t n_prompt,
                                         const weft_request_params* params, weft_request* request,
                                         weft_error** error);
/// Ends its completions with WEFT_STOP_CANCELLED; the next step reports that. Does nothing for a request that
/// has ended.
WEFT_API weft_status weft_batcher_cancel(weft_batcher* batcher, weft_request request, weft_error** error);
/// Leaves a completion out of steps until it is resumed.
WEFT_API weft_status weft_batcher_pause(weft_batcher* batcher, weft_request request, int32_t completion,
                                        weft_error** error);
/// Resumes it.
WEFT_API weft_status weft_batcher_resume(weft_batcher* batcher, weft_request request, int32_t completion,
                                         weft_error** error);
/// Computes one step for all requests and delivers their output. Sets `more` to whether work is left. A step
/// that fails is repeated and is not an error.
WEFT_API weft_status weft_batcher_step(weft_batcher* batcher, bool* more, weft_error** error);
/// Steps until nothing is left to do.
WEFT_API weft_status weft_batcher_run(weft_batcher* batcher, weft_error** error);
/// Its statistics.
WEFT_API weft_status weft_batcher_get_stats(const weft_batcher* batcher, weft_batcher_stats* stats,
                                            weft_error** error);

/// A batcher on a thread of its own. Any thread may use one.
typedef struct weft_service weft_service;
/// The response to a request, as a stream. Any thread may call weft_response_cancel.
typedef struct weft_response weft_response;

/// Makes a service, which takes over the context, even on failure: its handle can then only be freed.
WEFT_API weft_service* weft_service_create(weft_context* context, const weft_batcher_params* params,
                                           weft_error** error);
/// Cancels everything, and waits for the thread. Responses may outlive it.
WEFT_API void weft_service_free(weft_service* service);
/// Adds a request. WEFT_OVERLOADED where the queue is full, WEFT_UNAVAILABLE once it is shut down.
WEFT_API weft_response* weft_service_submit(weft_service* service, const weft_token* prompt, size_t n_prompt,
                                            const weft_request_params* params, weft_error** error);
/// Refuses new requests and waits at most this long for the open ones. Then it cancels the rest.
WEFT_API weft_status weft_service_drain(weft_service* service, int64_t at_most_ms, weft_error** error);
/// Recent statistics. Does not wait for a step.
WEFT_API weft_status weft_service_get_stats(const weft_service* service, weft_batcher_stats* stats,
                                            weft_error** error);

/// The result of weft_response_next.
typedef int32_t weft_poll;
enum {
  WEFT_POLL_FAILED = -1,      ///< A wrong argument: see the error.
  WEFT_POLL_OUTPUT = 0,       ///< New output.
  WEFT_POLL_NOTHING_YET = 1,  ///< No output within the time.
  WEFT_POLL_END = 2           ///< All completions have ended.
};

/// Called by the service's thread, or by weft_response_on_ready itself. It must not block or use the service.
typedef void (*weft_ready_callback)(void* user_data);

/// Waits at most this long for new output of one completion, valid until the next call. 0: does not wait.
/// Below 0: waits without a limit.
WEFT_API weft_poll weft_response_next(weft_response* response, int64_t at_most_ms, const weft_output** output,
                                      weft_error** error);
/// Ends the request; output so far can still be taken. Any thread.
WEFT_API void weft_response_cancel(weft_response* response);
/// For event loops: `ready` is called whenever weft_response_next has new output, and at once if there is
/// some. NULL ends the calls: none is running after the return.
WEFT_API weft_status weft_response_on_ready(weft_response* response, weft_ready_callback ready,
                                            void* user_data, weft_error** error);
/// Frees it, and cancels its request if it has not ended.
WEFT_API void weft_response_free(weft_response* response);

// ---------------------------------------------------------------------------------------------------------
// Embeddings

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
