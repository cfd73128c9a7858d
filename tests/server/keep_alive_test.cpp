#include "api/ollama/keep_alive.h"

#include <gtest/gtest.h>

#include "api/error.h"

namespace weft::server {
namespace {

using std::chrono::milliseconds;

KeepAlive read(const Json& value) {
  const Json body = {{"keep_alive", value}};
  Fields fields(body);
  return read_keep_alive(fields);
}

TEST(KeepAlive, ReadsSecondsAndTimes) {
  const std::pair<Json, std::int64_t> times[] = {
      {300, 300'000},       {0, 0},         {2.5, 2500},    {"5m", 300'000},     {"0", 0},
      {"1h30m", 5'400'000}, {"300ms", 300}, {"30", 30'000}, {"1.5h", 5'400'000}, {"1h2m3s", 3'723'000}};
  for (const auto& [value, ms] : times) {
    const KeepAlive keep = read(value);
    EXPECT_TRUE(keep.is_given) << value;
    EXPECT_EQ(keep.time, milliseconds(ms)) << value;
    EXPECT_EQ(keep.is_none(), ms == 0) << value;
  }
}

TEST(KeepAlive, NegativeTimesAreForEver) {
  for (const Json& value : {Json(-1), Json("-1"), Json("-1m"), Json(1e300)}) {
    EXPECT_TRUE(read(value).is_given) << value;
    EXPECT_FALSE(read(value).time) << value;
  }
}

TEST(KeepAlive, NothingIsGivenWithoutAValue) {
  EXPECT_FALSE(read(nullptr).is_given);
  EXPECT_FALSE(read("").is_given);
}

TEST(KeepAlive, OtherValuesAreRefused) {
  for (const Json& value :
       {Json("soon"), Json("5 minutes"), Json("m"), Json("-"), Json("1.2.3s"), Json(true)})
    EXPECT_THROW(read(value), ApiError) << value;
}

}  // namespace
}  // namespace weft::server
