// Model files that are valid as files and wrong as models. Each test changes one detail in a good file. The
// file is refused with an error that names the key or tensor, or it loads and then computes. Nothing crashes,
// hangs or grows without bound.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/test_support.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "weft/error.h"
#include "weft/sampler.h"

namespace weft {
namespace {

using gguf::File;
using gguf::TensorInfo;
using gguf::Writer;

/// A file in memory before it is written: what the cases below change.
struct DraftFile {
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
  };
  std::vector<File::Entry> metadata;
  std::vector<Tensor> tensors;

  explicit DraftFile(const File& file) {
    metadata.assign(file.metadata().begin(), file.metadata().end());
    for (const TensorInfo& t : file.tensors())
      tensors.push_back({t.name, t.dtype, t.shape, {t.data.begin(), t.data.end()}});
  }
  void drop(std::string_view key) {
    std::erase_if(metadata, [&](const auto& entry) { return entry.key == key; });
  }
  Tensor& tensor(std::string_view name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
  }
};

/// The result of a draft: the error's message, or "" if it loads and computes.
class Hostile : public testing::TestWithParam<const char*> {
 protected:
  Hostile() : file(File::open(test::golden_dir() / GetParam() / "model.gguf")) {}

  std::string load(const DraftFile& draft, const std::function<void(Writer&)>& change = {}) const {
    Writer writer;
    for (const auto& entry : draft.metadata) writer.set(entry.key, entry.value);
    for (const DraftFile::Tensor& t : draft.tensors)
      writer.add_tensor(t.name, t.dtype, t.shape, std::span(t.bytes));
    const auto path = std::filesystem::path(testing::TempDir()) /
                      (std::string("hostile-") + GetParam() + "-" + std::to_string(::getpid()) + ".gguf");
    try {
      if (change) change(writer);
      writer.write_file(path);
    } catch (const Error& error) {
      return std::string("not written: ") + error.what();
    }
    std::string result;
    try {
      const auto model = Model::load(path, {.n_threads = 1});
      Context context(model, {.n_ctx = 32, .n_threads = 1});
      Batch batch;
      for (const Token token : {1, 2, 3}) batch.add(token, 0, {.logits = true});
      EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
      Sampler sampler({.seed = 1}, model->info().n_vocab);
      const Token token = sampler.sample(context.logits(2));
      EXPECT_TRUE(token >= 0 && token < model->info().n_vocab);
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kInvalidFile || error.code() == ErrorCode::kUnsupported ||
                  error.code() == ErrorCode::kInvalidArgument)
          << error.what();
      result = error.what();
    }
    std::filesystem::remove(path);
    return result;
  }

  static void expect_names(const std::string& error, std::string_view name, const std::string& what) {
    EXPECT_NE(error.find(name), std::string::npos)
        << what << ": " << (error.empty() ? "was accepted" : error);
  }

  /// A model without attention has no use for the keys of heads and rope.
  bool reads(std::string_view name) const {
    return !std::string_view(GetParam()).starts_with("mamba") ||
           !(name.starts_with("attention.head") || name.starts_with("rope."));
  }

  std::string key(const char* name) const {
    return std::string(*file.get_string("general.architecture")) + "." + name;
  }

  File file;
};

TEST_P(Hostile, TheGoodOneLoads) { EXPECT_EQ(load(DraftFile(file)), ""); }

TEST_P(Hostile, ImpossibleCountsAreNamed) {
  const DraftFile draft(file);
  for (const char* name :
       {"block_count", "embedding_length", "attention.head_count", "attention.head_count_kv",
        "feed_forward_length", "attention.key_length", "attention.value_length", "rope.dimension_count",
        "context_length", "ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank",
        "ssm.group_count", "shortconv.l_cache"}) {
    const std::string full = key(name);
    if (file.find(full) == nullptr || !reads(name)) continue;
    const bool unused =
        std::string_view(name) == "feed_forward_length" && file.find(key("expert_count")) != nullptr;
    const auto check = [&](auto value) {
      const std::string error = load(draft, [&](Writer& w) { w.set(full, value); });
      EXPECT_TRUE(unused || !error.empty()) << full;
    };
    // A length below 1 is as good as a missing one.
    const auto check_negative = [&](std::int64_t value) {
      if (std::string_view(name) == "context_length")
        load(draft, [&](Writer& w) { w.set(full, value); });
      else
        check(value);
    };
    check(std::uint32_t{0x7fffffff});
    check(std::uint32_t{0xffffffff});
    check(~std::uint64_t{0});
    check_negative(-1);
    check_negative(std::numeric_limits<std::int64_t>::min());
    check(1.5f);
    check("text");
    load(draft, [&](Writer& w) { w.set(full, true); });  // Is read as 1.
    // 0 is a way of saying "not given" for some; none may crash.
    load(draft, [&](Writer& w) { w.set(full, std::uint32_t{0}); });
    load(draft, [&](Writer& w) { w.set_array(full, std::vector<std::uint32_t>{1, 2}); });
    const auto n_layers = static_cast<std::size_t>(*file.get_int(key("block_count")));
    for (const std::size_t n : {std::size_t{0}, n_layers - 1, n_layers + 1}) {
      const std::string error =
          load(draft, [&](Writer& w) { w.set_array(full, std::vector<std::uint32_t>(n, 1)); });
      expect_names(error, full, "an array of " + std::to_string(n));
    }
  }
  for (const char* name : {"block_count", "embedding_length", "attention.head_count"}) {
    if (!reads(name)) continue;
    DraftFile without = draft;
    without.drop(key(name));
    expect_names(load(without), key(name), "missing");
    expect_names(load(draft, [&](Writer& w) { w.set(key(name), std::uint32_t{0}); }), key(name), "zero");
  }
}

