/* Old names still compile and do what the new ones do. */
#include "check.h"
#include "weft_media.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

int main(int argc, char** argv) {
  (void)argc;
  weft_batch* batch = NULL;
  MADE(batch, weft_batch_create(&error));
  OK(weft_batch_add(batch, 5, 0, WEFT_NEXT_POS, true, &error));
  OK(weft_batch_only_best(batch, 0, 3, &error));
  OK(weft_batch_want_log_sum_exp(batch, 0, WEFT_NO_TOKEN, &error));
  OK(weft_batch_want_embedding(batch, 0, &error));
  OK(weft_batch_see_to(batch, 0, 4, &error));
  const weft_pos axes[3] = {0, 1, 2};
  OK(weft_batch_stand_at(batch, 0, axes, &error));
  FAILS(weft_batch_only_best(batch, 0, 0, &error), WEFT_INVALID_ARGUMENT, "number of best tokens is 0");
  weft_batch_free(batch);

  weft_sound audio = {0};
  OK(weft_sound_read_file(path_in(argv[1], "audio/sound.wav"), &audio, &error));
  CHECK(audio.n_samples > 0);
  weft_free(audio.samples);
  FAILS(weft_sound_read("no audio", 8, &audio, &error), WEFT_UNSUPPORTED, "WAV");
  char* marker = NULL;
  OK(weft_media_mark(&marker, &error));
  CHECK(marker != NULL && marker[0] != 0);
  weft_free(marker);
  return 0;
}
