// The formula of clusters, on numbers that are easily worked out by hand.
#include "cluster_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "weft/error.h"

namespace weft::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Layers of 100 bytes and 50 multiply-adds, a head of 200 and 100, rows of 10 floats.
ModelWork small_model(int n_layers) {
  ModelWork work;
  const ModelWork::Part layer = {.bytes = 100.0, .multiply_adds = 50.0, .memory_bytes = 100.0};
  work.layers.assign(static_cast<std::size_t>(n_layers), layer);
  work.head = {.bytes = 200.0, .multiply_adds = 100.0, .memory_bytes = 200.0};
  work.table_bytes = 50.0;
  work.width = 10;
  work.n_heads = 8;
  return work;
}

/// Nodes that read 100 bytes and compute 1000 operations a second, with links of 0.25 s and 80 bytes a
/// second.
Cluster alike(int n, int prompt_tokens = 40, double memory = 1e6) {
  Cluster cluster;
  cluster.prompt_tokens = prompt_tokens;
  cluster.ubatch_size = 40;
  for (int i = 0; i < n; ++i)
    cluster.nodes.push_back({.name = "n" + std::to_string(i),
                             .memory_bytes = memory,
                             .bytes_per_second = 100.0,
                             .flops = 1000.0,
                             .step_seconds = 0.5,
                             .link = {.seconds = 0.25, .bytes_per_second = 80.0}});
  return cluster;
}

TEST(ClusterPlan, OneNodeIsTheRoofline) {
  const std::vector<ClusterWay> ways = plan_cluster(small_model(4), alike(1));
  ASSERT_THAT(ways, SizeIs(1));
  EXPECT_DOUBLE_EQ(ways[0].token_seconds, 0.5 + 4 * 1.0 + 2.0);   // Bytes decide.
  EXPECT_DOUBLE_EQ(ways[0].prompt_seconds, 0.5 + 4 * 4.0 + 2.0);  // Operations do, but for the head.
  EXPECT_DOUBLE_EQ(ways[0].token_bytes, 0.0);
  EXPECT_DOUBLE_EQ(ways[0].groups[0].memory_bytes, 4 * 100.0 + 200.0 + 50.0);
}

TEST(ClusterPlan, APipelineHandsRowsOnAndATokenBack) {
  const ClusterWay way = plan_cluster(small_model(4), alike(2))[0];
  ASSERT_THAT(way.groups, SizeIs(2));
  EXPECT_EQ(way.groups[0].n_layers, 3);  // The head is as long as two layers.
  EXPECT_EQ(way.groups[1].n_layers, 1);
  EXPECT_DOUBLE_EQ(way.groups[0].memory_bytes, 350.0);
  EXPECT_DOUBLE_EQ(way.token_seconds, 3.5 + (0.25 + 40.0 / 80.0) + 3.5 + 0.25);
  EXPECT_DOUBLE_EQ(way.tokens_per_second, 1.0 / 4.25);
  EXPECT_DOUBLE_EQ(way.token_bytes, 40.0);
}

TEST(ClusterPlan, PartsOfAPromptFollowEachOther) {
  const ClusterWay way = plan_cluster(small_model(4), alike(2, 80))[0];
  const double handed_on = 0.25 + 40.0 * 40.0 / 80.0;
  const double first = 0.5 + 3 * 4.0 + handed_on, second = 0.5 + 4.0;
  EXPECT_DOUBLE_EQ(way.prompt_seconds, 2 * (first + second) + 2.0 + 0.25);
  EXPECT_DOUBLE_EQ(way.pipelined_prompt_seconds, 2 * first + second + 2.0 + 0.25);
}

TEST(ClusterPlan, TensorsAreSummedTwiceALayer) {
  const std::vector<ClusterWay> ways = plan_cluster(small_model(4), alike(4));
  ASSERT_THAT(ways, SizeIs(3));
  EXPECT_EQ(ways[2].group_size, 4);
  const double tree = 2 * 2 * (0.25 + 40.0 / 80.0), ring = 2 * 3 * (0.25 + 10.0 / 80.0);
  EXPECT_LT(ring, tree);
  EXPECT_DOUBLE_EQ(ways[2].token_seconds, 0.5 + 4 * (0.25 + 2 * ring) + 0.5 + 2 * 2 * 0.25);
  EXPECT_DOUBLE_EQ(ways[2].token_bytes, 4 * 2 * 2 * 3 * 40.0);
  EXPECT_DOUBLE_EQ(ways[2].groups[0].memory_bytes, 650.0 / 4);
  // With much latency a tree is shorter.
  Cluster slow = alike(8);
  for (ClusterNode& node : slow.nodes) node.link.seconds = 100.0;
  const double deep = 2 * 3 * (100.0 + 40.0 / 80.0);
  EXPECT_DOUBLE_EQ(plan_cluster(small_model(4), slow).back().token_seconds,
                   0.5 + 4 * (0.125 + 2 * deep) + 0.25 + 2 * 3 * 100.0);
}

