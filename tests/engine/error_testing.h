#pragma once
#include <gtest/gtest.h>

#include <string>

#include "weft/error.h"

namespace weft::test {

/// `f` throws an Error of that code whose message has that part.
template <typename F>
void expect_error(ErrorCode code, const std::string& part, F f) {
  try {
    f();
    ADD_FAILURE() << "no error, expected one with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace weft::test
