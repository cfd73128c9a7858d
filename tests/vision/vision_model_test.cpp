// Encoders of images compared with transformers, and prompts with images.
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <limits>
#include <random>
#include <string>
#include <tuple>

#include "engine/test_support.h"
#include "vision/vision_testing.h"
#include "weft/context.h"

namespace weft {
namespace {

class Vision : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path dir() const { return test::vision_dir() / GetParam(); }
};

TEST_P(Vision, MatchesTransformersWithAnyThreadCount) {
  const std::vector<float> expected = test::read_floats(dir() / "rows.f32");
  std::vector<float> first;
  for (const int n_threads : {1, 2}) {
    const auto vision =
        VisionModel::load(dir() / "mmproj.gguf", {.devices = {"cpu"}, .n_threads = n_threads});
    const auto encoded = vision->encode(test::tiny_image(GetParam()));
    ASSERT_EQ(encoded->rows.size(), expected.size());
    const double difference = test::nmse(encoded->rows, expected);
    RecordProperty("nmse", testing::PrintToString(difference));
    EXPECT_LE(difference, 1e-6);
    if (first.empty()) first = encoded->rows;
    EXPECT_TRUE(encoded->rows == first) << n_threads << " threads";
  }
}

TEST_P(Vision, CachesRepeatedImages) {
  const auto vision = VisionModel::load(dir() / "mmproj.gguf", {.devices = {"cpu"}});
  const Image picture = test::tiny_image(GetParam());
  Image other = picture;
  other.rgb[100] ^= 1;
  const auto first = vision->encode(picture);
  const auto second = vision->encode(other);
  EXPECT_NE(first->id, second->id);
  EXPECT_EQ(vision->encode(picture), first);
  EXPECT_EQ(vision->n_computed(), 2);
  EXPECT_EQ(vision->n_found(), 1);

  const auto forgetful = VisionModel::load(dir() / "mmproj.gguf", {.devices = {"cpu"}, .cache_bytes = 0});
  EXPECT_NE(forgetful->encode(picture)->id, forgetful->encode(picture)->id);
  // An image of another model has another id: both may be in one cache.
  EXPECT_NE(VisionModel::load(dir() / "mmproj.gguf", {.devices = {"cpu"}})->encode(other)->id, first->id);
  EXPECT_TRUE(forgetful->encode(picture)->rows == first->rows);
}

TEST_P(Vision, EncodingCanBeCancelled) {
  const auto vision = VisionModel::load(dir() / "mmproj.gguf", {.devices = {"cpu"}});
  const Image picture = test::tiny_image(GetParam());
  try {
    vision->encode(picture, [] { return false; });
    ADD_FAILURE() << "not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
  EXPECT_EQ(vision->n_computed(), 0);
  EXPECT_FALSE(vision->encode(picture, [] { return true; })->rows.empty());
}

TEST_P(Vision, PlacesImagesAtMarks) {
  const auto vision = VisionModel::load(dir() / "mmproj.gguf", {.devices = {"cpu"}});
  const auto model = Model::load(test::golden_dir() / "gemma3" / "model.gguf");
  const std::string mark = make_media_marker();
  EXPECT_NE(mark, make_media_marker());
  const std::shared_ptr<const EncodedMedia> images[] = {vision->encode(test::tiny_image(GetParam()))};
  const std::vector<PromptPiece> prompt = {
      {"a ", true}, {"question " + mark + " of", false}, {" somebody", true}};
  const PromptWithMedia placed = place_media(model->tokenizer(), prompt, images, mark);
  std::size_t n_rows = 0;
  int end = 0;
  for (const EmbeddedPart& part : placed.parts) {
    EXPECT_GE(part.first, end);
    end = part.first + part.n;
    for (int i = part.first; i < end; ++i) EXPECT_EQ(placed.tokens[static_cast<std::size_t>(i)], kMediaToken);
    EXPECT_EQ(part.rows.get(), images[0]->rows.data() + n_rows * static_cast<std::size_t>(images[0]->n_embd));
    n_rows += static_cast<std::size_t>(part.n);
  }
  EXPECT_EQ(n_rows * static_cast<std::size_t>(images[0]->n_embd), images[0]->rows.size());
  EXPECT_EQ(std::count(placed.tokens.begin(), placed.tokens.end(), model->tokenizer().bos()), 1);

  // Prompts without images are unchanged.
  const std::vector<PromptPiece> before = {{"a ", true}, {"question ", false}};
  const std::vector<Token> beginning = model->tokenizer().encode(before);
  EXPECT_TRUE(std::equal(beginning.begin(), beginning.begin() + 2, placed.tokens.begin()));

  for (const std::vector<PromptPiece>& wrong :
       {std::vector<PromptPiece>{{"no place", true}}, {{mark + mark, true}}})
    EXPECT_THROW(place_media(model->tokenizer(), wrong, images, mark), Error);
}

INSTANTIATE_TEST_SUITE_P(Families, Vision,
                         testing::Values("gemma3", "idefics3", "pixtral", "qwen2vl", "qwen25vl", "qwen3vl"),
                         test::name_of_family);

TEST(VisionModel, OtherFilesAreRefusedWithTheWayOut) {
  try {
    VisionModel::load(test::golden_dir() / "gemma3" / "model.gguf");
    FAIL() << "a text model was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("mmproj"), std::string::npos) << error.what();
  }
}

TEST(VisionModel, DamagedFilesAreErrors) {
  const std::vector<std::byte> bytes = test::read_bytes(test::vision_dir() / "gemma3" / "mmproj.gguf");
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("damaged-mmproj-" + std::to_string(::getpid()) + ".gguf");
  std::mt19937 random(11);
  int n_errors = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::byte> damaged = bytes;
    // In the header: keys, counts, names and shapes.
    for (int i = 0; i < 4; ++i) damaged[random() % 4096] = static_cast<std::byte>(random());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(damaged.data()), static_cast<std::streamsize>(damaged.size()));
    try {
      VisionModel::load(path, {.devices = {"cpu"}, .n_threads = 1});
    } catch (const Error&) {
      ++n_errors;
    }
  }
  EXPECT_GT(n_errors, 50);
  std::filesystem::remove(path);
}

