/// @file
/// weft in C: pictures and sounds, which stand in prompts between tokens. The rules of weft.h hold here, too.
///
/// Their encoders are in a file of their own beside the text model's ("mmproj", as llama.cpp's converter
/// writes it). One encodes a picture, writes a mark into the text where it stands, and makes a prompt of
/// both: its tokens go to weft_generate, weft_batcher_submit or weft_service_submit, and the prompt itself
/// with the parameters (`media`), which tells what its rows are.
#ifndef WEFT_MEDIA_H
#define WEFT_MEDIA_H

#include "weft.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A picture's pixels, row by row from the top left; three bytes each: red, green, blue.
typedef struct weft_image {
  int32_t width;
  int32_t height;
  uint8_t* rgb;
  size_t n_bytes;  ///< 3 * width * height
} weft_image;

/// Samples of one channel, from -1 to 1, WEFT_SAMPLE_RATE of them a second.
typedef struct weft_sound {
  float* samples;
  size_t n_samples;
} weft_sound;
#define WEFT_SAMPLE_RATE 16000

/// Reads a PNG or JPEG file that lies in memory, turned as its EXIF data say; what is transparent is white
/// behind. The caller frees image->rgb (weft_free). Any thread, as all functions here.
WEFT_API weft_status weft_image_read(const void* bytes, size_t n_bytes, weft_image* image,
                                     weft_error** error);
/// The same of a file of the disk.
WEFT_API weft_status weft_image_read_file(const char* path, weft_image* image, weft_error** error);
/// Reads WAV, FLAC, Ogg (Vorbis, Opus), AIFF or, where libsndfile is 1.1 or later, MP3 that lies in memory,
/// as one channel of WEFT_SAMPLE_RATE. The caller frees sound->samples.
WEFT_API weft_status weft_sound_read(const void* bytes, size_t n_bytes, weft_sound* sound,
                                     weft_error** error);
/// The same of a file of the disk.
WEFT_API weft_status weft_sound_read_file(const char* path, weft_sound* sound, weft_error** error);

/// An encoder of pictures. Never changes: any number of threads may use one, which encodes one picture at a
/// time.
typedef struct weft_vision_model weft_vision_model;
/// An encoder of sounds, in the same way.
typedef struct weft_audio_model weft_audio_model;
/// A picture or a sound as text models read it. Never changes.
typedef struct weft_media weft_media;

/// How an encoder is loaded.
typedef struct weft_media_params {
  size_t struct_size;
  const char* const* devices;  ///< Names; NULL: the CPU and all GPUs.
  size_t n_devices;
  int64_t cache_bytes;  ///< What is encoded is kept, up to so many bytes, for when it comes again. < 0: as
                        ///< many as weft likes.
  int32_t n_threads;    ///< 0: as many as there are cores.
} weft_media_params;

/// What an encoder of pictures is.
typedef struct weft_vision_info {
  size_t struct_size;
  const char* name;       ///< Valid as long as the model, as are the others.
  const char* projector;  ///< "gemma3"
  int32_t n_embd;         ///< Numbers of a row: that of the text models which it goes with.
  int32_t image_size;     ///< Pixels of a side that it was trained for.
  int32_t patch_size;
  int32_t n_layers;
  int32_t max_rows;  ///< Of one part.
  bool both_ways;    ///< The text model reads a picture's rows both ways.
} weft_vision_info;

/// What an encoder of sounds is.
typedef struct weft_audio_info {
  size_t struct_size;
  const char* name;  ///< Valid as long as the model, as is the other.
  const char* projector;
  int32_t n_embd;
  int32_t n_mels;
  int32_t n_layers;
  int32_t max_rows;     ///< Of one part.
  double part_seconds;  ///< Of sound that become one part.
} weft_audio_info;

/// Asked before each part that is computed, by the thread that encodes, for which the encoder is busy:
/// another picture or sound of the same one would wait for ever. Returning false: WEFT_CANCELLED.
typedef bool (*weft_encode_callback)(void* user_data);

/// Fills in the defaults.
WEFT_API void weft_media_params_init(weft_media_params* params, size_t struct_size);
/// What an mmproj file has encoders for; NULL for what is not asked.
WEFT_API weft_status weft_media_kinds(const char* path, bool* pictures, bool* sounds, weft_error** error);

