// Encoders of pictures against transformers, and the prompts that they stand in.
#include <gtest/gtest.h>

#include <random>

#include "engine/test_support.h"
#include "vision/vision_testing.h"
#include "weft/context.h"

namespace weft {
namespace {

class Vision : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path dir() const { return test::vision_dir() / GetParam(); }
};

TEST_P(Vision, RowsAreThoseOfTransformersAndTheSameWithAnyThreads) {
  const std::vector<float> expected = test::read_floats(dir() / "rows.f32");
  std::vector<float> first;
  for (const int n_threads : {1, 2}) {
    const auto vision =
        VisionModel::load(dir() / "mmproj.gguf", {.devices = {"cpu"}, .n_threads = n_threads});
    const auto encoded = vision->encode(test::tiny_picture(GetParam()));
    ASSERT_EQ(encoded->rows.size(), expected.size());
    const double difference = test::nmse(encoded->rows, expected);
    RecordProperty("nmse", testing::PrintToString(difference));
    EXPECT_LE(difference, 1e-6);
    if (first.empty()) first = encoded->rows;
    EXPECT_TRUE(encoded->rows == first) << n_threads << " threads";
  }
}

TEST_P(Vision, APictureThatComesAgainIsNotComputedAgain) {
  const auto vision = VisionModel::load(dir() / "mmproj.gguf", {.devices = {"cpu"}});
  const Image picture = test::tiny_picture(GetParam());
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
  EXPECT_TRUE(forgetful->encode(picture)->rows == first->rows);
}

TEST_P(Vision, PicturesStandInThePlacesOfMarks) {
  const auto vision = VisionModel::load(dir() / "mmproj.gguf", {.devices = {"cpu"}});
  const auto model = Model::load(test::golden_dir() / "gemma3" / "model.gguf");
  const std::string mark = make_image_mark();
  EXPECT_NE(mark, make_image_mark());
  const std::shared_ptr<const EncodedImage> images[] = {vision->encode(test::tiny_picture(GetParam()))};
  const std::vector<PromptPiece> prompt = {
      {"a ", true}, {"question " + mark + " of", false}, {" somebody", true}};
  const PromptWithImages placed = place_images(model->tokenizer(), prompt, images, mark);
  std::size_t n_rows = 0;
  int end = 0;
  for (const EmbeddedPart& part : placed.parts) {
    EXPECT_GE(part.first, end);
    end = part.first + part.n;
    for (int i = part.first; i < end; ++i)
      EXPECT_EQ(placed.tokens[static_cast<std::size_t>(i)], part.token());
    EXPECT_EQ(part.rows.get(), images[0]->rows.data() + n_rows * static_cast<std::size_t>(images[0]->n_embd));
    n_rows += static_cast<std::size_t>(part.n);
  }
  EXPECT_EQ(n_rows * static_cast<std::size_t>(images[0]->n_embd), images[0]->rows.size());
  EXPECT_EQ(std::count(placed.tokens.begin(), placed.tokens.end(), model->tokenizer().bos()), 1);

  // Text stays what it was.
  const std::vector<PromptPiece> before = {{"a ", true}, {"question ", false}};
  const std::vector<Token> beginning = model->tokenizer().encode(before);
  EXPECT_TRUE(std::equal(beginning.begin(), beginning.begin() + 2, placed.tokens.begin()));

  for (const std::vector<PromptPiece>& wrong :
       {std::vector<PromptPiece>{{"no place", true}}, {{mark + mark, true}}})
    EXPECT_THROW(place_images(model->tokenizer(), wrong, images, mark), Error);
}

INSTANTIATE_TEST_SUITE_P(Families, Vision, testing::Values("gemma3", "idefics3", "pixtral"),
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
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "damaged-mmproj.gguf";
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

TEST(VisionModel, PicturesWithoutPixelsAreRefused) {
  const auto vision = VisionModel::load(test::vision_dir() / "gemma3" / "mmproj.gguf", {.devices = {"cpu"}});
  EXPECT_THROW(vision->encode({}), Error);
  EXPECT_THROW(vision->encode({4, 4, std::vector<std::uint8_t>(47)}), Error);
}

/// A prompt of ids with -1 in the places of a picture, which comes as often as its places are interrupted.
PromptWithImages read_prompt(const std::filesystem::path& dir,
                             const std::shared_ptr<const EncodedImage>& image) {
  PromptWithImages prompt;
  std::ifstream file(dir / "prompt.json");
  file.get();
  const int n_rows = static_cast<int>(image->rows.size()) / image->n_embd;
  Token token = 0;
  for (char comma = ','; comma == ',' && file >> token; file >> comma) {
    if (token < 0 && (prompt.tokens.empty() || prompt.tokens.back() >= 0))
      prompt.parts.push_back({.first = static_cast<int>(prompt.tokens.size()),
                              .n = n_rows,
                              .rows = std::shared_ptr<const float>(image, image->rows.data()),
                              .id = image->id,
                              .both_ways = image->both_ways});
    prompt.tokens.push_back(token < 0 ? prompt.parts.back().token() : token);
  }
  return prompt;
}

TEST(VisionModel, LogitsBehindPicturesAreThoseOfTransformers) {
  const std::filesystem::path dir = test::vision_dir() / "gemma3";
  const auto vision = VisionModel::load(dir / "mmproj.gguf", {.devices = {"cpu"}});
  const auto model = Model::load(test::golden_dir() / "gemma3" / "model.gguf");
  const auto image = vision->encode(test::tiny_picture("gemma3"));
  const PromptWithImages prompt = read_prompt(dir, image);
  ASSERT_EQ(prompt.parts.size(), 2u);
  Context context(model, {.n_ctx = 128, .k_type = CacheType::kF32, .v_type = CacheType::kF32});
  Batch batch;
  std::size_t part = 0;
  const auto n_embd = static_cast<std::size_t>(image->n_embd);
  for (int i = 0; i < static_cast<int>(prompt.tokens.size()); ++i) {
    if (part < prompt.parts.size() && i == prompt.parts[part].first + prompt.parts[part].n) ++part;
    if (part == prompt.parts.size() || i < prompt.parts[part].first) {
      batch.add(prompt.tokens[static_cast<std::size_t>(i)], 0, true);
    } else {
      const EmbeddedPart& p = prompt.parts[part];
      batch.add(std::span(p.rows.get() + static_cast<std::size_t>(i - p.first) * n_embd, n_embd), 0, true);
      batch.see_to(batch.size() - 1, p.first + p.n);
    }
  }
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

}  // namespace
}  // namespace weft
