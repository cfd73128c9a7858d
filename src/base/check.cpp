#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace weft::base {

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "weft: internal error at %s:%d: %s is false; please report this\n", file, line,
               condition);
  std::abort();
}

}  // namespace weft::base
