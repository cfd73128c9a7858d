/// @file
/// weft in C: images and audio in prompts. The rules of weft.h hold here, too.
///
/// The encoders are in an mmproj file, as llama.cpp's converter writes it. To use them:
/// 1. Encode an image or audio (weft_vision_model_encode, weft_audio_model_encode).
/// 2. Write a marker (weft_media_marker) into the prompt where it belongs, and make a prompt of both
///    (weft_prompt_create).
/// 3. Pass the prompt's tokens to weft_generate, weft_batcher_submit or weft_service_submit, and the prompt
///    itself as the parameter `media`, which has the embeddings.
#ifndef WEFT_MEDIA_H
#define WEFT_MEDIA_H

#include "weft.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Pixels, row by row from the top left, three bytes each: red, green, blue.
typedef struct weft_image {
  int32_t width;
  int32_t height;
  uint8_t* rgb;
  size_t n_bytes;  ///< 3 * width * height
} weft_image;

/// Samples of one channel, from -1 to 1, at WEFT_SAMPLE_RATE per second.
typedef struct weft_audio {
  float* samples;
  size_t n_samples;
} weft_audio;

/// Samples per second.
#define WEFT_SAMPLE_RATE 16000

/// Reads a PNG or JPEG file in memory, rotates it by its EXIF data, and puts transparent pixels on white. The
/// caller frees image->rgb (weft_free). Any thread may call the functions of this header.
WEFT_API weft_status weft_image_read(const void* bytes, size_t n_bytes, weft_image* image,
                                     weft_error** error);
/// The same for a file on disk.
WEFT_API weft_status weft_image_read_file(const char* path, weft_image* image, weft_error** error);
/// Reads a file in memory: WAV, FLAC, Ogg (Vorbis, Opus), AIFF or, with libsndfile 1.1 or later, MP3. The
/// result is one channel at WEFT_SAMPLE_RATE. The caller frees `audio->samples`.
WEFT_API weft_status weft_audio_read(const void* bytes, size_t n_bytes, weft_audio* audio,
                                     weft_error** error);
/// The same for a file on disk.
WEFT_API weft_status weft_audio_read_file(const char* path, weft_audio* audio, weft_error** error);

/// An image encoder. Immutable: any number of threads may use one, but it encodes one image at a time.
typedef struct weft_vision_model weft_vision_model;
/// An audio encoder, likewise.
typedef struct weft_audio_model weft_audio_model;
/// An encoded image or audio input. Immutable.
typedef struct weft_media weft_media;

/// Parameters for loading an encoder.
typedef struct weft_media_params {
  size_t struct_size;
  const char* const* devices;  ///< Names; NULL: the CPU and all GPUs.
  size_t n_devices;
  /// The most bytes of results that are cached for repeated inputs. Below 0: the default.
  int64_t cache_bytes;
  int32_t n_threads;  ///< 0: the number of cores.
} weft_media_params;

/// Properties of an image encoder.
typedef struct weft_vision_info {
  size_t struct_size;
  const char* name;       ///< Valid as long as the model, as are the others.
  const char* projector;  ///< "gemma3"
  int32_t n_embd;         ///< Size of an embedding: n_embd_input of its language models.
  int32_t image_size;     ///< The training size of images: pixels per side.
  int32_t patch_size;
  int32_t n_layers;
  int32_t max_rows;  ///< The most rows of a part.
  bool both_ways;    ///< An image's embeddings attend to each other in both directions.
} weft_vision_info;

/// Properties of an audio encoder.
typedef struct weft_audio_info {
  size_t struct_size;
  const char* name;  ///< Valid as long as the model, as is the other.
  const char* projector;
  int32_t n_embd;
  int32_t n_mels;
  int32_t n_layers;
  int32_t max_rows;     ///< The most rows of a part.
  double part_seconds;  ///< Long audio is encoded in parts of this many seconds.
} weft_audio_info;

/// The encoding thread calls it before each part. Returning false cancels (WEFT_CANCELLED). It must not
/// encode with the same encoder: that would deadlock.
typedef bool (*weft_encode_callback)(void* user_data);

/// Sets struct_size and the defaults.
WEFT_API void weft_media_params_init(weft_media_params* params, size_t struct_size);
/// Which encoders an mmproj file has. Pass NULL for results that are not wanted.
WEFT_API weft_status weft_media_kinds(const char* path, bool* images, bool* audio, weft_error** error);

/// Loads the image encoder of an mmproj file.
WEFT_API weft_vision_model* weft_vision_model_load(const char* path, const weft_media_params* params,
                                                   weft_error** error);
/// Frees the handle. Its results stay valid.
WEFT_API void weft_vision_model_free(weft_vision_model* vision);
/// Its properties.
WEFT_API weft_status weft_vision_model_get_info(const weft_vision_model* vision, weft_vision_info* info,
                                                weft_error** error);
