#pragma once
#include <exception>
#include <string>

namespace weft::engine {

/// What the exception says that is being handled; users' code may throw anything.
inline std::string what_is_thrown() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace weft::engine
