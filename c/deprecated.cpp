// Old names of functions, for one version.
#include "weft_context.h"
#include "weft_media.h"

weft_status weft_batch_only_best(weft_batch* batch, int32_t item, int32_t n, weft_error** error) {
  return weft_batch_set_n_best(batch, item, n, error);
}
weft_status weft_batch_want_log_sum_exp(weft_batch* batch, int32_t item, weft_token token,
                                        weft_error** error) {
  return weft_batch_set_log_sum_exp(batch, item, token, error);
}
weft_status weft_batch_want_embedding(weft_batch* batch, int32_t item, weft_error** error) {
  return weft_batch_set_embedding(batch, item, error);
}
weft_status weft_batch_see_to(weft_batch* batch, int32_t item, weft_pos end, weft_error** error) {
  return weft_batch_set_attend_to(batch, item, end, error);
}
weft_status weft_batch_stand_at(weft_batch* batch, int32_t item, const weft_pos positions[3],
                                weft_error** error) {
  return weft_batch_set_axes(batch, item, positions, error);
}

weft_status weft_sound_read(const void* bytes, size_t n_bytes, weft_audio* sound, weft_error** error) {
  return weft_audio_read(bytes, n_bytes, sound, error);
}
weft_status weft_sound_read_file(const char* path, weft_audio* sound, weft_error** error) {
  return weft_audio_read_file(path, sound, error);
}
weft_status weft_media_mark(char** mark, weft_error** error) { return weft_media_marker(mark, error); }