/// What is wrong with a family's file once `edit` has changed its bytes; empty: nothing.
std::string complaint(const std::string& family, const std::function<void(std::vector<std::byte>&)>& edit) {
  std::vector<std::byte> bytes = test::read_bytes(test::vision_dir() / family / "mmproj.gguf");
  edit(bytes);
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("edited-mmproj-" + std::to_string(::getpid()) + ".gguf");
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  try {
    VisionModel::load(path, {.devices = {"cpu"}, .n_threads = 1});
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kInvalidFile || error.code() == ErrorCode::kUnsupported)
        << error.what();
    return error.what();
  }
  return {};
}

std::vector<std::byte>::iterator find_text(std::vector<std::byte>& bytes, std::string_view text) {
  const auto wanted = std::as_bytes(std::span(text));
  const auto found = std::search(bytes.begin(), bytes.end(), wanted.begin(), wanted.end());
  EXPECT_NE(found, bytes.end()) << text;
  return found;
}

/// Sets four bytes of the value of a key, after its type and, for an array, the type and number of its
/// elements.
template <typename T>
auto set_value(const std::string& key, T value, bool in_array = false) {
  return [=](std::vector<std::byte>& bytes) {
    const auto bits = std::as_bytes(std::span(&value, 1));
    std::copy(bits.begin(), bits.end(),
              find_text(bytes, key) + static_cast<std::ptrdiff_t>(key.size() + 4 + (in_array ? 12 : 0)));
  };
}

/// A tensor that is not there under its name.
auto hide_tensor(const std::string& name) {
  return [=](std::vector<std::byte>& bytes) { *find_text(bytes, name) = std::byte{'x'}; };
}

TEST(VisionModel, ValuesOutOfBoundsAreRefusedByName) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::string eps = "clip.vision.attention.layer_norm_epsilon";
  for (const float value : {-1.0f, kNaN, 2.0f, kInfinity})
    EXPECT_NE(complaint("gemma3", set_value(eps, value)).find(eps), std::string::npos) << value;
  const std::string mean = "clip.vision.image_mean", deviation = "clip.vision.image_std";
  for (const float value : {kNaN, kInfinity, -100.0f})
    EXPECT_NE(complaint("gemma3", set_value(mean, value, true)).find(mean), std::string::npos) << value;
  for (const float value : {0.0f, -0.5f, kNaN, 1e-38f, kInfinity})
    EXPECT_NE(complaint("gemma3", set_value(deviation, value, true)).find(deviation), std::string::npos)
        << value;
  for (const auto& [family, key, value] : {std::tuple{"gemma3", "clip.vision.block_count", 0},
                                           {"gemma3", "clip.vision.block_count", 1 << 30},
                                           {"gemma3", "clip.vision.patch_size", 5},
                                           {"gemma3", "clip.vision.attention.head_count", 3},
                                           {"qwen25vl", "clip.vision.n_wa_pattern", 0},
                                           {"qwen25vl", "clip.vision.window_size", 1},
                                           {"qwen3vl", "clip.vision.spatial_merge_size", 5}})
    EXPECT_NE(complaint(family, set_value(key, static_cast<std::int32_t>(value))).find("clip.vision."),
              std::string::npos)
        << key << " = " << value;
}

