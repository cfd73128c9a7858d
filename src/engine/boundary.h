#pragma once
// What crosses the public interface: weft throws Error, whatever the standard library throws inside.
#include <utility>

namespace weft::engine {

/// Throws the exception that is being handled: as an Error where the standard library threw it, else (an
/// Error, what a caller's function threw) as it is.
[[noreturn]] void rethrow_as_error();

/// What `f` returns.
template <typename F>
decltype(auto) throwing_errors(F f) {
  try {
    return f();
  } catch (...) {
    rethrow_as_error();
  }
}

}  // namespace weft::engine
