#pragma once
// The tokens of a folder: one for each row of embeddings, from the files that list them.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/config.h"
#include "weft/gguf.h"

namespace weft::convert_impl {

// Kinds of tokens, as GGUF numbers them.
inline constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5,
                              kByte = 6;

/// The score of an added token that is not a piece of the model, so that no merge produces it
/// (text/vocabulary.h).
inline constexpr float kNeverMerged = -std::numeric_limits<float>::infinity();

/// The files that describe a tokenizer.
struct TokenizerFolder {
  explicit TokenizerFolder(const std::filesystem::path& folder);

  std::filesystem::path path;
  Json tokenizer = Json::object();  ///< tokenizer.json; empty without this file.
  Json names;  ///< tokenizer_config.json, completed by special_tokens_map.json of older folders.
};

class TokenRows {
 public:
  /// All rows are free. `folder` must outlive them.
  TokenRows(const TokenizerFolder& folder, std::int64_t n)
      : tokens(static_cast<std::size_t>(n)),
        kinds(static_cast<std::size_t>(n), kUnused),
        scores(static_cast<std::size_t>(n), 0.0f),
        folder_(folder) {}

  std::size_t size() const { return tokens.size(); }
  /// A token without a row is noted in beyond().
  void put(std::string text, std::int64_t id, std::int32_t kind);
  void put_piece(std::string text, std::int64_t id, std::int32_t kind, float score);
  /// Reads added tokens, and gives each free row a name. If there is a tokenizer.json, other files only fill
  /// free rows.
  void read_added();
  void mark_unknown(std::size_t id);

  bool contains(const std::string& text) const { return ids_.contains(text); }
  /// -1: no row has the token.
  std::int64_t id_of(const std::string& text) const;
  /// The id of the token that the folder's names have as `name`, such as "eos_token"; -1: none.
  std::int64_t id_of_name(const char* name) const;
  std::int64_t unknown() const { return unknown_; }  ///< -1: not marked.
  const std::set<std::string>& beyond() const { return beyond_; }
  /// Writes the flags for matching added tokens, if the folder has them.
  void write_flags(GgufWriter& file) const;

  std::vector<std::string> tokens;
  std::vector<std::int32_t> kinds;
  std::vector<float> scores;

 private:
  void put_added(const Json& token, std::int64_t id, const char* file);
  /// Whether a row has no token yet.
  bool is_free(std::int64_t id) const;
  /// Whether the folder names a token as one of its special ones.
  bool is_named(const std::string& text) const;

  const TokenizerFolder& folder_;
  std::map<std::string, std::int64_t> ids_;
  std::set<std::string> beyond_;  ///< Tokens that have no row of embeddings.
  /// Ids of added tokens by their flags in tokenizer.json.
  std::array<std::pair<const char*, std::vector<std::int32_t>>, 4> flags_ = {
      {{"lstrip", {}}, {"rstrip", {}}, {"single_word", {}}, {"normalized", {}}}};
  std::int64_t unknown_ = -1;
};

}  // namespace weft::convert_impl
