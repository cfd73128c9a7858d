#pragma once
// What is said of mistakes.
#include <gtest/gtest.h>

#include <string>

#include "weft/error.h"

namespace weft::test {

/// What a call throws, which must be an Error of that code; or "".
template <typename F>
std::string refusal(F call, ErrorCode code = ErrorCode::kInvalidArgument) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace weft::test
