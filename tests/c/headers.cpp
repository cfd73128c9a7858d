// The headers are C++ as well, and callbacks may be lambdas.
#include "weft_graph.h"
#include "weft_media.h"

const weft_text_callback callback = [](const char*, size_t, void*) { return true; };
