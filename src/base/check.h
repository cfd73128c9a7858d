#pragma once
// WEFT_CHECK(condition): an invariant of our own. A failure is a bug of weft and ends the process with the
// place and the condition; it must never be reachable from input (that is weft::Error's work).

namespace weft::base {
[[noreturn]] void check_failed(const char* file, int line, const char* condition);
}  // namespace weft::base

#define WEFT_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::weft::base::check_failed(__FILE__, __LINE__, #condition))
