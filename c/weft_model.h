/// @file
/// weft in C: models and tokenizers. The rules of weft.h hold here, too.
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "weft_core.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---------------------------------------------------------------------------------------------------------
// Models

/// A loaded model: weights, a tokenizer and a chat template. Immutable: any number of threads may use one.
typedef struct weft_model weft_model;

/// A token: its index in a model's vocabulary.
typedef int32_t weft_token;
/// No token.
#define WEFT_NO_TOKEN (-1)

/// How the hidden states of an input's tokens become one vector.
typedef int32_t weft_pooling;
enum {
  WEFT_POOLING_NONE = 0,
  WEFT_POOLING_MEAN = 1,
  WEFT_POOLING_CLS = 2,   ///< The first token's.
  WEFT_POOLING_LAST = 3,  ///< The last token's.
  WEFT_POOLING_FILE = -1  ///< The model file's pooling, for weft_embedder only.
};

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

/// The element type of cached keys or values.
typedef int32_t weft_cache_type;
enum {
  WEFT_CACHE_AUTO = 0,  ///< bf16 if attention reads it faster than f16 on all devices, otherwise f16.
  WEFT_CACHE_F32 = 1,
  WEFT_CACHE_F16 = 2,
  WEFT_CACHE_BF16 = 3,
  WEFT_CACHE_Q8_0 = 4,
  WEFT_CACHE_Q4_0 = 5,
  WEFT_CACHE_Q4_1 = 6,
  WEFT_CACHE_Q5_0 = 7,
  WEFT_CACHE_Q5_1 = 8,
  WEFT_CACHE_IQ4_NL = 9
};

/// Memory of a device that `fit` leaves free.
typedef struct weft_margin {
  const char* device;  ///< A name as in weft_model_params::devices. NULL: each of them.
  uint64_t bytes;
} weft_margin;

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
  /// Refuse a model that exceeds a device's free memory, and choose n_ctx, experts and layers that fit as far
  /// as they are left open.
  bool fit;
  /// Pack weights for the kernels. false: use them in the mapped file, which makes steps slower.
  bool repack;
  const char* chat_template;   ///< Replaces the file's chat template (Jinja); NULL: the file's.
  uint64_t fit_margin;         ///< Bytes of each device that `fit` leaves free.
  int32_t n_ctx_min;           ///< The least n_ctx that `fit` may choose. 0: it keeps a given n_ctx.
  const weft_margin* margins;  ///< In addition to fit_margin. Margins of the same device add up.
  size_t n_margins;
  uint64_t pack_cache_bytes;  ///< The most bytes of pack_cache. Least recently loaded models go first.
  int32_t n_source;           ///< n_source of the expected context.
  weft_cache_type k_type;     ///< k_type of the expected context.
  weft_cache_type v_type;     ///< v_type of the expected context.
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
  int64_t n_ctx_fit;     ///< The default of weft_context_params::n_ctx if `fit` has lowered it; otherwise 0.
  weft_pooling pooling;  ///< The file's pooling; WEFT_POOLING_MEAN if it names none.
  weft_token first_token;  ///< The decoder's first token, or WEFT_NO_TOKEN.
  bool reads_source;       ///< It is an encoder-decoder (T5).
  bool axes;               ///< RoPE has three positions per token (weft_batch_stand_at).
  bool weights_mapped;     ///< Weights are used in a mapped file: in pack_cache, or the model's own.
} weft_model_info;

/// The placement of a model's layers, and the expected context that `fit` has assumed.
typedef struct weft_placement {
  size_t struct_size;
  size_t n_devices;
  int32_t n_layers;      ///< Layers on the devices of the parameters; the output head counts as one.
  int32_t n_layers_all;  ///< The model's layers and its output head.
  int32_t n_cpu_moe;     ///< The first layers whose experts stay on the CPU.
  int32_t n_ctx;         ///< Cells of the expected context.
  int32_t n_ctx_full;    ///< Its cells before `fit` lowered them.
} weft_placement;

/// The memory of a model and of the expected context on one device, in bytes.
typedef struct weft_placed_device {
  size_t struct_size;
  const char* name;  ///< Valid as long as the model.
  uint64_t weights;
  uint64_t cache;
  uint64_t workspace;  ///< Inputs, outputs, copies and temporaries of steps.
  uint64_t margin;     ///< Left free (weft_model_params::margins).
  uint64_t free;       ///< Free before loading.
} weft_placed_device;

/// Sets struct_size and the defaults.
WEFT_API void weft_model_params_init(weft_model_params* params, size_t struct_size);
/// Loads a GGUF file, or a split set by the path of any of its files.
WEFT_API weft_model* weft_model_load(const char* path, const weft_model_params* params, weft_error** error);
/// Frees the handle. The weights are freed with the last handle that uses them.
WEFT_API void weft_model_free(weft_model* model);
/// Its properties.
WEFT_API weft_status weft_model_get_info(const weft_model* model, weft_model_info* info, weft_error** error);
/// Its placement, as it was loaded.
WEFT_API weft_status weft_model_get_placement(const weft_model* model, weft_placement* placement,
                                              weft_error** error);
/// A device of its placement, at an index from 0.
WEFT_API weft_status weft_model_get_placed_device(const weft_model* model, size_t place,
                                                  weft_placed_device* device, weft_error** error);
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

#ifdef __cplusplus
}
#endif

#endif