TEST(ClusterPlan, TheSlowerNodeAndLinkDecide) {
  Cluster cluster = alike(2);
  cluster.nodes[1].bytes_per_second = 50.0;
  cluster.nodes[1].link = {.seconds = 1.0, .bytes_per_second = 40.0};
  const std::vector<ClusterWay> ways = plan_cluster(small_model(4), cluster);
  EXPECT_EQ(ways[0].groups[0].n_layers, 4);  // The slow one has the head alone.
  EXPECT_DOUBLE_EQ(ways[0].token_seconds, 4.5 + (1.0 + 1.0) + 4.5 + 1.0);
  EXPECT_DOUBLE_EQ(ways[1].token_seconds, 0.5 + 4 * (1.0 + 2 * 2 * (1.0 + 20.0 / 40.0)) + 2.0 + 2 * 1.0);
}

TEST(ClusterPlan, LayersGoWhereMemoryIs) {
  Cluster cluster = alike(3, 40, 350.0);
  cluster.nodes[0].memory_bytes = 160.0;
  const std::vector<ClusterWay> ways = plan_cluster(small_model(4), cluster);
  ASSERT_THAT(ways[0].groups, SizeIs(3));
  EXPECT_EQ(ways[0].groups[0].n_layers, 1);
  EXPECT_EQ(ways[0].groups[1].n_layers, 3);
  for (const ClusterWay& way : plan_cluster(small_model(4), alike(2, 40, 300.0)))
    EXPECT_THAT(way.problem, HasSubstr("does not fit")) << way.group_size;
}

TEST(ClusterPlan, MeasuredTokensComeOutAgain) {
  Cluster cluster = alike(1, 100);
  cluster.nodes[0].bytes_per_second = cluster.nodes[0].flops = 0.0;
  cluster.nodes[0].tokens_per_second = 0.2;
  cluster.nodes[0].prompt_tokens_per_second = 1.25;
  ModelWork work = small_model(4);
  work.cache_bytes_per_token = 0.5;
  work.attention_multiply_adds = 3.0;
  const ClusterWay way = plan_cluster(work, cluster)[0];
  EXPECT_NEAR(1.0 / way.token_seconds, 0.2, 1e-12);
  EXPECT_NEAR(100.0 / way.prompt_seconds, 1.25, 1e-12);
  cluster.nodes[0].step_seconds = 6.0;
  EXPECT_THROW(plan_cluster(work, cluster), Error);
}

TEST(ClusterPlan, OfExpertsThoseThatAreChosenAreRead) {
  ModelWork work = small_model(1);
  work.layers[0].expert_bytes = 800.0;
  work.n_experts = 8.0;
  work.used_experts = 2.0;
  Cluster cluster = alike(1, 2);
  const ClusterWay way = plan_cluster(work, cluster)[0];
  EXPECT_DOUBLE_EQ(way.token_seconds, 0.5 + 3.0 + 2.0);
  EXPECT_DOUBLE_EQ(way.prompt_seconds, 0.5 + 1.0 + 8.0 * (1.0 - 0.75 * 0.75) + 2.0);
}

TEST(ClusterPlan, AThousandNodes) {
  const std::vector<ClusterWay> ways = plan_cluster(small_model(30), alike(kMostNodes));
  ASSERT_THAT(ways, SizeIs(4));  // Groups of 1, 2, 4 and 8: there are 8 heads.
  for (const ClusterWay& way : ways) {
    EXPECT_LE(way.groups.size(), 31u);
    int next = 0;
    for (const ClusterWay::Group& group : way.groups) {
      EXPECT_EQ(group.first_layer, next);
      next += group.n_layers;
    }
    EXPECT_EQ(next, 30);
  }
}

