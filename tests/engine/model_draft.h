#pragma once
// Models to break: a golden model in memory, changed in one place, then written, loaded and tried.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/test_support.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "weft/sampler.h"

namespace weft::test {

/// A model file before it is written. Copies are cheap: each case changes one of its own.
class Draft {
 public:
  struct Tensor {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;

    /// Another shape and type with as many bytes as that needs; zeros where there were none.
    void reshape(std::vector<std::int64_t> to, DType type) {
      shape = std::move(to);
      dtype = type;
      std::int64_t n_rows = 1;
      for (std::size_t i = 0; i + 1 < shape.size(); ++i) n_rows *= shape[i];
      bytes.resize(row_bytes(dtype, shape.back()) * static_cast<std::size_t>(n_rows));
    }
    void reshape(std::vector<std::int64_t> to) { reshape(std::move(to), dtype); }
    /// F32, made of the values that `next` gives.
    template <typename Next>
    void fill(Next&& next) {
      reshape(shape, DType::kF32);
      for (std::size_t i = 0; i < bytes.size(); i += sizeof(float)) {
        const float value = next();
        std::memcpy(bytes.data() + i, &value, sizeof value);
      }
    }
  };

  explicit Draft(const std::string& golden)
      : original_(std::make_shared<gguf::File>(gguf::File::open(golden_dir() / golden / "model.gguf"))),
        metadata_(original_->metadata().begin(), original_->metadata().end()) {
    for (const gguf::TensorInfo& t : original_->tensors())
      tensors.push_back({t.name, t.dtype, t.shape, {t.data.begin(), t.data.end()}});
  }

  /// What the good file says.
  const gguf::File& original() const { return *original_; }
  /// "llama." and the key.
  std::string key(std::string_view name) const {
    return std::string(*original_->get_string("general.architecture")) + "." + std::string(name);
  }
  bool has(std::string_view full_key) const { return original_->find(full_key) != nullptr; }

  template <typename T>
  Draft& set(std::string_view full_key, T value) {
    edits_.push_back([name = std::string(full_key), value](gguf::Writer& w) { w.set(name, value); });
    return *this;
  }
  template <typename T>
  Draft& set_array(std::string_view full_key, std::vector<T> values) {
    edits_.push_back([name = std::string(full_key), values = std::move(values)](gguf::Writer& w) {
      w.set_array(name, values);
    });
    return *this;
  }
  Draft& drop(std::string_view full_key) {
    std::erase_if(metadata_, [&](const gguf::File::Entry& entry) { return entry.key == full_key; });
    return *this;
  }
  Tensor& tensor(std::string_view name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
  }
  Draft& drop_tensor(std::string_view name) {
    std::erase_if(tensors, [&](const Tensor& t) { return t.name == name; });
    return *this;
  }

  std::vector<std::byte> to_bytes() const {
    gguf::Writer writer;
    for (const gguf::File::Entry& entry : metadata_) writer.set(entry.key, entry.value);
    for (const auto& edit : edits_) edit(writer);
    for (const Tensor& t : tensors) writer.add_tensor(t.name, t.dtype, t.shape, std::span(t.bytes));
    return writer.to_bytes();
  }

  std::vector<Tensor> tensors;

 private:
  std::shared_ptr<const gguf::File> original_;
  std::vector<gguf::File::Entry> metadata_;
  std::vector<std::function<void(gguf::Writer&)>> edits_;
};

/// A draft's file, for as long as the object lives.
class DraftFile {
 public:
  explicit DraftFile(const Draft& draft)
      : path_(std::filesystem::path(testing::TempDir()) /
              ("weft-draft-" + std::to_string(::getpid()) + ".gguf")) {
    const std::vector<std::byte> bytes = draft.to_bytes();
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    EXPECT_TRUE(file.good()) << path_;
  }
  ~DraftFile() { std::filesystem::remove(path_); }
  DraftFile(const DraftFile&) = delete;
  DraftFile& operator=(const DraftFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Two GiB of address space for as long as the object lives, so that absurd requests fail. Nothing under
/// sanitizers, which map terabytes for their shadows.
class AddressSpaceLimit {
 public:
  AddressSpaceLimit() {
    ::getrlimit(RLIMIT_AS, &before_);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    rlimit limited = before_;
    limited.rlim_cur = std::min<rlim_t>(rlim_t{2} << 30, before_.rlim_cur);
    ::setrlimit(RLIMIT_AS, &limited);
#endif
  }
  ~AddressSpaceLimit() { ::setrlimit(RLIMIT_AS, &before_); }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;

 private:
  rlimit before_{};
};

/// A template may refuse a conversation.
inline std::string render(const ChatTemplate& chat) {
  try {
    return join(chat.render({{"user", "Hello"}}, {}));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    return "";
  }
}

/// Loads a draft, decodes five tokens and samples one. Returns the error's message, or "" after success. Any
/// error that does not blame the file fails the test.
inline std::string try_model(const Draft& draft) {
  const DraftFile file(draft);
  try {
    (void)inspect(file.path());
    const auto model = Model::load(file.path(), {.n_threads = 1});
    Context context(model, {.n_ctx = 64, .n_threads = 1});
    Batch batch;
    for (const Token token : {1, 2, 3, 4, 5}) batch.add(token, 0, {.logits = true});
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
    Sampler sampler({.temperature = 0.0f}, model->info().n_vocab);
    const Token token = sampler.sample(context.logits(4));
    EXPECT_TRUE(token >= 0 && token < model->info().n_vocab) << token;
    const Tokenizer& tokenizer = model->tokenizer();
    (void)tokenizer.encode("Sure! 1 + 1 = 2 \xF0\x9F\x8D\x9E\xFF", {.parse_special = true});
    std::vector<Token> all(static_cast<std::size_t>(tokenizer.n_vocab()));
    std::iota(all.begin(), all.end(), 0);
    (void)tokenizer.decode(all, true);
    if (const ChatTemplate* chat = model->chat_template()) (void)render(*chat);
    return "";
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kInvalidFile || error.code() == ErrorCode::kUnsupported)
        << error.what();
    return error.what();
  }
}

/// Compares drafts with their expected results, and counts.
class Trials {
 public:
  /// Refused, and the message holds one of `names` (the key or tensor at fault).
  void refused(const Draft& draft, const std::string& what, std::initializer_list<std::string_view> names) {
    ++n_;
    const std::string error = try_model(draft);
    const bool named = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return error.find(name) != std::string::npos;
    });
    EXPECT_TRUE(named) << what << ", expected an error that names " << *names.begin() << ": "
                       << (error.empty() ? "it was accepted" : error);
  }
  void runs(const Draft& draft, const std::string& what) {
    ++n_;
    EXPECT_EQ(try_model(draft), "") << what;
  }
  int n() const { return n_; }

 private:
  int n_ = 0;
};

}  // namespace weft::test