/// The encoder of pictures of an mmproj file.
WEFT_API weft_vision_model* weft_vision_model_load(const char* path, const weft_media_params* params,
                                                   weft_error** error);
/// Frees the handle; what it made lives on.
WEFT_API void weft_vision_model_free(weft_vision_model* vision);
/// What it is.
WEFT_API weft_status weft_vision_model_get_info(const weft_vision_model* vision, weft_vision_info* info,
                                                weft_error** error);
/// WEFT_INVALID_ARGUMENT where it is not for this text model.
WEFT_API weft_status weft_vision_model_check_fits(const weft_vision_model* vision, const weft_model* model,
                                                  weft_error** error);
/// The same rows, bit by bit, for the same pixels. `goes_on` may be NULL.
WEFT_API weft_media* weft_vision_model_encode(const weft_vision_model* vision, const weft_image* image,
                                              weft_encode_callback goes_on, void* user_data,
                                              weft_error** error);

/// The encoder of sounds of an mmproj file.
WEFT_API weft_audio_model* weft_audio_model_load(const char* path, const weft_media_params* params,
                                                 weft_error** error);
/// Frees the handle; what it made lives on.
WEFT_API void weft_audio_model_free(weft_audio_model* audio);
/// What it is.
WEFT_API weft_status weft_audio_model_get_info(const weft_audio_model* audio, weft_audio_info* info,
                                               weft_error** error);
/// WEFT_INVALID_ARGUMENT where it is not for this text model.
WEFT_API weft_status weft_audio_model_check_fits(const weft_audio_model* audio, const weft_model* model,
                                                 weft_error** error);
/// The same rows, bit by bit, for the same samples. `goes_on` may be NULL.
WEFT_API weft_media* weft_audio_model_encode(const weft_audio_model* audio, const weft_sound* sound,
                                             weft_encode_callback goes_on, void* user_data,
                                             weft_error** error);
/// Frees it; prompts keep what they need.
WEFT_API void weft_media_free(weft_media* media);

/// Rows in the places of tokens of a prompt. The tokens in these places are below WEFT_NO_TOKEN, and the same
/// for the same rows.
typedef struct weft_part {
  size_t struct_size;
  int32_t first;  ///< Its first place in the prompt.
  int32_t n;      ///< Places, and rows.
  const float*
      rows;  ///< n rows of n_embd numbers, for weft_batch_add_embedding. Valid as long as the prompt.
  int32_t n_embd;
  int32_t grid_width;  ///< The rows are a grid's so wide, in models that tell lines from columns; else 0.
  int32_t extent;      ///< Positions by which what stands behind it turns further on.
  bool both_ways;      ///< Its rows see each other both ways: weft_batch_see_to.
} weft_part;

/// A text for the places of pictures and sounds in a prompt: a random one, so that nobody writes it who is
/// not told. The caller frees it.
WEFT_API weft_status weft_media_mark(char** mark, weft_error** error);
/// A text with pictures and sounds in the places of `mark`, in their order, whoever wrote it there.
/// WEFT_INVALID_ARGUMENT where there are more or fewer places than of them. `flags`: WEFT_PARSE_SPECIAL; what
/// the model wants around a text is always added.
WEFT_API weft_prompt* weft_prompt_create(const weft_model* model, const char* text, size_t n_bytes,
                                         uint32_t flags, const weft_media* const* media, size_t n_media,
                                         const char* mark, weft_error** error);
/// The same of a conversation, written as weft_model_apply_chat_template does; the marks stand in its
/// messages.
WEFT_API weft_prompt* weft_prompt_create_chat(const weft_model* model, const weft_chat_message* messages,
                                              size_t n_messages, const weft_chat_params* params,
                                              const weft_media* const* media, size_t n_media,
                                              const char* mark, weft_error** error);
/// Frees it. What is being written of it keeps what it needs.
WEFT_API void weft_prompt_free(weft_prompt* prompt);
/// Its tokens, n of them. Valid as long as the prompt.
WEFT_API const weft_token* weft_prompt_tokens(const weft_prompt* prompt, size_t* n, weft_error** error);
/// The number of its parts.
WEFT_API size_t weft_prompt_n_parts(const weft_prompt* prompt);
/// The part at a place, from 0.
WEFT_API weft_status weft_prompt_get_part(const weft_prompt* prompt, size_t place, weft_part* part,
                                          weft_error** error);

#ifdef __cplusplus
}
#endif

#endif
