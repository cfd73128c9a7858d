#pragma once
#include <exception>
#include <string>

namespace weft::engine {

/// The message of the exception that is being handled; callbacks may throw anything.
inline std::string what_is_thrown() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace weft::engine
