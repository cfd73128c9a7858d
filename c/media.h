#pragma once
// Prompts with images and audio, for the other files of the library.
#include "support.h"
#include "weft/media.h"

struct weft_prompt {
  weft::PromptWithMedia prompt;
};
