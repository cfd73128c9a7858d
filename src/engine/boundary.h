#pragma once
// Exceptions at the public interface: weft throws Error, also for exceptions of the standard library.
#include <utility>

namespace weft::engine {

/// Rethrows the exception that is being handled. Exceptions of the standard library become an Error. An
/// Error, and exceptions of a caller's function, are unchanged.
[[noreturn]] void rethrow_as_error();

/// Returns the result of `f`.
template <typename F>
decltype(auto) throwing_errors(F f) {
  try {
    return f();
  } catch (...) {
    rethrow_as_error();
  }
}

}  // namespace weft::engine