TEST_P(Hostile, ContradictionsAreRefused) {
  const DraftFile draft(file);
  const auto refused = [&](const char* name, std::uint32_t value) {
    EXPECT_NE(load(draft, [&](Writer& w) { w.set(key(name), value); }), "") << name << " " << value;
  };
  const auto n_layers = static_cast<std::uint32_t>(*file.get_int(key("block_count")));
  refused("block_count", n_layers - 1);
  refused("block_count", n_layers + 1);
  if (reads("attention.head_count")) refused("attention.head_count", 3);
  for (const char* name : {"ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank",
                           "ssm.group_count", "shortconv.l_cache"})
    if (const auto value = file.get_int(key(name))) {
      refused(name, static_cast<std::uint32_t>(*value) - 1);
      refused(name, static_cast<std::uint32_t>(*value) + 1);
    }
  if (file.find(key("expert_count")) != nullptr) {
    const auto n = static_cast<std::uint32_t>(*file.get_int(key("expert_count")));
    refused("expert_count", n - 1);
    refused("expert_used_count", 0);
    refused("expert_used_count", n + 1);
    refused("expert_feed_forward_length", 1);
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* name :
       {"rope.freq_base", "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"}) {
    if (file.find(key(name)) == nullptr) continue;
    for (const float value : {nan, -1.0f, std::numeric_limits<float>::infinity()})
      expect_names(load(draft, [&](Writer& w) { w.set(key(name), value); }), key(name),
                   std::to_string(value));
  }
  for (const char* type : {"bogus", "Linear"})
    if (reads("rope.scaling.type"))
      expect_names(load(draft, [&](Writer& w) { w.set(key("rope.scaling.type"), type); }),
                   key("rope.scaling.type"), type);
  expect_names(load(draft, [&](Writer& w) { w.set("general.architecture", "unheard"); }), "unheard", "");
  constexpr std::pair<const char*, const char*> kForeignModels[] = {{"llada", "diffusion"},
                                                                    {"clip", "--mmproj"},
                                                                    {"wavtokenizer-dec", "audio"},
                                                                    {"eagle3", "drafter"},
                                                                    {"glm-dsa", "sparse attention"}};
  for (const auto& [architecture, reason] : kForeignModels)
    expect_names(load(draft, [&](Writer& w) { w.set("general.architecture", architecture); }), reason,
                 architecture);
}

// Tensors that no node reads are refused, in layers and outside of them, unless they are known to be unused.
TEST_P(Hostile, NamesUnusedTensors) {
  const DraftFile draft(file);
  const auto with = [&](const char* name) {
    DraftFile more = draft;
    more.tensors.push_back({name, DType::kF32, {4}, std::vector<std::byte>(16)});
    return load(more);
  };
  for (const char* name : {"mystery.weight", "blk.0.mystery.weight", "rope_mystery.weight", "output.mystery"})
    expect_names(with(name), name, "unread");
  for (const char* name : {"mm.0.weight", "v.patch_embd.weight", "output.input_scale"})
    EXPECT_EQ(with(name), "");
}

