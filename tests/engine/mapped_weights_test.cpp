// Weights that are read from mapped files: where another process changes a file, steps fail or give the same
// bits as before, and the process lives.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>

#include "engine/error_testing.h"
#include "engine/test_support.h"
#include "weft/embedder.h"
#include "weft/service.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// An hour ago: clocks of file systems are coarse, and what follows must differ.
void age(const fs::path& file) {
  fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
}

/// In place.
void overwrite(const fs::path& file, std::size_t at, const std::string& bytes) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(at));
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void replace(const fs::path& file, const std::string& bytes) {
  std::ofstream(file.string() + ".new", std::ios::binary) << bytes;
  fs::rename(file.string() + ".new", file);
}

using test::expect_error;
using FileChanges = std::map<std::string, std::function<void(const fs::path&)>>;

/// After which nothing right can be computed from the mapping.
FileChanges losses() {
  return {
      {"cut to nothing", [](const fs::path& file) { fs::resize_file(file, 0); }},
      {"cut to a half", [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); }},
      {"zeros", [](const fs::path& file) { overwrite(file, 0, std::string(fs::file_size(file), '\0')); }},
      {"one byte",
       [](const fs::path& file) {
         const std::size_t at = fs::file_size(file) / 2;
         overwrite(file, at, std::string(1, static_cast<char>(~read(file)[at])));
       }},
      {"another model",
       [](const fs::path& file) {
         std::ofstream(file, std::ios::binary) << read(test::golden_dir() / "qwen2" / "model.gguf");
       }},
      {"cut and written again",
       [](const fs::path& file) {
         const std::size_t size = fs::file_size(file);
         fs::resize_file(file, 0);
         fs::resize_file(file, size);
       }},
  };
}

/// Changes that leave the mapped bytes as they are.
FileChanges harmless_changes() {
  return {
      {"removed", [](const fs::path& file) { fs::remove(file); }},
      {"renamed", [](const fs::path& file) { fs::rename(file, file.string() + ".old"); }},
      {"replaced by renaming", [](const fs::path& file) { replace(file, "another file"); }},
      {"touched", [](const fs::path& file) { fs::last_write_time(file, fs::file_time_type::clock::now()); }},
      {"other permissions",
       [](const fs::path& file) { fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write); }},
      {"the same bytes", [](const fs::path& file) { overwrite(file, 0, read(file)); }},
      {"grown", [](const fs::path& file) { std::ofstream(file, std::ios::app) << "more"; }},
  };
}

class MappedWeights : public testing::Test {
 protected:
  void SetUp() override { begin("llama"); }
  void TearDown() override { fs::remove_all(folder); }

  void begin(const std::string& family) {
    fs::remove_all(folder);
    fs::create_directories(folder);
    path = folder / "model.gguf";
    fs::copy_file(test::golden_dir() / family / "model.gguf", path);
    age(path);
    tokens = test::read_tokens(test::golden_dir() / family / "tokens.json");
  }
  std::shared_ptr<Model> load(bool repack) const {
    ModelParams params = {.n_threads = 2, .repack = repack};
    if (repack) params.pack_cache = folder / "packed";
    return Model::load(path, params);
  }
  std::shared_ptr<Model> load_unpacked() const {
    auto model = load(false);
    EXPECT_TRUE(model->info().weights_mapped);
    model->settle();
    return model;
  }
  /// The second time, as the first one packs.
  std::shared_ptr<Model> load_packed() {
    load(true);
    for (const auto& entry : fs::directory_iterator(folder / "packed")) packed = entry.path();
    auto model = load(true);
    EXPECT_TRUE(model->info().weights_mapped);
    return model;
  }
  std::vector<float> logits(Context& context) const {
    context.cache().remove(0);
    return test::all_logits(context, tokens, 5);
  }
  void expect_lost(const Model& model, const fs::path& file, const std::function<void()>& step) const {
    for (int i = 0; i < 2; ++i) {
      expect_error(ErrorCode::kIo, file.filename().string(), step);
      expect_error(ErrorCode::kIo, file.filename().string(), [&] { model.check_weights(); });
    }
  }

  const fs::path folder = fs::temp_directory_path() / ("weft-mapped-weights-" + std::to_string(::getpid()));
  fs::path path, packed;
  std::vector<Token> tokens;
};

TEST_F(MappedWeights, UnpackedOnesThatChangeFailStepsWithTheFilesName) {
  for (const auto& [name, change] : losses()) {
    SCOPED_TRACE(name);
    begin("llama");
    const auto model = load_unpacked();
    Context context(model, {.n_ctx = 256});
    logits(context);
    change(path);
    expect_lost(*model, path, [&] { logits(context); });
    expect_error(ErrorCode::kIo, "model.gguf", [&] {
      Context another(model, {.n_ctx = 256});
      logits(another);
    });
    expect_error(ErrorCode::kIo, "model.gguf", [&] { model->reload({.repack = false}); });
  }
}

