// Since 0.1
#pragma once
// The version of weft that a program is compiled with. The build reads it here. C programs may include it, too.

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION "0.1.0"
