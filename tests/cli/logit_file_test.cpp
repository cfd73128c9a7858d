#include "quality/logit_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "weft/error.h"

namespace weft::cli {
namespace {

// One token is certain, and a large vocabulary lies far below it.
TEST(LogitFile, DivergenceFromItselfIsZero) {
  const auto path =
      std::filesystem::temp_directory_path() / ("weft-logits-" + std::to_string(std::random_device()()));
  const LogitFileHeader header{.n_ctx = 4, .n_vocab = 150'001, .n_chunks = 1};
  std::vector<float> logits(150'001);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  for (float& logit : logits) logit = normal(random);
  logits[7] = 40.0f;
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - 40.0);
  {
    LogitFileWriter writer(path, header, std::vector<Token>{1, 2, 3, 7});
    writer.add(logits);
    EXPECT_FALSE(std::filesystem::exists(path)) << "until it is whole";
    writer.finish();
  }
  LogitFileReader reader(path);
  EXPECT_EQ(reader.tokens()[3], 7);
  std::vector<float> row(logits.size());
  reader.next(row);
  EXPECT_NEAR(row[7], -std::log(sum), 1e-3);
  EXPECT_NEAR(divergence(row, logits, 40.0 + std::log(sum)), 0.0, 1e-4);
  logits[8] = -INFINITY;
  EXPECT_NEAR(divergence(row, logits, 40.0 + std::log(sum)), 0.0, 1e-4);
  EXPECT_THROW(reader.next(row), Error);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_THROW(LogitFileReader cut(path), Error);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace weft::cli