FileInfo small_file() {
  FileInfo file;
  file.model.emplace();
  file.model->architecture = "llama";
  file.model->n_layers = 1;
  file.model->n_embd = 4;
  file.model->n_heads = 2;
  file.cache.bytes = 1000;
  file.cache.bytes_per_token = 10;
  file.metadata = {{"llama.expert_count", "u32", "4"}, {"llama.expert_used_count", "u32", "1"}};
  file.tensors = {{"token_embd.weight", "f32", {6, 4}, 96},
                  {"blk.0.attn_q.weight", "f32", {4, 4}, 64},
                  {"blk.0.ffn_up_exps.weight", "f32", {4, 4, 4}, 256},
                  {"blk.1.nextn.eh_proj.weight", "f32", {4, 8}, 128},
                  {"output_norm.weight", "f32", {4}, 16}};
  return file;
}

TEST(ClusterPlan, TheWorkOfAFile) {
  FileInfo file = small_file();
  ModelWork work = work_of(file);
  ASSERT_THAT(work.layers, SizeIs(1));
  EXPECT_EQ(work.layers[0].bytes, 64.0);
  EXPECT_EQ(work.layers[0].expert_bytes, 256.0);
  EXPECT_EQ(work.layers[0].multiply_adds, 16.0);
  EXPECT_EQ(work.layers[0].expert_multiply_adds, 64.0);
  EXPECT_EQ(work.layers[0].memory_bytes, 64.0 + 256.0 + 1000.0);
  EXPECT_EQ(work.head.bytes, 96.0 + 16.0);  // The table is the head, too.
  EXPECT_EQ(work.table_bytes, 96.0);
  EXPECT_EQ(work.attention_multiply_adds, 2.0 * 4);
  file.tensors.push_back({"output.weight", "f32", {6, 4}, 96});
  EXPECT_EQ(work_of(file).head.bytes, 96.0 + 16.0);
  file.metadata.push_back({"llama.attention.key_length", "u32", "8"});
  EXPECT_EQ(work_of(file).attention_multiply_adds, 2.0 * 2 * 8);
  file.model->encoder = true;
  EXPECT_THROW(work_of(file), Error);
  file.model.reset();
  EXPECT_THROW(work_of(file), Error);
}

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

TEST(ClusterDescription, WhatIsWrongIsSaid) {
  const std::string node = R"("memory_bytes": 7, "bytes_per_second": 1, "flops": 2)";
  const auto with_nodes = [](const std::string& nodes) { return R"({"nodes": [)" + nodes + "]}"; };
  const std::pair<std::string, std::string> cases[] = {
      {"[", "no JSON"},
      {"[]", "no object"},
      {"{}", "a list 'nodes'"},
      {with_nodes(""), "at least one"},
      {with_nodes("3"), "entry 1 of nodes is no object"},
      {with_nodes("{" + node + R"(, "cores": 2})"), "no field 'cores'; known are"},
      {with_nodes(R"({"memory_bytes": 7})"), "needs either"},
      {with_nodes("{" + node + R"(, "tokens_per_second": 2})"), "needs either"},
      {with_nodes(R"({"memory_bytes": 7, "flops": 2})"), "lacks bytes_per_second"},
      {with_nodes(R"({"bytes_per_second": 7, "flops": 2})"), "lacks memory_bytes"},
      {with_nodes(R"({"memory_bytes": 7, "bytes_per_second": 0, "flops": 2})"), "is 0"},
      {with_nodes(R"({"memory_bytes": 7, "bytes_per_second": "fast", "flops": 2})"), "expected a number"},
      {with_nodes(R"({"memory_bytes": -7, "bytes_per_second": 1, "flops": 2})"), "not negative"},
      {with_nodes("{" + node + R"(, "count": 2.5})"), "whole number"},
      {with_nodes("{" + node + R"(, "count": 1001})"), "from 1 to 1000"},
      {with_nodes("{" + node + R"(, "count": 2})"), "has no link"},
      {with_nodes("{" + node + R"(, "link": {"seconds": 1}})"), "lacks bytes_per_second"},
      {with_nodes("{" + node + R"(, "name": 1})"), "name is no text"},
      {R"({"link": {"bytes_per_second": 1}, "nodes": [{"count": 600, )" + node + R"(}, {"count": 600, )" +
           node + "}]}",
       "more than 1000"},
      {R"({"prompt_tokens": 0, "nodes": [{)" + node + "}]}", "prompt_tokens is 0"},
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
