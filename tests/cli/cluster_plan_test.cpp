// Descriptions of clusters.
#include "serving/cluster_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "weft/error.h"

namespace weft::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(ClusterDescription, IsRead) {
  const Cluster cluster = read_cluster(R"({"prompt_tokens": 64, "link": {"bytes_per_second": 5},
      "nodes": [{"name": "a", "count": 2, "memory_bytes": 7, "bytes_per_second": 1, "flops": 2},
                {"memory_bytes": 8, "tokens_per_second": 3, "prompt_tokens_per_second": 4,
                 "link": {"seconds": 9, "bytes_per_second": 6}}]})");
  ASSERT_THAT(cluster.nodes, SizeIs(3));
  EXPECT_EQ(cluster.prompt_tokens, 64);
  EXPECT_EQ(cluster.nodes[1].name, "a.1");
  EXPECT_EQ(cluster.nodes[1].link.bytes_per_second, 5.0);
  EXPECT_EQ(cluster.nodes[2].link.seconds, 9.0);
  EXPECT_EQ(cluster.nodes[2].tokens_per_second, 3.0);
}

TEST(ClusterDescription, ErrorsNameTheField) {
  const std::string node = R"("memory_bytes": 7, "bytes_per_second": 1, "flops": 2)";
  const auto with_nodes = [](const std::string& nodes) { return R"({"nodes": [)" + nodes + "]}"; };
  const std::pair<std::string, std::string> cases[] = {
      {"[", "invalid JSON at byte 2"},
      {"[]", "not an object"},
      {"{}", "a list 'nodes'"},
      {with_nodes(""), "at least one"},
      {with_nodes("3"), "entry 1 of nodes is not an object"},
      {with_nodes("{" + node + R"(, "cores": 2})"), "no field 'cores'; known are"},
      {with_nodes(R"({"memory_bytes": 7})"), "needs either"},
      {with_nodes("{" + node + R"(, "tokens_per_second": 2})"), "needs either"},
      {with_nodes(R"({"memory_bytes": 7, "flops": 2})"), "lacks bytes_per_second"},
      {with_nodes(R"({"bytes_per_second": 7, "flops": 2})"), "lacks memory_bytes"},
      {with_nodes(R"({"memory_bytes": 7, "bytes_per_second": 0, "flops": 2})"), "is 0"},
      {with_nodes(R"({"memory_bytes": 7, "bytes_per_second": "fast", "flops": 2})"), "expected a number"},
      {with_nodes(R"({"memory_bytes": -7, "bytes_per_second": 1, "flops": 2})"), "a number from 0"},
      {with_nodes(R"({"memory_bytes": 7, "bytes_per_second": 1e308, "flops": 2})"),
       "a number from 0 to 1e+30"},
      {with_nodes(R"({"memory_bytes": 7, "bytes_per_second": 1e-320, "flops": 2})"), "expected more"},
      {with_nodes("{" + node + R"(, "count": 2.5})"), "whole number"},
      {with_nodes("{" + node + R"(, "count": 1001})"), "from 1 to 1000"},
      {with_nodes("{" + node + R"(, "count": 2})"), "has no link"},
      {with_nodes("{" + node + R"(, "link": {"seconds": 1}})"), "lacks bytes_per_second"},
      {with_nodes("{" + node + R"(, "name": 1})"), "name is not a string"},
      {R"({"link": {"bytes_per_second": 1}, "nodes": [{"count": 600, )" + node + R"(}, {"count": 600, )" +
           node + "}]}",
       "more than 1000"},
      {R"({"prompt_tokens": 0, "nodes": [{)" + node + "}]}", "prompt_tokens is 0"},
      {R"({"prompt_tokens": 10001, "ubatch_size": 1, "nodes": [{)" + node + "}]}",
       "ubatch_size is 1, so the prompt has more than 10000 steps"},
  };
  for (const auto& [text, message] : cases) {
    try {
      (void)read_cluster(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidFile) << text;
      EXPECT_THAT(error.what(), HasSubstr(message)) << text;
    }
  }
}

}  // namespace
}  // namespace weft::cli
