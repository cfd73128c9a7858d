#pragma once
// Splits the input into the pieces that byte-level BPE works on, by the regular expressions of the model's
// family.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text {

/// One way of splitting: a row of the table in pre_tokenizer.cpp.
struct PreTokenizer {
  /// Each pattern splits the pieces of the previous one. Matches and the stretches between them become
  /// pieces. An empty match splits a piece in two.
  std::vector<std::string_view> patterns;
  bool ignore_merges = false;  ///< A piece that is a token is that token, whatever the merges say.
  bool adds_bos = false;       ///< Unless the file says otherwise.
  /// For BPE on characters. True: pieces are words, and white space between them produces no token. False:
  /// spaces are marked (U+2581) and belong to pieces.
  bool words = false;
};

/// Looks up a name of tokenizer.ggml.pre; an empty one is "default". Throws Error kUnsupported for an unknown
/// name.
const PreTokenizer& find_pre_tokenizer(std::string_view name);
/// Whether the published tokenizer of that name composes characters (NFC) first. Other converters do not
/// write it into their files.
bool composes(std::string_view name);
/// All names that find_pre_tokenizer knows.
std::vector<std::string_view> pre_tokenizer_names();

/// An expression of a tokenizer for PCRE2, whose \s takes U+180E for white space; Unicode and tokenizers do
/// not.
std::string as_pcre2(std::string_view pattern);

/// The compiled patterns; immutable, so any number of threads may use it.
class Splitter {
 public:
  explicit Splitter(std::span<const std::string_view> patterns);
  ~Splitter();
  Splitter(const Splitter&) = delete;
  Splitter& operator=(const Splitter&) = delete;

  /// Scratch memory of one thread.
  class Session {
   public:
    explicit Session(const Splitter& splitter);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// The ends of the pieces, ascending; the last is text.size(). Empty for an empty string. `text` is valid
    /// UTF-8 of less than 4 GiB. The result is valid until the next call.
    std::span<const std::uint32_t> split(std::string_view text);

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace weft::text
