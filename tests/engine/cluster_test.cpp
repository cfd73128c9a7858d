// The formula of clusters, on numbers that are easily worked out by hand, and what models are to it.
#include "weft/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "engine/devices/model_work.h"
#include "engine/test_support.h"
#include "weft/error.h"

namespace weft {
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
  work.n_heads = work.n_kv_heads = 8;
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

TEST(ClusterPlan, PipelinesForwardRowsAndReturnATokenId) {
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

/// That, where nodes that share layers exchange 80 bytes of a row in each, in four messages.
ModelWork shared_model(int n_layers) {
  ModelWork work = small_model(n_layers);
  for (ModelWork::Part& layer : work.layers) {
    layer.messages = 4.0;
    layer.gathered_bytes = 80.0;
  }
  work.head.messages = 1.0;
  work.head.collected_bytes = 160.0;
  return work;
}

TEST(ClusterPlan, TensorsAreGathered) {
  const std::vector<ClusterWay> ways = plan_cluster(shared_model(4), alike(4));
  ASSERT_THAT(ways, SizeIs(3));
  EXPECT_EQ(ways[2].group_size, 4);
  // With two nodes, both send a half at once.
  const ClusterWay two = plan_cluster(shared_model(4), alike(2))[1];
  EXPECT_DOUBLE_EQ(two.token_seconds, 0.5 + 4 * (0.5 + 4 * 0.25 + 40.0 / 80.0) + 1.0 + 0.25 + 80.0 / 80.0);
  EXPECT_DOUBLE_EQ(two.token_bytes, 4 * 80.0 + 80.0);
  // With four nodes, each sends its quarter to three, and gets three quarters at once.
  const double gathered = 3 * 20.0 / 80.0, collected = 3 * 40.0 / 80.0;
  EXPECT_DOUBLE_EQ(ways[2].token_seconds, 0.5 + 4 * (0.25 + 4 * 0.25 + gathered) + 0.5 + 0.25 + collected);
  EXPECT_DOUBLE_EQ(ways[2].token_bytes, 4 * 240.0 + 120.0);
  EXPECT_DOUBLE_EQ(ways[2].groups[0].memory_bytes, 600.0 / 4 + 50.0);  // Each may be the first.
}

TEST(ClusterPlan, UnshardedTensorsAreOnTheFirstNode) {
  ModelWork work = small_model(4);
  for (ModelWork::Part& layer : work.layers) {
    layer.whole_bytes = 60.0;
    layer.whole_multiply_adds = 30.0;
    layer.messages = 2.0;
    layer.handed_out_bytes = 40.0;
  }
  const ClusterWay way = plan_cluster(work, alike(2))[1];
  EXPECT_DOUBLE_EQ(way.token_seconds, 0.5 + 4 * (0.2 + 0.6 + 2 * 0.25 + 40.0 / 80.0) + 1.0);
  EXPECT_DOUBLE_EQ(way.groups[0].memory_bytes, 4 * (20.0 + 60.0) + 100.0 + 50.0);
}

TEST(ClusterPlan, HeadsAreNotBroken) {
  ModelWork work = small_model(4);
  work.n_kv_heads = 3;
  for (ModelWork::Part& layer : work.layers) layer.heads_bytes = 60.0;
  EXPECT_DOUBLE_EQ(plan_cluster(work, alike(2))[1].token_seconds, 0.5 + 4 * (0.4 + 0.2) + 1.0);
}

/// The head takes as long as it does after a long prompt, so it may take longer than a short one is said to.
TEST(ClusterPlan, PromptsOfATokenOrTwo) {
  for (const int n : {1, 2}) {
    Cluster cluster = alike(1, n);
    cluster.nodes[0] = {
        .name = "n", .memory_bytes = 1e6, .tokens_per_second = 0.2, .prompt_tokens_per_second = 5.0};
    const ClusterWay way = plan_cluster(small_model(4), cluster)[0];
    EXPECT_NEAR(1.0 / way.token_seconds, 0.2, 1e-12);
    EXPECT_TRUE(way.prompt_seconds > 0.0 && std::isfinite(way.prompt_seconds));
  }
}

TEST(ClusterPlan, TheSlowerNodeAndLinkDecide) {
  Cluster cluster = alike(2);
  cluster.nodes[1].bytes_per_second = 50.0;
  cluster.nodes[1].link = {.seconds = 1.0, .bytes_per_second = 40.0};
  const std::vector<ClusterWay> ways = plan_cluster(shared_model(4), cluster);
  EXPECT_EQ(ways[0].groups[0].n_layers, 4);  // The slow one has the head alone.
  EXPECT_DOUBLE_EQ(ways[0].token_seconds, 4.5 + (1.0 + 1.0) + 4.5 + 1.0);
  EXPECT_DOUBLE_EQ(ways[1].token_seconds, 0.5 + 4 * (1.0 + 4 * 1.0 + 40.0 / 40.0) + 2.0 + 1.0 + 80.0 / 40.0);
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

TEST(ClusterPlan, WithoutNodesTokensOrSpeedsThereIsNone) {
  const ModelWork work = small_model(1);
  const auto refused = [&](auto change) {
    Cluster cluster = alike(2);
    change(cluster);
    try {
      plan_cluster(work, cluster);
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::kInvalidArgument;
    }
  };
  EXPECT_FALSE(refused([](Cluster&) {}));
  EXPECT_TRUE(refused([](Cluster& cluster) { cluster.nodes.clear(); }));
  EXPECT_TRUE(refused([](Cluster& cluster) { cluster.prompt_tokens = 0; }));
  EXPECT_TRUE(refused([](Cluster& cluster) { cluster.ubatch_size = 0; }));
  EXPECT_TRUE(refused(
      [](Cluster& cluster) { cluster.prompt_tokens = kMostPromptSteps + 1, cluster.ubatch_size = 1; }));
  EXPECT_TRUE(refused([](Cluster& cluster) { cluster.nodes[1].flops = 0.0; }));
  EXPECT_TRUE(refused([](Cluster& cluster) { cluster.nodes[0].bytes_per_second = 0.0; }));
  EXPECT_TRUE(refused([](Cluster& cluster) { cluster.nodes[1].link = {}; }));
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
  const std::vector<ClusterWay> ways = plan_cluster(small_model(30), alike(1000));
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

TEST(ModelWork, IsThatOfAFilesTensors) {
  FileInfo file = small_file();
  ModelWork work = engine::work_of(file);
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
  EXPECT_EQ(engine::work_of(file).head.bytes, 96.0 + 16.0);
  file.metadata.push_back({"llama.attention.key_length", "u32", "8"});
  EXPECT_EQ(engine::work_of(file).attention_multiply_adds, 2.0 * 2 * 8);
  file.model->encoder = true;
  EXPECT_THROW(engine::work_of(file), Error);
  file.model.reset();
  EXPECT_THROW(engine::work_of(file), Error);
}

/// What a model's graph says of devices that compute layers together.
ModelWork work_of_golden(const char* family) { return work_of(test::golden_dir() / family / "model.gguf"); }

TEST(ModelWork, ALayerGathersFourTimes) {
  const ModelWork work = work_of_golden("llama");
  const FileInfo file = inspect(test::golden_dir() / "llama" / "model.gguf");
  const auto shape_of = [&](const char* name) {
    for (const FileInfo::Tensor& tensor : file.tensors)
      if (tensor.name == name) return tensor.shape;
    return std::vector<std::int64_t>{0, 0};
  };
  const double n_attended = static_cast<double>(shape_of("blk.0.attn_output.weight")[1]);
  const double n_ff = static_cast<double>(shape_of("blk.0.ffn_down.weight")[1]);
  const double gathered = 4.0 * (n_attended + n_ff + 2.0 * work.width);
  double messages = 0.0, all_gathered = 0.0;
  const auto add = [&](const ModelWork::Part& part) {
    messages += part.messages;
    all_gathered += part.gathered_bytes;
  };
  for (const ModelWork::Part& layer : work.layers) {
    add(layer);
    EXPECT_EQ(layer.whole_bytes, 0.0);
    EXPECT_GT(layer.heads_bytes, 0.0);
    EXPECT_FALSE(layer.is_cache_whole);
  }
  add(work.head);
  EXPECT_EQ(work.layers[1].messages, 4.0);
  EXPECT_EQ(work.layers[1].gathered_bytes, gathered);
  // The other nodes get their rows at first, and the first node gets the logits. The output of the last layer
  // is gathered for the head.
  const auto n_layers = static_cast<double>(work.layers.size());
  EXPECT_EQ(messages, 4.0 * n_layers + 2.0);
  EXPECT_EQ(all_gathered, n_layers * gathered);
  EXPECT_EQ(work.layers[0].handed_out_bytes, 4.0 * work.width);
  EXPECT_EQ(work.head.collected_bytes, 4.0 * file.model->n_vocab);
}

TEST(ModelWork, UnshardedWeightsAreOnTheFirstNode) {
  bool one_head = false, recurrent = false;
  for (const char* const family : test::kFamilies) {
    const FileInfo file = inspect(test::golden_dir() / family / "model.gguf");
    if (!file.model || file.model->encoder || file.model->reads_source) continue;
    const ModelWork work = work_of_golden(family);
    for (const ModelWork::Part& layer : work.layers) {
      if (!layer.is_cache_whole) continue;
      EXPECT_EQ(layer.heads_bytes, 0.0) << family;
      EXPECT_GT(layer.handed_out_bytes, 0.0) << family;
      one_head = one_head || file.model->n_kv_heads == 1;
      recurrent = recurrent || file.model->recurrent;
    }
  }
  EXPECT_TRUE(one_head);
  EXPECT_TRUE(recurrent);
}

}  // namespace
}  // namespace weft
