// Files of importances: written, read, put together.
#include "weft/importance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "weft/error.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::filesystem::path temporary(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / (std::to_string(::getpid()) + "-" + name);
}

Importance some() {
  return {.tensors = {{"b.weight", {4.0, 0.0}, {1.0, 2.0, 0.0, 0.0}},
                      {"a.weight", {8.0}, {16.0, 0.0, 8.0, 4.0}},
                      {"unread.weight", {0.0}, {0.0, 0.0}}},
          .datasets = {"one.txt", "two.txt"},
          .n_chunks = 2,
          .chunk_size = 4};
}

template <typename F>
std::string error_of(F f, ErrorCode code) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Importance, FilesRoundTrip) {
  const auto path = temporary("imatrix.gguf");
  write_importance(path, some());
  const Importance read = read_importance(path);
  ASSERT_EQ(read.tensors.size(), 2u);
  EXPECT_EQ(read.tensors[0].tensor, "a.weight");
  EXPECT_THAT(read.tensors[0].counts, ElementsAre(8.0));
  EXPECT_THAT(read.tensors[0].sums, ElementsAre(16.0, 0.0, 8.0, 4.0));
  EXPECT_EQ(read.tensors[1].tensor, "b.weight");
  EXPECT_THAT(read.tensors[1].counts, ElementsAre(4.0, 0.0));
  EXPECT_THAT(read.tensors[1].sums, ElementsAre(1.0, 2.0, 0.0, 0.0));
  EXPECT_THAT(read.datasets, ElementsAre("one.txt", "two.txt"));
  EXPECT_EQ(read.n_chunks, 2);
  EXPECT_EQ(read.chunk_size, 4);
  EXPECT_THAT(error_of([&] { write_importance(path, {.tensors = {{"x", {0.0}, {0.0}}}}); },
                       ErrorCode::kInvalidArgument),
              HasSubstr("the model read no tokens"));
}

TEST(Importance, TheOlderFormKeepsMeans) {
  const auto path = temporary("imatrix.dat");
  write_importance(path, some(), ImportanceForm::kOlder);
  const Importance read = read_importance(path, 4);
  ASSERT_EQ(read.tensors.size(), 2u);
  EXPECT_THAT(read.tensors[0].counts, ElementsAre(8.0));
  EXPECT_THAT(read.tensors[0].sums, ElementsAre(16.0, 0.0, 8.0, 4.0));
  // Means by matrix, with ones for the one that met no row.
  EXPECT_THAT(read.tensors[1].counts, ElementsAre(4.0));
  EXPECT_THAT(read.tensors[1].sums, ElementsAre(1.0, 2.0, 4.0, 4.0));
  EXPECT_THAT(read.datasets, ElementsAre("two.txt"));
  EXPECT_EQ(read.n_chunks, 2);
  std::ifstream whole(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(whole), {}};
  for (const std::size_t cut : {std::size_t{3}, std::size_t{10}, bytes.size() / 2, bytes.size() - 1}) {
    std::ofstream(path, std::ios::binary) << bytes.substr(0, cut);
    error_of([&] { (void)read_importance(path); }, ErrorCode::kInvalidFile);
  }
}

TEST(Importance, SumsOverDocuments) {
  Importance all;
  merge_importance(all, some());
  merge_importance(all, some());
  EXPECT_THAT(all.tensors[0].counts, ElementsAre(8.0, 0.0));
  EXPECT_THAT(all.tensors[0].sums, ElementsAre(2.0, 4.0, 0.0, 0.0));
  EXPECT_EQ(all.n_chunks, 4);
  EXPECT_EQ(all.datasets.size(), 4u);
  // One count for all matrices is the count of each.
  merge_importance(all, {.tensors = {{"b.weight", {3.0}, {1.0, 1.0, 1.0, 1.0}}}});
  EXPECT_THAT(all.tensors[0].counts, ElementsAre(11.0, 3.0));
  EXPECT_THAT(all.tensors[0].sums, ElementsAre(3.0, 5.0, 1.0, 1.0));
  const Importance other = {.tensors = {{"new.weight", {1.0}, {1.0}}, {"a.weight", {8.0}, {1.0, 2.0}}}};
  EXPECT_THAT(error_of([&] { merge_importance(all, other); }, ErrorCode::kInvalidArgument),
              HasSubstr("a.weight"));
  EXPECT_EQ(all.tensors.size(), 3u);
}

}  // namespace
}  // namespace weft