/// As many bytes, read as whole numbers.
TEST(VisionModel, TensorsOfTypesThatNoOperationTakesAreRefusedByName) {
  constexpr std::uint32_t kI32 = 26;
  for (const std::string name : {"v.post_ln.weight", "v.blk.0.ln1.bias", "v.blk.1.attn_q.bias"}) {
    // Behind the name: the number of axes and one of them.
    const auto edit = [&](std::vector<std::byte>& bytes) {
      const auto type = std::as_bytes(std::span(&kI32, 1));
      std::copy(type.begin(), type.end(),
                find_text(bytes, name) + static_cast<std::ptrdiff_t>(name.size() + 4 + 8));
    };
    EXPECT_NE(complaint("gemma3", edit).find(name), std::string::npos) << name;
  }
}

TEST(VisionModel, TensorsThatAreMissingOrHaveNoPlaceAreRefusedByName) {
  for (const auto& [family, name] : {std::pair{"gemma3", "v.post_ln.weight"},
                                     {"gemma3", "v.post_ln.bias"},
                                     {"gemma3", "v.blk.1.ln2.bias"},
                                     {"gemma3", "v.blk.0.attn_q.bias"},
                                     {"gemma3", "v.patch_embd.bias"},
                                     {"idefics3", "mm.model.fc.weight"},
                                     {"pixtral", "v.blk.0.ffn_gate.weight"},
                                     {"pixtral", "mm.patch_merger.weight"},
                                     {"pixtral", "mm.input_norm.weight"},
                                     {"pixtral", "v.pre_ln.weight"},
                                     {"qwen2vl", "v.patch_embd.weight.1"},
                                     {"qwen25vl", "v.post_ln.weight"},
                                     {"qwen25vl", "v.blk.3.ffn_gate.bias"},
                                     {"qwen3vl", "v.position_embd.weight"},
                                     {"qwen3vl", "v.deepstack.1.fc2.bias"}})
    EXPECT_NE(complaint(family, hide_tensor(name)).find(name), std::string::npos) << family << ": " << name;
  // One layer less than there are tensors of.
  EXPECT_NE(complaint("gemma3", set_value("clip.vision.block_count", std::int32_t{1})).find("v.blk.1."),
            std::string::npos);
  EXPECT_EQ(complaint("gemma3", [](std::vector<std::byte>&) {}), "");
}

TEST(VisionModel, GoesWithItsOwnTextModelsOnly) {
  const auto vision = VisionModel::load(test::vision_dir() / "gemma3" / "mmproj.gguf", {.devices = {"cpu"}});
  EXPECT_NO_THROW(vision->check_fits("gemma3", 96));
  EXPECT_THROW(vision->check_fits("gemma3", 64), Error);
  EXPECT_THROW(vision->check_fits("qwen2vl", 96), Error);
  const auto deep = VisionModel::load(test::vision_dir() / "qwen3vl" / "mmproj.gguf", {.devices = {"cpu"}});
  const auto model = Model::load(test::golden_dir() / "qwen3vl" / "model.gguf");
  EXPECT_NO_THROW(deep->check_fits(model->info().architecture, model->info().n_embd_input));
  EXPECT_THROW(deep->check_fits(model->info().architecture, model->info().n_embd), Error);
}

TEST(VisionModel, ImagesKeepTheirShapeWhereTheModelCan) {
  const auto vision =
      VisionModel::load(test::vision_dir() / "qwen25vl" / "mmproj.gguf", {.devices = {"cpu"}});
  const auto grid_of = [&](int width, int height) {
    const std::size_t n = 3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
    const auto encoded = vision->encode({width, height, std::vector<std::uint8_t>(n, 100)});
    const EncodedMedia::Piece& piece = encoded->pieces[1];
    return std::pair(piece.grid_width, piece.n_rows / piece.grid_width);
  };
  // Multiples of 8 pixels a side; halves round to even. The minimum is 4 rows, the maximum 1280.
  EXPECT_EQ(grid_of(40, 48), std::pair(5, 6));
  EXPECT_EQ(grid_of(36, 44), std::pair(4, 6));
  EXPECT_EQ(grid_of(9, 9), std::pair(2, 2));
  EXPECT_EQ(grid_of(16, 300), std::pair(2, 38));
  EXPECT_EQ(grid_of(800, 400), std::pair(50, 25));
  EXPECT_EQ(grid_of(100, 1), std::pair(20, 1));
  EXPECT_THROW(grid_of(201, 1), Error);
}

/// Two images of one colour, one in landscape and one in portrait format: their tiles are the same, their
/// positions are not.
TEST(VisionModel, ImagesWithOtherTilesAreNotTheSame) {
  const auto vision =
      VisionModel::load(test::vision_dir() / "idefics3" / "mmproj.gguf", {.devices = {"cpu"}});
  const auto texts_of = [](const EncodedMedia& encoded) {
    std::string texts;
    for (const EncodedMedia::Piece& piece : encoded.pieces) texts += piece.text;
    return texts;
  };
  const std::vector<std::uint8_t> grey(std::size_t{3} * 64 * 32, 128);
  const auto lies = vision->encode({64, 32, grey}), stands = vision->encode({32, 64, grey});
  ASSERT_EQ(lies->rows.size(), stands->rows.size());
  EXPECT_NE(texts_of(*lies), texts_of(*stands));
  EXPECT_NE(lies->id, stands->id);
}

