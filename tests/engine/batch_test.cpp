// Batches without a context, and the names of results.
#include "weft/batch.h"

#include <gtest/gtest.h>

#include "weft/context.h"
#include "weft/error.h"

namespace weft {
namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wdeprecated-declarations"

TEST(Batch, EmptyBracesAreDefaultOptions) {
  Batch batch;
  batch.add(5, 0, {});
  batch.add(5, {1, 2}, {});
  batch.add({6, 7}, 3, {});
  batch.add(std::vector<float>(4), 4, {});
  ASSERT_EQ(batch.size(), 5);
  for (int i = 0; i < batch.size(); ++i) {
    EXPECT_FALSE(batch.options(i).logits) << i;
    EXPECT_EQ(batch.options(i).pos, kNextPos) << i;
  }
}

#pragma GCC diagnostic pop

TEST(ResultNames, AreThoseOfTheEnumerators) {
  EXPECT_EQ(to_string(DecodeStatus::kOk), "ok");
  EXPECT_EQ(to_string(DecodeStatus::kCacheFull), "cache_full");
  EXPECT_EQ(to_string(DecodeStatus::kCancelled), "cancelled");
  EXPECT_EQ(to_string(ErrorCode::kInvalidArgument), "invalid_argument");
  EXPECT_EQ(to_string(ErrorCode::kOutOfMemory), "out_of_memory");
  EXPECT_EQ(to_string(ErrorCode::kUnavailable), "unavailable");
}

}  // namespace
}  // namespace weft
