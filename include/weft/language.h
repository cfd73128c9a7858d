// Since 0.1
#pragma once
// Reports a compiler without C++20 first, before errors in other headers that do not say so.

#if __cplusplus < 202002L
#error "weft needs C++20: compile with -std=c++20"
#endif