TEST_F(MappedWeights, PackedOnesThatChangeFailStepsAndAreLoadedAnew) {
  for (const auto& [name, change] : losses()) {
    SCOPED_TRACE(name);
    begin("llama");
    const auto model = load_packed();
    std::vector<float> expected;
    {
      Context context(model, {.n_ctx = 256});
      expected = logits(context);
      change(packed);
      expect_lost(*model, packed, [&] { logits(context); });
    }
    model->reload({.n_threads = 2, .pack_cache = folder / "packed"});
    model->check_weights();
    Context context(model, {.n_ctx = 256});
    EXPECT_TRUE(logits(context) == expected);
  }
}

TEST_F(MappedWeights, ChangesThatLeaveTheBytesChangeNoResult) {
  for (const bool repack : {false, true})
    for (const auto& [name, change] : harmless_changes()) {
      SCOPED_TRACE(name + (repack ? ", packed" : ""));
      begin("llama");
      const auto model = repack ? load_packed() : load_unpacked();
      Context context(model, {.n_ctx = 256});
      const std::vector<float> expected = logits(context);
      change(repack ? packed : path);
      EXPECT_TRUE(logits(context) == expected);
      model->check_weights();
    }
}

TEST_F(MappedWeights, OfExpertsAreWatchedToo) {
  begin("qwen3moe");
  const auto model = load_unpacked();
  Context context(model, {.n_ctx = 256});
  fs::resize_file(path, fs::file_size(path) / 2);
  expect_lost(*model, path, [&] { logits(context); });
}

TEST_F(MappedWeights, ChangesOfOneModelDoNotAffectOthers) {
  const auto model = load_unpacked();
  const fs::path first = path;
  const fs::path second = folder / "second.gguf";
  fs::copy_file(path, second);
  age(second);
  path = second;
  const auto other = load_unpacked();
  Context context(model, {.n_ctx = 256}), another(other, {.n_ctx = 256});
  const std::vector<float> expected = logits(another);
  fs::resize_file(first, 0);
  expect_lost(*model, first, [&] { logits(context); });
  EXPECT_TRUE(logits(another) == expected);
  other->check_weights();
}

/// Weights that were packed into memory need no file.
TEST_F(MappedWeights, InMemoryNeedNoFile) {
  const auto model = Model::load(path, {.n_threads = 2});
  Context context(model, {.n_ctx = 256});
  const std::vector<float> expected = logits(context);
  fs::resize_file(path, 0);
  EXPECT_TRUE(logits(context) == expected);
  model->check_weights();
}

TEST_F(MappedWeights, OfEncodersFailWithTheFilesName) {
  fs::copy_file(fs::path(WEFT_TEST_DATA) / "golden_encoders" / "bert" / "model.gguf", path,
                fs::copy_options::overwrite_existing);
  age(path);
  const auto model = load_unpacked();
  Embedder embedder(model, {.n_threads = 2});
  const std::vector<Token> text = {1, 2, 3};
  const TextTokens texts[] = {{text, -1}};
  const std::vector<float> expected = embedder.embed(texts, Pooling::kMean);
  fs::last_write_time(path, fs::file_time_type::clock::now());
  EXPECT_EQ(embedder.embed(texts, Pooling::kMean), expected);
  fs::resize_file(path, 0);
  expect_lost(*model, path, [&] { embedder.embed(texts, Pooling::kMean); });
}

TEST_F(MappedWeights, OfAServiceEndItsRequestsWithTheFilesName) {
  const auto model = load_unpacked();
  Service service(Context(model, {.n_ctx = 256}));
  fs::resize_file(path, 0);
  for (int i = 0; i < 2; ++i) {
    RequestParams params;
    params.n_predict = 5;
    Response response = service.submit({1, 2, 3}, params);
    Output chunk;
    while (response.next(chunk) && !chunk.done) {
    }
    EXPECT_EQ(chunk.stop, StopReason::kError);
    EXPECT_NE(chunk.error.find("model.gguf"), std::string::npos) << chunk.error;
  }
}

/// What a server does (ServiceParams::devices_lost): requests do not notice.
TEST_F(MappedWeights, RequestsGoOnWhereKeptWeightsArePackedAnew) {
  const auto model = load_packed();
  const auto is_lost = [&] {
    try {
      model->check_weights();
      return false;
    } catch (const Error&) {
      return true;
    }
  };
  const auto text_of = [&](Service& service, const std::function<void()>& change) {
    RequestParams params;
    params.n_predict = 20;
    params.ignore_end = true;
    params.sampler.temperature = 0.0f;
    Response response = service.submit({1, 2, 3}, params);
    change();
    std::vector<Token> written;
    for (Output chunk; response.next(chunk);) {
      EXPECT_EQ(chunk.error, "");
      for (const OutputToken& token : chunk.tokens) written.push_back(token.id);
    }
    return written;
  };
  ServiceParams params;
  params.devices_lost = is_lost;
  Service service(Context(model, {.n_ctx = 256}), params);
  const std::vector<Token> expected = text_of(service, [] {});
  EXPECT_EQ(text_of(service,
                    [&] {
                      fs::resize_file(packed, 0);
                      service.renew([&] {
                        model->reload({.n_threads = 2, .pack_cache = folder / "packed"});
                        return Context(model, {.n_ctx = 256});
                      });
                    }),
            expected);
}

}  // namespace
}  // namespace weft
