// Files of every family in which one thing is wrong. Describing a file and building its graph is its check,
// so that is all that is done here: hostile_model_test loads some of them as well.
#include <algorithm>
#include <array>
#include <limits>

#include "engine/model_draft.h"
#include "model/family.h"

namespace weft {
namespace {

class HostileFamily : public testing::TestWithParam<const char*> {
 protected:
  /// The error's message, or "". Any error that does not blame the file fails the test.
  static std::string check(const test::Draft& draft) {
    const test::DraftFile written(draft);
    try {
      const gguf::File file = gguf::File::open(written.path());
      (void)model::build_graph(file, model::describe(file), {});
      return "";
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kInvalidFile || error.code() == ErrorCode::kUnsupported)
          << error.what();
      return error.what();
    }
  }
};

/// Tensors that a file may lack without an error: the model is then a different valid one.
bool may_lack(std::string_view tensor) {
  constexpr std::array kParts = {"output.weight", ".bias",        "rope_",      "layer_output_scale",
                                 "exps.scale",    "attn_sinks.",  "time_mix_v", "token_embd_norm",
                                 "attn_v.weight", "_norm.weight", "ssm_norm."};
  return std::any_of(kParts.begin(), kParts.end(),
                     [&](const char* part) { return tensor.find(part) != std::string_view::npos; });
}

TEST_P(HostileFamily, TheGoodOneIsAccepted) { EXPECT_EQ(check(test::Draft(GetParam())), ""); }

TEST_P(HostileFamily, NumbersThatAreWrongCrashNothing) {
  const test::Draft good(GetParam());
  const std::string prefix = good.key("");
  int n_refused = 0;
  for (const gguf::File::Entry& entry : good.original().metadata()) {
    if (!entry.key.starts_with(prefix)) continue;
    const auto refused = [&](auto value) {
      test::Draft draft = good;
      return !check(draft.set(entry.key, value)).empty();
    };
    n_refused += refused(std::uint32_t{0x7fffffff}) ? 1 : 0;
    refused(std::int64_t{-1});
    refused(std::uint32_t{0});
    refused(std::numeric_limits<float>::quiet_NaN());
    test::Draft draft = good;
    check(draft.set_array(entry.key, std::vector<std::uint32_t>{1}));
  }
  EXPECT_GT(n_refused, 4);
}

TEST_P(HostileFamily, TensorsThatAreMissingOrTooManyAreNamed) {
  const test::Draft good(GetParam());
  for (const test::Draft::Tensor& tensor : good.tensors) {
    if (tensor.name.starts_with("blk.") && !tensor.name.starts_with("blk.1.")) continue;
    test::Draft draft = good;
    const std::string error = check(draft.drop_tensor(tensor.name));
    EXPECT_TRUE(!error.empty() || may_lack(tensor.name)) << tensor.name;
  }
  test::Draft more = good;
  more.tensors.push_back({"blk.0.unheard.weight", DType::kF32, {4}, std::vector<std::byte>(16)});
  EXPECT_NE(check(more).find("blk.0.unheard.weight"), std::string::npos);
}

/// Without their keys, the widths of feed-forward parts come from the tensors.
TEST_P(HostileFamily, FeedForwardLengthsMayBeMissing) {
  test::Draft draft(GetParam());
  const model::HParams good = model::describe(draft.original()).hparams;
  const std::string ffn = draft.key("feed_forward_length"), experts = draft.key("expert_feed_forward_length");
  draft.drop(ffn);
  // A file with leading dense layers has both keys.
  if (!draft.has(experts)) {
    EXPECT_EQ(check(draft), "");
  }
  draft.drop(experts);
  EXPECT_EQ(check(draft), "");
  const test::DraftFile written(draft);
  const model::HParams derived = model::describe(gguf::File::open(written.path())).hparams;
  const auto expert_width = [](const model::HParams& h) { return h.experts ? h.experts->width : 0; };
  EXPECT_EQ(expert_width(derived), expert_width(good));
  const auto is_about = [&](const std::string& note) {
    return note.find("feed_forward_length") != note.npos;
  };
  const auto n_notes = std::count_if(derived.notes.begin(), derived.notes.end(), is_about);
  EXPECT_EQ(n_notes, (derived.ffn.width > 0 ? 1 : 0) + (expert_width(derived) > 0 ? 1 : 0));
}

/// Without its key, the context's length is the caller's choice, unless the model depends on it.
TEST_P(HostileFamily, TheContextLengthMayBeMissingOrBelowOne) {
  const test::Draft whole(GetParam());
  const std::string key = whole.key("context_length");
  const model::HParams good = model::describe(whole.original()).hparams;
  test::Draft missing = whole, zero = whole, negative = whole;
  missing.drop(key);
  zero.set(key, std::uint32_t{0});
  negative.set(key, std::int64_t{std::numeric_limits<std::int64_t>::min()});
  for (const test::Draft& draft : {missing, zero, negative}) {
    if (const std::string error = check(draft); !error.empty()) {
      EXPECT_NE(error.find("context_length"), std::string::npos) << error;
      EXPECT_TRUE(good.rope.ext_factor != 0.0f || (good.attention && good.attention->temperature)) << error;
      continue;
    }
    const test::DraftFile written(draft);
    const model::HParams without = model::describe(gguf::File::open(written.path())).hparams;
    EXPECT_EQ(without.n_ctx_train, good.embedding.learned_positions ? good.n_ctx_train : 0);
    ASSERT_FALSE(without.notes.empty());
    EXPECT_NE(without.notes.front().find(key), std::string::npos);
  }
}

TEST(HostileFamilyTest, DynamicRopeScalingIsNoted) {
  test::Draft draft("llama");
  const model::HParams good = model::describe(draft.original()).hparams;
  draft.set(draft.key("rope.scaling.type"), "dynamic").set(draft.key("rope.scaling.factor"), 4.0f);
  const test::DraftFile written(draft);
  const model::HParams found = model::describe(gguf::File::open(written.path())).hparams;
  EXPECT_EQ(found.rope.freq_scale, good.rope.freq_scale);
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_NE(found.notes[0].find("found \"dynamic\", which weft does not apply"), std::string::npos);
  EXPECT_NE(found.notes[0].find("of " + std::to_string(good.n_ctx_train) + " tokens"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Families, HostileFamily, testing::ValuesIn(test::kFamilies), test::name_of_family);
INSTANTIATE_TEST_SUITE_P(Sources, HostileFamily, testing::Values("../golden_sources/flan-t5"),
                         [](const auto&) { return "flan_t5"; });

TEST(HostileFamilyTest, NamesUnusedTensorsOfEncoderAndDecoder) {
  for (const char* const name : {"enc.blk.0.unheard.weight", "dec.blk.2.unheard.weight",
                                 "enc.blk.2.attn_q.weight", "dec.blk.3.attn_q.weight"}) {
    test::Draft draft("../golden_sources/flan-t5");
    draft.tensors.push_back({name, DType::kF32, {4}, std::vector<std::byte>(16)});
    const test::DraftFile written(draft);
    const gguf::File file = gguf::File::open(written.path());
    try {
      (void)model::build_graph(file, model::describe(file), {});
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST(HostileFamilyTest, AdaptersAndControlVectorsAreNoModels) {
  const auto refusal = [](const std::filesystem::path& path) -> std::string {
    try {
      (void)model::describe(gguf::File::open(path));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const auto folder = test::golden_dir().parent_path() / "adapters";
  EXPECT_NE(refusal(folder / "one.gguf").find("--lora"), std::string::npos);
  EXPECT_NE(refusal(folder / "control.gguf").find("--control-vector"), std::string::npos);
}

/// Biases belong to all layers or to none.
TEST(HostileFamilyTest, ABiasThatOneLayerLacksIsNamed) {
  for (const char* const bias : {"attn_qkv.bias", "attn_norm.bias", "ffn_down.bias"}) {
    test::Draft draft("bloom");
    const std::string name = std::string("blk.1.") + bias;
    const test::DraftFile written(draft.drop_tensor(name));
    const gguf::File file = gguf::File::open(written.path());
    try {
      (void)model::build_graph(file, model::describe(file), {});
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

/// Whether the weights of the chosen experts sum to 1. The default of this key depends on the family.
TEST(HostileFamilyTest, ExpertsAreNormedAsTheFileSays) {
  for (const char* const name : {"olmoe", "qwen2moe", "mixtral", "mimo2"})
    for (const bool normed : {false, true}) {
      test::Draft draft(name);
      const test::DraftFile written(draft.set(draft.key("expert_weights_norm"), normed));
      const gguf::File file = gguf::File::open(written.path());
      EXPECT_EQ(model::describe(file).hparams.experts->normalise, normed) << name;
    }
}

}  // namespace
}  // namespace weft