/// WEFT_INVALID_ARGUMENT unless it fits this language model.
WEFT_API weft_status weft_vision_model_check_fits(const weft_vision_model* vision, const weft_model* model,
                                                  weft_error** error);
/// Encodes an image. The same pixels give the same rows, bit by bit. `goes_on` may be NULL.
WEFT_API weft_media* weft_vision_model_encode(const weft_vision_model* vision, const weft_image* image,
                                              weft_encode_callback goes_on, void* user_data,
                                              weft_error** error);

/// Loads the audio encoder of an mmproj file.
WEFT_API weft_audio_model* weft_audio_model_load(const char* path, const weft_media_params* params,
                                                 weft_error** error);
/// Frees the handle. Its results stay valid.
WEFT_API void weft_audio_model_free(weft_audio_model* audio);
/// Its properties.
WEFT_API weft_status weft_audio_model_get_info(const weft_audio_model* audio, weft_audio_info* info,
                                               weft_error** error);
/// WEFT_INVALID_ARGUMENT unless it fits this language model.
WEFT_API weft_status weft_audio_model_check_fits(const weft_audio_model* audio, const weft_model* model,
                                                 weft_error** error);
/// Encodes audio. The same samples give the same rows, bit by bit. `goes_on` may be NULL.
WEFT_API weft_media* weft_audio_model_encode(const weft_audio_model* model, const weft_audio* audio,
                                             weft_encode_callback goes_on, void* user_data,
                                             weft_error** error);
/// Frees the media. Prompts that contain it stay valid.
WEFT_API void weft_media_free(weft_media* media);

/// The token at the places of images and audio in a prompt.
#define WEFT_MEDIA_TOKEN (-2)

/// Embeddings that replace tokens of a prompt. These tokens are WEFT_MEDIA_TOKEN.
typedef struct weft_part {
  size_t struct_size;
  int32_t first;  ///< Index of its first token in the prompt.
  int32_t n;      ///< The number of tokens and embeddings.
  /// n embeddings of n_embd floats, for weft_batch_add_embedding. Valid as long as the prompt.
  const float* rows;
  int32_t n_embd;
  /// For models with M-RoPE: the embeddings form a grid of this width, row by row. 0: no grid.
  int32_t grid_width;
  int32_t extent;  ///< The positions that the part takes.
  bool both_ways;  ///< Its embeddings attend to each other in both directions (weft_batch_set_attend_to).
} weft_part;

/// A string that marks the places of images and audio. It is random, so that users cannot write it into
/// messages. The caller frees it.
WEFT_API weft_status weft_media_marker(char** marker, weft_error** error);
/// Makes a prompt of a string, in which each `marker` is replaced by the next of `media`.
/// WEFT_INVALID_ARGUMENT if the numbers of markers and media differ. `flags` is 0 or WEFT_PARSE_SPECIAL. BOS
/// is always added if the model has it.
WEFT_API weft_prompt* weft_prompt_create(const weft_model* model, const char* text, size_t n_bytes,
                                         uint32_t flags, const weft_media* const* media, size_t n_media,
                                         const char* marker, weft_error** error);
/// The same for a conversation, rendered as by weft_model_apply_chat_template. Its messages have the markers.
WEFT_API weft_prompt* weft_prompt_create_chat(const weft_model* model, const weft_chat_message* messages,
                                              size_t n_messages, const weft_chat_params* params,
                                              const weft_media* const* media, size_t n_media,
                                              const char* marker, weft_error** error);
/// Frees it. Running generations keep their parts.
WEFT_API void weft_prompt_free(weft_prompt* prompt);
/// Its tokens, n of them. Valid as long as the prompt.
WEFT_API const weft_token* weft_prompt_tokens(const weft_prompt* prompt, size_t* n, weft_error** error);
/// The number of its parts.
WEFT_API size_t weft_prompt_n_parts(const weft_prompt* prompt);
/// The part at an index, from 0.
WEFT_API weft_status weft_prompt_get_part(const weft_prompt* prompt, size_t place, weft_part* part,
                                          weft_error** error);

// Old names.

WEFT_DEPRECATED("use weft_audio") typedef weft_audio weft_sound;
WEFT_DEPRECATED("use weft_audio_read")
WEFT_API weft_status weft_sound_read(const void* bytes, size_t n_bytes, weft_audio* sound,
                                     weft_error** error);
WEFT_DEPRECATED("use weft_audio_read_file")
WEFT_API weft_status weft_sound_read_file(const char* path, weft_audio* sound, weft_error** error);
WEFT_DEPRECATED("use weft_media_marker")
WEFT_API weft_status weft_media_mark(char** mark, weft_error** error);

#ifdef __cplusplus
}
#endif

#endif