TEST(VisionModel, ImagesWithoutPixelsAreRejected) {
  const auto vision = VisionModel::load(test::vision_dir() / "gemma3" / "mmproj.gguf", {.devices = {"cpu"}});
  EXPECT_THROW(vision->encode({}), Error);
  EXPECT_THROW(vision->encode({4, 4, std::vector<std::uint8_t>(47)}), Error);
}

/// A prompt of ids with -1 in the places of an image, which occurs once for each uninterrupted range of
/// places.
PromptWithMedia read_prompt(const std::filesystem::path& dir,
                            const std::shared_ptr<const EncodedMedia>& image) {
  PromptWithMedia prompt;
  std::ifstream file(dir / "prompt.json");
  file.get();
  const int n_rows = static_cast<int>(image->rows.size()) / image->n_embd;
  Token token = 0;
  for (char comma = ','; comma == ',' && file >> token; file >> comma) {
    if (token < 0 && (prompt.tokens.empty() || prompt.tokens.back() >= 0))
      prompt.parts.push_back({.first = static_cast<int>(prompt.tokens.size()),
                              .n = n_rows,
                              .rows = std::shared_ptr<const float>(image, image->rows.data()),
                              .n_embd = image->n_embd,
                              .id = image->id,
                              .both_ways = image->both_ways,
                              .grid_width = image->pieces[1].grid_width});
    prompt.tokens.push_back(token < 0 ? kMediaToken : token);
  }
  return prompt;
}

/// The prompt as one batch, every place with logits.
Batch make_batch(const PromptWithMedia& prompt) {
  Batch batch;
  std::size_t part = 0;
  Pos behind = 0;  // The next position of tokens.
  for (int i = 0; i < static_cast<int>(prompt.tokens.size()); ++i) {
    if (part < prompt.parts.size() && i == prompt.parts[part].first + prompt.parts[part].n) ++part;
    if (part == prompt.parts.size() || i < prompt.parts[part].first) {
      batch.add(prompt.tokens[static_cast<std::size_t>(i)], 0,
                {.logits = true, .axes = {behind, behind, behind}});
      ++behind;
      continue;
    }
    const EmbeddedPart& p = prompt.parts[part];
    const int row = i - p.first;
    const auto n_embd = static_cast<std::size_t>(p.n_embd);
    ItemOptions options = {.logits = true, .attend_to = p.both_ways ? p.first + p.n : -1};
    if (p.grid_width == 0) {
      options.axes = {behind, behind, behind};
      ++behind;
    } else {
      const Pos line = row / p.grid_width, column = row % p.grid_width;
      options.axes = {behind, behind + line, behind + column};
      if (row + 1 == p.n) behind += std::max(line, column) + 1;
    }
    batch.add(std::span(p.rows.get() + static_cast<std::size_t>(row) * n_embd, n_embd), 0, options);
  }
  return batch;
}

struct WithText {
  const char* vision;
  const char* text;  ///< The golden model whose logits these are.
};

class VisionAndText : public testing::TestWithParam<WithText> {};

TEST_P(VisionAndText, LogitsAfterImagesMatchTransformers) {
  const std::filesystem::path dir = test::vision_dir() / GetParam().vision;
  const auto vision = VisionModel::load(dir / "mmproj.gguf", {.devices = {"cpu"}});
  const auto model = Model::load(test::golden_dir() / GetParam().text / "model.gguf");
  const auto image = vision->encode(test::tiny_image(GetParam().vision));
  const PromptWithMedia prompt = read_prompt(dir, image);
  ASSERT_EQ(prompt.parts.size(), 2u);
  Context context(model, {.n_ctx = 128, .k_type = CacheType::kF32, .v_type = CacheType::kF32});
  const Batch batch = make_batch(prompt);
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  std::vector<float> logits;
  for (int i = 0; i < batch.size(); ++i) {
    const auto row = context.logits(i);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  const std::vector<float> expected = test::read_floats(dir / "logits.f32");
  ASSERT_EQ(logits.size(), expected.size());
  EXPECT_LE(test::nmse(logits, expected), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Families, VisionAndText,
                         testing::Values(WithText{"gemma3", "gemma3"}, WithText{"qwen2vl", "qwen2vl"},
                                         WithText{"qwen25vl", "qwen2vl"}, WithText{"qwen3vl", "qwen3vl"}),
                         [](const auto& test) { return std::string(test.param.vision); });

}  // namespace
}  // namespace weft
