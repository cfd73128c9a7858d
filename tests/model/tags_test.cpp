// Every node of a model says where it belongs, and says the same as its name does.
#include <gtest/gtest.h>

#include <charconv>
#include <filesystem>
#include <map>
#include <string>

#include "model/family.h"

namespace weft::model {
namespace {

ModelGraph graph_of(const std::string& name, const GraphSizes& sizes) {
  std::filesystem::path path = std::filesystem::path(WEFT_TEST_DATA) / "golden" / name / "model.gguf";
  if (!std::filesystem::exists(path))
    path = std::filesystem::path(WEFT_TEST_DATA) / "golden_encoders" / name / "model.gguf";
  const gguf::File file = gguf::File::open(path);
  return build_graph(file, describe(file), sizes);
}

/// "blk.3.attn_q" -> 3, "cache.k.3.moved" -> 3; -1 for names of no layer.
int layer_in_name(std::string_view name) {
  int layer = -1;
  for (const std::string_view prefix : {"blk.", "cache.k.", "cache.v."})
    if (name.starts_with(prefix))
      std::from_chars(name.data() + prefix.size(), name.data() + name.size(), layer);
  return layer;
}

class Tags : public testing::TestWithParam<const char*> {};

TEST_P(Tags, MatchTensorNames) {
  const ModelGraph model = graph_of(GetParam(), {.n_ubatch = 8, .n_outputs = 8, .n_best = 4});
  const Graph& graph = model.graph;
  std::map<Part, int> n_nodes;
  bool behind_layers = false;
  for (const Node& node : graph.nodes()) {
    const std::string& name = graph.value(node.output).name;
    ++n_nodes[node.tag.part];
    EXPECT_EQ(node.tag.shard, NodeTag::kNone) << name;
    if (const int layer = layer_in_name(name); layer >= 0) {
      EXPECT_EQ(node.tag.layer, layer) << name;
    }
    const bool of_layer = node.tag.layer != NodeTag::kNone;
    EXPECT_EQ(of_layer, node.tag.part != Part::kEmbedding && node.tag.part != Part::kHead) << name;
    EXPECT_EQ(node.tag.part == Part::kExperts,
              name.find("_exps") != std::string::npos ||
                  (name.find("ffn_glu") != std::string::npos && graph.value(node.output).shape.rank() == 3) ||
                  get_op<ops::SumExperts>(node) != nullptr)
        << name;
    if (get_op<ops::Attention>(node) != nullptr) {
      EXPECT_EQ(node.tag.part, Part::kAttention) << name;
    }
    if (get_op<ops::ShortConv>(node) != nullptr || get_op<ops::SelectiveScan>(node) != nullptr ||
        get_op<ops::DeltaRule>(node) != nullptr) {
      EXPECT_EQ(node.tag.part, Part::kRecurrent) << name;
    }
    behind_layers = behind_layers || node.tag.part == Part::kHead;
    EXPECT_EQ(node.tag.part == Part::kHead, behind_layers) << name;
  }
  EXPECT_EQ(n_nodes.count(Part::kOther), 0u);
  EXPECT_GT(n_nodes[Part::kEmbedding], 0);
  EXPECT_GT(n_nodes[Part::kHead], 0);
}

TEST_P(Tags, NumberTheShardsOfMatrices) {
  const ModelGraph model = graph_of(GetParam(), {.n_ubatch = 8, .n_outputs = 8, .row_shares = {1.0, 1.0}});
  int n_shards = 0;
  for (const Node& node : model.graph.nodes()) {
    const std::string& name = model.graph.value(node.output).name;
    const std::size_t mark = name.rfind('#');
    EXPECT_EQ(node.tag.shard, mark == std::string::npos ? NodeTag::kNone : std::stoi(name.substr(mark + 1)))
        << name;
    n_shards += mark != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(n_shards, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, Tags,
                         testing::Values("llama", "qwen3", "qwen3moe", "gemma3", "phi3", "gpt2", "mamba",
                                         "mamba2", "lfm2", "gemma-embedding", "qwen3next"));

}  // namespace
}  // namespace weft::model