TEST_P(Hostile, TensorsThatDoNotFitAreNamed) {
  const DraftFile draft(file);
  std::size_t n = 0;
  for (const DraftFile::Tensor& t : draft.tensors) {
    if (t.name.starts_with("blk.") && !t.name.starts_with("blk.1.")) continue;
    const bool optional =
        t.name == "output.weight" || t.name == "rope_freqs.weight" || t.name.ends_with(".bias");
    const auto changed = [&](const std::function<void(DraftFile::Tensor&)>& change) {
      DraftFile copy = draft;
      change(copy.tensor(t.name));
      return load(copy);
    };
    DraftFile without = draft;
    std::erase_if(without.tensors, [&](const DraftFile::Tensor& other) { return other.name == t.name; });
    if (optional)
      load(without);
    else
      expect_names(load(without), t.name, "missing");

    const std::int64_t rows = t.shape[0];
    if (rows > 1)
      expect_names(changed([&](DraftFile::Tensor& x) {
                     x.shape[0] = rows - 1;
                     x.bytes.resize(x.bytes.size() / static_cast<std::size_t>(rows) *
                                    static_cast<std::size_t>(rows - 1));
                   }),
                   t.name == "token_embd.weight" ? "weight" : t.name, "a row less");
    // A size of 1 in front of the others leaves all rows as they are.
    EXPECT_EQ(changed([&](DraftFile::Tensor& x) { x.shape.insert(x.shape.begin(), 1); }), "") << t.name;
    expect_names(changed([&](DraftFile::Tensor& x) {
                   x.shape.insert(x.shape.begin(), 2);
                   x.bytes.resize(2 * x.bytes.size());
                 }),
                 t.name == "token_embd.weight" ? "token_embd" : t.name, "another rank");
    if (t.name.ends_with("norm.weight")) {
      EXPECT_EQ(changed([&](DraftFile::Tensor& x) { x.shape.push_back(1); }), "") << t.name;
    }
    expect_names(changed([&](DraftFile::Tensor& x) {
                   x.dtype = DType::kI8;
                   x.bytes.resize(x.bytes.size() / static_cast<std::size_t>(info(t.dtype).block_bytes));
                 }),
                 t.name, "integers");
    // NaN everywhere neither refuses a model nor crashes it.
    changed([](DraftFile::Tensor& x) { std::fill(x.bytes.begin(), x.bytes.end(), std::byte{0xff}); });
    n += 5;
  }
  EXPECT_GT(n, 40u);
}

TEST_P(Hostile, VocabulariesThatContradictThemselvesAreRefused) {
  const DraftFile draft(file);
  const std::vector<std::string>& tokens = *file.get_strings("tokenizer.ggml.tokens");
  const auto refused = [&](const char* name, auto value) {
    const std::string error = load(draft, [&](Writer& w) { w.set_array(name, std::move(value)); });
    EXPECT_NE(error, "") << name;
  };
  std::vector<std::string> more = tokens;
  more.emplace_back("of no row");
  refused("tokenizer.ggml.tokens", more);
  refused("tokenizer.ggml.tokens", std::vector<std::string>{});
  refused("tokenizer.ggml.tokens", std::vector<std::uint32_t>(tokens.size()));
  refused("tokenizer.ggml.token_type", std::vector<std::int32_t>{1});
  for (const auto id : {static_cast<std::uint32_t>(tokens.size()), std::uint32_t{0x7fffffff}})
    EXPECT_EQ(load(draft, [&](Writer& w) { w.set("tokenizer.ggml.seperator_token_id", id); }), "");
  EXPECT_NE(load(draft, [](Writer& w) { w.set("tokenizer.ggml.model", "unheard"); }), "");
  std::vector<std::string> huge = tokens;
  huge[300] = std::string(1 << 20, 'x');
  refused("tokenizer.ggml.tokens", huge);
  if (*file.get_string("tokenizer.ggml.model") == "gpt2") {
    EXPECT_NE(load(draft, [](Writer& w) { w.set("tokenizer.ggml.pre", "unheard"); }), "");
  } else {
    refused("tokenizer.ggml.scores", std::vector<float>{0.0f});
    refused("tokenizer.ggml.scores",
            std::vector<float>(tokens.size(), std::numeric_limits<float>::quiet_NaN()));
  }
}

TEST_P(Hostile, ABrokenTemplateLeavesTheModelUsable) {
  EXPECT_EQ(load(DraftFile(file), [](Writer& w) { w.set("tokenizer.chat_template", "{% for x in %}{{"); }),
            "");
  EXPECT_EQ(
      load(DraftFile(file), [](Writer& w) { w.set("tokenizer.chat_template", std::string(100000, '(')); }),
      "");
}

INSTANTIATE_TEST_SUITE_P(Families, Hostile,
                         testing::Values("llama", "llama-rope3", "qwen2", "qwen3moe", "gemma3", "phi3",
                                         "gpt2", "mamba", "mamba2", "lfm2", "qwen3next"),
                         test::name_of_family);

}  // namespace
}  // namespace weft
