#pragma once
// Prompts with pictures and sounds, as others use them.
#include "support.h"
#include "weft/media.h"

struct weft_prompt {
  weft::PromptWithMedia prompt;
};
