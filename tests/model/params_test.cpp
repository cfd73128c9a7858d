// Groups of hyper-parameters: which models have them, and what their keys default to.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "gguf/writer.h"
#include "model/family.h"
#include "model/hparams.h"
#include "weft/error.h"

namespace weft::model {
namespace {

/// Metadata of these keys, for as long as the object lives.
class Keys {
 public:
  Keys& set(const std::string& key, std::uint32_t value) {
    writer_.set("llama." + key, value);
    return *this;
  }
  Keys& set(const std::string& key, float value) {
    writer_.set("llama." + key, value);
    return *this;
  }
  Metadata metadata() {
    file_.emplace(writer_.planned());
    return Metadata(*file_, "llama");
  }

 private:
  gguf::Writer writer_;
  std::optional<gguf::File> file_;
};

std::string refusal(const auto& read) {
  try {
    read();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ExpertParams, AreAbsentWithoutACount) {
  Keys keys;
  std::vector<std::string> notes;
  EXPECT_FALSE(read_experts(keys.metadata(), 2, 32, notes));
  EXPECT_TRUE(notes.empty());
  EXPECT_FALSE(read_experts(keys.set("expert_used_count", 2U).metadata(), 2, 32, notes));
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("there are no experts"), std::string::npos) << notes[0];
}

TEST(ExpertParams, TakeTheWidthOfFeedForwardPartsWithoutAKey) {
  Keys keys;
  std::vector<std::string> notes;
  keys.set("expert_count", 8U).set("expert_used_count", 2U).set("feed_forward_length", 32U);
  const auto experts = read_experts(keys.metadata(), 3, 32, notes);
  ASSERT_TRUE(experts);
  EXPECT_EQ(experts->n, 8);
  EXPECT_EQ(experts->n_used, 2);
  EXPECT_EQ(experts->width_of, std::vector<int>(3, 32));
  EXPECT_EQ(experts->n_groups, 1);
}

TEST(ExpertParams, RoutersFollowTheFileThenTheFamily) {
  Keys keys;
  HParams h;
  h.n_layers = 2;
  EXPECT_NE(refusal([&] { read_router(keys.metadata(), h); }).find("expert_count"), std::string::npos);
  h.experts = ExpertParams{.n = 8, .n_used = 2, .width = 16};
  EXPECT_TRUE(read_router(keys.metadata(), h, {.sigmoid = true, .normalise = false}).sigmoid);
  EXPECT_FALSE(h.experts->normalise);
  EXPECT_EQ(h.experts->shared_width, 0);
  keys.set("expert_gating_func", 1U).set("expert_shared_count", 2U).set("expert_weights_scale", 0.0f);
  EXPECT_FALSE(read_router(keys.metadata(), h, {.sigmoid = true}).sigmoid);
  EXPECT_EQ(h.experts->shared_width, 32);
  EXPECT_EQ(h.experts->scale, 1.0f);
  keys.set("expert_group_count", 3U);
  EXPECT_NE(refusal([&] { read_router(keys.metadata(), h); }).find("found 3 for 8 experts"),
            std::string::npos);
}

/// Tensors of a router without rows would fit 0 experts.
TEST(ExpertParams, RoutersOfModelsWithoutExpertsAreRefused) {
  const gguf::File good = gguf::File::open(WEFT_TEST_DATA "/golden/gemma4-moe/model.gguf");
  std::vector<gguf::File::Entry> metadata(good.metadata().begin(), good.metadata().end());
  std::erase_if(metadata, [](const gguf::File::Entry& e) { return e.key == "gemma4.expert_count"; });
  const auto build = [&](std::int64_t n_rows) {
    std::vector<gguf::TensorInfo> tensors(good.tensors().begin(), good.tensors().end());
    for (gguf::TensorInfo& tensor : tensors)
      if (tensor.name.ends_with(".ffn_gate_inp.weight")) tensor.shape[0] = n_rows;
    const gguf::File file = gguf::File::planned(metadata, tensors);
    return refusal([&] { (void)build_graph(file, describe(file), {}); });
  };
  EXPECT_NE(build(4).find("blk.0.ffn_gate_inp.weight has the shape"), std::string::npos) << build(4);
  EXPECT_NE(build(0).find("blk.0.ffn_gate_inp.weight is of a model without experts"), std::string::npos);
}

TEST(WindowParams, AreAbsentWhereTheWindowIs0) {
  Keys keys;
  EXPECT_FALSE(read_window(keys.metadata()));
  EXPECT_EQ(read_window(keys.metadata(), 64)->size, 64);
  EXPECT_FALSE(read_window(keys.set("attention.sliding_window", 0U).metadata(), 64));
}

TEST(WindowParams, LayersSlideOnlyWithAWindow) {
  Keys keys;
  HParams h;
  h.n_layers = 6;
  read_sliding(keys.metadata(), h, 3);
  EXPECT_FALSE(h.slides(0));
  EXPECT_EQ(h.window_of(0), 0);
  EXPECT_NE(refusal([&] { require_window(keys.metadata(), h); }).find("attention.sliding_window"),
            std::string::npos);
  h.window = WindowParams{.size = 16};
  EXPECT_FALSE(h.slides(0)) << "no family has said which layers slide";
  read_sliding(keys.metadata(), h, 3);
  EXPECT_EQ(h.window_of(1), 16);
  EXPECT_EQ(h.window_of(2), 0);
  read_sliding(keys.metadata(), h, 3, FullLayer::kFirst);
  EXPECT_EQ(h.window_of(0), 0);
  EXPECT_EQ(h.window_of(2), 16);
}

TEST(RopeAxes, FollowOneAnotherOrAlternate) {
  RopeAxes axes{.sections = {2, 1, 1}};
  const auto all = [&] {
    std::vector<std::size_t> result;
    for (int pair = 0; pair < 4; ++pair) result.push_back(axes.of_pair(pair));
    return result;
  };
  EXPECT_EQ(all(), (std::vector<std::size_t>{0, 0, 1, 2}));
  axes.interleaved = true;
  EXPECT_EQ(all(), (std::vector<std::size_t>{0, 1, 2, 0}));
}

TEST(HParams, CachesHaveNoHeadsWithoutAttention) {
  HParams h;
  EXPECT_EQ(h.k_head_dim(), 0);
  h.attention = AttentionParams{.k_head_dim = 64, .v_head_dim = 32};
  EXPECT_EQ(h.k_head_dim(), 64);
  EXPECT_EQ(h.v_head_dim(), 32);
}

}  // namespace
}  // namespace weft::model
