#include "convert/vocabulary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/read_file.h"
#include "base/to_size.h"
#include "convert/chat_templates.h"
#include "convert/pre_tokenizer_name.h"
#include "convert/refuse.h"
#include "convert/sentencepiece_model.h"
#include "convert/tokenizer_steps.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

// Kinds of tokens, as GGUF numbers them.
constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;
constexpr std::uint64_t kMaxText = 64 << 20;
constexpr std::string_view kSpace = "\u2581";

std::string read_text(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = base::read_file(path, kMaxText);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The score of an added token that is not a piece of the model, so that no merge produces it
/// (text/vocabulary.h).
constexpr float kNeverMerged = -std::numeric_limits<float>::infinity();

class Vocabulary {
 public:
  Vocabulary(const std::filesystem::path& folder, std::int64_t n_tokens, const std::string& pre,
             GgufWriter& file)
      : folder_(folder), n_tokens_(to_size(n_tokens)), pre_(pre), file_(file) {
    names_ = read_json_if_there(folder / "tokenizer_config.json");
    // Older folders name their special tokens in a file of its own.
    const Json special = read_json_if_there(folder / "special_tokens_map.json");
    for (const auto& [name, token] : special.items())
      if (find(names_, name.c_str()) == nullptr) names_[name] = token;
    std::error_code ignored;
    if (std::filesystem::exists(folder / "tokenizer.json", ignored))
      tokenizer_ = read_json(folder / "tokenizer.json");
  }

  void add(const Config& config, std::vector<std::string>& notes) {
    if (const Json* const model = find(tokenizer_, "model")) {
      const std::string type = find_text(*model, "type").value_or(find(*model, "merges") ? "BPE" : "");
      if (type == "BPE") {
        add_bpe(*model);
      } else if (type == "WordPiece") {
        add_word_pieces(*model);
      } else if (type == "Unigram") {
        add_unigram(*model);
      } else {
        throw Error(ErrorCode::kUnsupported, "tokenizer.json has a model of the type '" + type.substr(0, 40) +
                                                 "', known are BPE, Unigram and WordPiece");
      }
    } else if (!add_sentencepiece()) {
      add_word_pieces_of_text();
    }
    add_special(config, notes);
    add_flags();
    add_chat_templates(folder_, names_, file_, notes);
    if (!beyond_.empty())
      notes.push_back("left out " + base::counted(beyond_.size(), "token") +
                      " that the embeddings have no row for, e.g. '" + beyond_.begin()->substr(0, 60) + "'");
  }

 private:
  void put(std::string text, std::int64_t id, std::int32_t kind) {
    if (id < 0) refuse("tokenizer.json: the token '" + text.substr(0, 60) + "' has a negative id");
    // The model has no row of embeddings for this token.
    if (to_size(id) >= n_tokens_) {
      beyond_.insert(std::move(text));
      return;
    }
    const auto at = to_size(id);
    ids_[text] = id;
    tokens_[at] = std::move(text);
    kinds_[at] = kind;
  }

  void read_vocabulary(const Json& model) {
    tokens_.resize(n_tokens_);
    kinds_.assign(n_tokens_, kUnused);
    const Json* const vocabulary = find(model, "vocab");
    if (vocabulary == nullptr || !vocabulary->is_object()) refuse("tokenizer.json has no object \"vocab\"");
    for (const auto& [text, id] : vocabulary->items()) {
      if (!id.is_number_integer()) refuse("tokenizer.json: a token's id is not an integer");
      const auto number = id.get<std::int64_t>();
      if (const auto at = static_cast<std::uint64_t>(number); at < n_tokens_ && kinds_[at] != kUnused)
        refuse("tokenizer.json: the tokens '" + tokens_[at].substr(0, 60) + "' and '" + text.substr(0, 60) +
               "' have the same id");
      put(text, number, kNormal);
    }
    read_added();
  }

  /// Reads added tokens, and gives each free row a name. If there is a tokenizer.json, other files only fill
  /// free rows.
  void read_added() {
    const Json* const added = find(tokenizer_, "added_tokens");
    if (added != nullptr && added->is_array())
      for (const Json& token : *added) {
        const Json* const id = find(token, "id");
        if (id == nullptr || !id->is_number_integer())
          refuse("tokenizer.json: an added token has no id or no content");
        put_added(token, id->get<std::int64_t>(), "tokenizer.json");
      }
    const bool says_all = added != nullptr;
    if (const Json* const by_id = find(names_, "added_tokens_decoder");
        by_id != nullptr && by_id->is_object())
      for (const auto& [number, token] : by_id->items()) {
        std::int64_t id = -1;
        const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
        if (error != std::errc() || end != number.data() + number.size())
          refuse("tokenizer_config.json: an added token has no id");
        if (!says_all || is_free(id)) put_added(token, id, "tokenizer_config.json");
      }
    const Json beside = read_json_if_there(folder_ / "added_tokens.json");
    for (const auto& [text, id] : beside.items()) {
      if (!id.is_number_integer()) refuse("added_tokens.json: a token's id is not an integer");
      const auto number = id.get<std::int64_t>();
      const bool beyond = static_cast<std::uint64_t>(number) >= n_tokens_;
      if (beyond || (is_free(number) && !ids_.contains(text)))
        put(text, number, is_named(text) ? kControl : kUserDefined);
    }
    for (std::size_t i = 0; i < n_tokens_; ++i)
      if (tokens_[i].empty() && kinds_[i] == kUnused) tokens_[i] = "[PAD" + std::to_string(i) + "]";
  }

  void put_added(const Json& token, std::int64_t id, const char* file) {
    const auto text = find_text(token, "content");
    if (!text) refuse(std::string(file) + ": an added token has no id or no content");
    const auto flag = [&](const char* name, bool otherwise) {
      const Json* const value = find(token, name);
      return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
    };
    const bool special = flag("special", false);
    put(*text, id, special ? kControl : kUserDefined);
    if (static_cast<std::uint64_t>(id) >= n_tokens_) return;
    for (auto& [name, ids] : flags_)
      if (flag(name, std::string_view(name) == "normalized" && !special))
        ids.push_back(static_cast<std::int32_t>(id));
  }

  /// Whether a row has no token yet.
  bool is_free(std::int64_t id) const {
    const auto at = static_cast<std::uint64_t>(id);
    return at < n_tokens_ && kinds_[at] == kUnused;
  }

  /// Whether the folder names a token as one of its special ones.
  bool is_named(const std::string& text) const {
    const auto is = [&](const Json& token) { return token == text || find_text(token, "content") == text; };
    for (const auto& [name, token] : names_.items())
      if (name.ends_with("_token") && is(token)) return true;
    const Json* const others = find(names_, "additional_special_tokens");
    return others != nullptr && others->is_array() && std::any_of(others->begin(), others->end(), is);
  }

  /// Writes the flags for matching added tokens, if the folder has them.
  void add_flags() {
    if (find(tokenizer_, "model") == nullptr && find(names_, "added_tokens_decoder") == nullptr) return;
    for (const auto& [name, ids] : flags_) file_.set("weft.tokenizer." + std::string(name), ids);
  }

  static bool is_character(const std::string& text) {
    return !text.empty() && text::first_char(text).size == text.size();
  }

  static bool is_byte(const std::string& text) {
    return text.size() == 6 && text.starts_with("<0x") && text.back() == '>';
  }

  std::vector<std::string> read_merges(const Json& model) const {
    std::vector<std::string> merges;
    const Json* const list = find(model, "merges");
    if (list == nullptr || !list->is_array()) refuse("tokenizer.json has no list \"merges\"");
    for (const Json& merge : *list) {
      if (merge.is_string()) {
        merges.push_back(merge.get<std::string>());
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
      } else {
        refuse("tokenizer.json: a merge is not a pair of strings");
      }
    }
    return merges;
  }

  void add_bpe(const Json& model) {
    read_vocabulary(model);
    const std::vector<std::string> merges = read_merges(model);
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const std::string mark = find_text(model, name).value_or(""); !mark.empty())
        throw Error(ErrorCode::kUnsupported, "tokenizer.json marks parts of words with '" +
                                                 mark.substr(0, 40) + "' (" + name +
                                                 "), which weft does not support for BPE");
    const Json* const fallback = find(model, "byte_fallback");
    const bool bytes = fallback != nullptr && fallback->is_boolean() && fallback->get<bool>();
    if (bytes && ids_.contains("<0x00>") && ids_.contains("<0xFF>")) {
      add_pieces(model, merges);
    } else if (cuts_at_spaces(tokenizer_)) {
      add_words(model, merges);
    } else {
      const std::string pre = pre_.empty() ? pre_tokenizer_name(tokenizer_) : known_pre();
      add_steps(tokenizer_, true, file_);
      if (const bool ignores = ignores_merges(tokenizer_);
          ignores != text::find_pre_tokenizer(pre).ignore_merges)
        file_.set("weft.tokenizer.ignore_merges", ignores);
      finish_bpe(pre, merges);
    }
  }

  void finish_bpe(const std::string& pre, const std::vector<std::string>& merges) {
    if (pre == "whitespace" && has_step("Lowercase")) set("normalizer.lowercase", true);
    set("model", std::string("gpt2"));
    set("pre", pre);
    set("tokens", tokens_);
    set("token_type", kinds_);
    set("merges", merges);
  }

  /// BPE on the characters of words. The steps cut the words.
  void add_words(const Json& model, const std::vector<std::string>& merges) {
    refuse_pre();
    for (const char* flag : {"fuse_unk", "ignore_merges"})
      if (const Json* const value = find(model, flag); value != nullptr && *value == true)
        throw Error(ErrorCode::kUnsupported, std::string("tokenizer.json has ") + flag +
                                                 ", which weft does not support for BPE on characters");
    add_steps(tokenizer_, false, file_);
    find_unknown(model);
    finish_bpe("whitespace", merges);
  }

  /// The caller's pre-tokenizer.
  std::string known_pre() const {
    const std::vector<std::string_view> names = text::pre_tokenizer_names();
    if (std::find(names.begin(), names.end(), pre_) != names.end()) return pre_;
    std::string known;
    for (const std::string_view name : names) known += (known.empty() ? "" : ", ") + std::string(name);
    throw Error(ErrorCode::kInvalidArgument, "unknown pre-tokenizer '" + pre_.substr(0, 80) +
                                                 "' (--pre, ConvertParams::pre_tokenizer); known are " +
                                                 known);
  }

  void refuse_pre() const {
    if (!pre_.empty())
      throw Error(ErrorCode::kInvalidArgument,
                  "the pre-tokenizer is '" + pre_.substr(0, 80) +
                      "', but only byte-level BPE vocabularies have one, and the folder has another kind; "
                      "leave --pre (ConvertParams::pre_tokenizer) out");
  }

  bool has_step(const char* type) const {
    const auto steps = normalizers_of(tokenizer_);
    return std::any_of(steps.begin(), steps.end(),
                       [&](const Json* step) { return find_text(*step, "type") == type; });
  }

  /// BPE of SentencePiece: the first merge has the highest score. All merges that produce a token have the
  /// same rank there, so the order of the list suffices.
  void add_pieces(const Json& model, const std::vector<std::string>& merges) {
    refuse_pre();
    add_steps(tokenizer_, false, file_);
    const std::string unknown = find_text(model, "unk_token").value_or("<unk>");
    const Json& vocabulary = *find(model, "vocab");
    std::vector<float> scores(n_tokens_, 0.0f);
    std::vector<bool> seen(n_tokens_, false);  // A merge produces it.
    float next = 0.0f;
    for (const std::string& merge : merges) {
      std::string text = merge;
      if (const auto space = text.find(' '); space != text.npos) text.erase(space, 1);
      const auto found = ids_.find(text);
      if (found == ids_.end() || seen[to_size(found->second)]) continue;
      seen[to_size(found->second)] = true;
      scores[to_size(found->second)] = next--;
    }
    for (std::size_t i = 0; i < n_tokens_; ++i) {
      if (!seen[i] && kinds_[i] == kNormal) scores[i] = next--;  // Characters.
      if (!seen[i] && kinds_[i] == kUserDefined)
        scores[i] = is_character(tokens_[i]) && vocabulary.contains(tokens_[i]) ? next-- : kNeverMerged;
      if (is_byte(tokens_[i])) kinds_[i] = kByte;  // Also where a tokenizer.json adds them as special tokens.
      if (tokens_[i] == unknown) mark_unknown(i);
    }
    set("model", std::string("llama"));
    set("pre", std::string("default"));
    set("tokens", tokens_);
    set("scores", scores);
    set("token_type", kinds_);
    set("add_space_prefix", prepends_space());
  }

  /// [["piece", score], ...] by their numbers.
  void add_unigram(const Json& model) {
    tokens_.resize(n_tokens_);
    kinds_.assign(n_tokens_, kUnused);
    scores_.assign(n_tokens_, 0.0f);
    const Json* const list = find(model, "vocab");
    if (list == nullptr || !list->is_array()) refuse("tokenizer.json has no list \"vocab\"");
    std::int64_t id = 0;
    for (const Json& piece : *list) {
      if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number())
        refuse("tokenizer.json: a piece is not a string with a score");
      put_piece(piece[0].get<std::string>(), id++, kNormal, piece[1].get<float>());
    }
    read_added();
    const Json* const fallback = find(model, "byte_fallback");
    if (fallback != nullptr && fallback->is_boolean() && fallback->get<bool>())
      for (std::size_t i = 0; i < n_tokens_; ++i)
        if (is_byte(tokens_[i])) kinds_[i] = kByte;
    if (const Json* const unknown = find(model, "unk_id");
        unknown != nullptr && unknown->is_number_unsigned() && unknown->get<std::uint64_t>() < n_tokens_)
      mark_unknown(unknown->get<std::size_t>());
    add_steps(tokenizer_, false, file_);
    finish_pieces("t5", prepends_space(), removes_spaces());
  }

  /// Whether the steps remove extra spaces, as far as GGUF's key can express that.
  bool removes_spaces() const {
    for (const Json* const step : normalizers_of(tokenizer_)) {
      const auto type = find_text(*step, "type");
      if (type == "Strip" || (type == "Replace" && pattern(*step, "Regex") == " {2,}")) return true;
    }
    const auto steps = pre_tokenizers_of(tokenizer_);
    return std::any_of(steps.begin(), steps.end(),
                       [](const Json* step) { return find_text(*step, "type") == "WhitespaceSplit"; });
  }

  static std::optional<std::string> pattern(const Json& step, const char* kind) {
    const Json* const pattern = find(step, "pattern");
    return pattern == nullptr ? std::nullopt : find_text(*pattern, kind);
  }

  /// False where the folder has no file of SentencePiece.
  bool add_sentencepiece() {
    std::error_code ignored;
    for (const char* name : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"}) {
      if (!std::filesystem::exists(folder_ / name, ignored)) continue;
      const SentencePieceModel model = read_sentencepiece(base::read_file(folder_ / name, kMaxText));
      // XLM-R has fairseq's tokens: four of its own, then the file's pieces without the first three.
      const bool fairseq = std::string_view(name) == "sentencepiece.bpe.model";
      tokens_.resize(n_tokens_);
      kinds_.assign(n_tokens_, kUnused);
      scores_.assign(n_tokens_, model.unigram ? 0.0f : kNeverMerged);
      std::int64_t id = 0;
      std::size_t next = 0;
      if (fairseq) {
        for (const char* token : {"<s>", "<pad>", "</s>"}) put_piece(token, id++, kControl, 0.0f);
        put_piece("<unk>", id++, kUnknown, 0.0f);
        next = 3;
        put_piece("<mask>", static_cast<std::int64_t>(model.pieces.size()) + 1, kControl, 0.0f);
      }
      for (; next < model.pieces.size(); ++next) {
        const SentencePieceModel::Piece& piece = model.pieces[next];
        put_piece(piece.text, id++, piece.kind, piece.score);
      }
      read_added();
      if (!fairseq && model.unknown >= 0 && to_size(model.unknown) < n_tokens_)
        mark_unknown(to_size(model.unknown));
      set_charsmap(model.charsmap);
      finish_pieces(model.unigram ? "t5" : "llama", model.adds_space, model.removes_extra_spaces);
      fairseq_ = fairseq;
      fallback_ids_ = {fairseq ? 0 : model.bos, fairseq ? 2 : model.eos, fairseq ? 1 : model.padding};
      return true;
    }
    return false;
  }

  void put_piece(std::string text, std::int64_t id, std::int32_t kind, float score) {
    if (to_size(id) < n_tokens_) scores_[to_size(id)] = score;
    put(std::move(text), id, kind);
  }

  /// Marks the token that the model's "unk_token" names, if it names one.
  void find_unknown(const Json& model) {
    const auto found = ids_.find(find_text(model, "unk_token").value_or(""));
    if (found != ids_.end()) mark_unknown(to_size(found->second));
  }

  void mark_unknown(std::size_t id) {
    kinds_[id] = kUnknown;
    unknown_ = static_cast<std::int64_t>(id);
  }

  void set_charsmap(std::span<const std::uint8_t> map) {
    if (!map.empty()) set("precompiled_charsmap", std::vector<std::uint8_t>(map.begin(), map.end()));
  }

  void finish_pieces(const char* model, bool adds_space, bool removes_extra_spaces) {
    refuse_pre();
    set("model", std::string(model));
    set("pre", std::string("default"));
    set("tokens", tokens_);
    set("scores", scores_);
    set("token_type", kinds_);
    set("add_space_prefix", adds_space);
    set("remove_extra_whitespaces", removes_extra_spaces);
  }

  bool prepends_space() const {
    const auto prepends = [](const Json& step) {
      if (find_text(step, "type") == "Prepend") return true;
      const auto scheme = find_text(step, "prepend_scheme");
      return find_text(step, "type") == "Metaspace" && scheme != "never";
    };
    const auto some = [&](const std::vector<const Json*>& steps) {
      return std::any_of(steps.begin(), steps.end(), [&](const Json* step) { return prepends(*step); });
    };
    return some(normalizers_of(tokenizer_)) || some(pre_tokenizers_of(tokenizer_));
  }

  void add_word_pieces(const Json& model) {
    read_vocabulary(model);
    if (const auto prefix = find_text(model, "continuing_subword_prefix"); prefix && *prefix != "##")
      throw Error(ErrorCode::kUnsupported, "tokenizer.json marks parts of words with '" +
                                               prefix->substr(0, 40) +
                                               "' (continuing_subword_prefix), expected '##'");
    add_steps(tokenizer_, false, file_);
    find_unknown(model);
    const Json* const step = find(tokenizer_, "normalizer");
    const bool bert = step != nullptr && find_text(*step, "type") == "BertNormalizer";
    const Json others = {{"lowercase", has_step("Lowercase")}, {"strip_accents", has_step("StripAccents")}};
    finish_word_pieces(bert ? *step : others, "lowercase");
  }

  void add_word_pieces_of_text() {
    std::error_code ignored;
    if (!std::filesystem::exists(folder_ / "vocab.txt", ignored))
      throw Error(ErrorCode::kNotFound, folder_.string() + " has no tokenizer.json and no vocab.txt");
    const std::string text = read_text(folder_ / "vocab.txt");
    tokens_.resize(n_tokens_);
    kinds_.assign(n_tokens_, kUnused);
    std::int64_t id = 0;
    for (std::size_t at = 0; at < text.size(); ++id) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      std::string token = text.substr(at, end - at);
      if (token.ends_with('\r')) token.pop_back();
      put(std::move(token), id, kNormal);
      at = end + 1;
    }
    read_added();
    finish_word_pieces(names_, "do_lower_case");
  }

  /// GGUF marks the beginning of words, the folder marks their continuations. `texts` has the normaliser's
  /// settings. Readers of GGUF convert to lower case unless a file says otherwise.
  void finish_word_pieces(const Json& texts, const char* lowercase) {
    refuse_pre();
    for (const auto& [from, to] :
         {std::pair(lowercase, "lowercase"), std::pair("strip_accents", "strip_accents")})
      if (const Json* const value = find(texts, from); value != nullptr && value->is_boolean())
        set(std::string("normalizer.") + to, value->get<bool>());
    struct Special {
      const char* name;   ///< In tokenizer_config.json ...
      const char* usual;  ///< ... and the token where that names none of the vocabulary.
      const char* key;
      bool required;
      std::int32_t kind;
    };
    constexpr Special kSpecial[] = {{"unk_token", "[UNK]", "unknown", true, kUnknown},
                                    {"cls_token", "[CLS]", "bos", true, kControl},
                                    {"sep_token", "[SEP]", "seperator", true, kControl},  // GGUF's spelling.
                                    {"pad_token", "[PAD]", "padding", false, kControl},
                                    {"mask_token", "[MASK]", "mask", false, kControl}};
    for (const Special& special : kSpecial) {
      std::int64_t id = special.kind == kUnknown ? unknown_ : -1;  // The tokenizer model's own id.
      if (id < 0) id = id_of(special.name);
      if (const auto usual = ids_.find(special.usual); id < 0 && usual != ids_.end()) id = usual->second;
      if (id < 0 && special.required)
        refuse("the vocabulary has no token " + std::string(special.usual) +
               ", and tokenizer_config.json names no other as " + special.name);
      if (id < 0) continue;
      set(std::string(special.key) + "_token_id", static_cast<std::uint32_t>(id));
      kinds_[to_size(id)] = special.kind;
    }
    for (std::size_t i = 0; i < n_tokens_; ++i)
      if (kinds_[i] == kNormal)
        tokens_[i] = tokens_[i].starts_with("##") ? tokens_[i].substr(2) : std::string(kSpace) + tokens_[i];
    set("model", std::string("bert"));
    set("pre", std::string("jina-v2-en"));
    set("tokens", tokens_);
    set("token_type", kinds_);
    word_pieces_ = true;
  }

  std::int64_t id_of(const char* name) const {
    const Json* const token = find(names_, name);
    if (token == nullptr) return -1;
    const std::string text =
        token->is_string() ? token->get<std::string>() : find_text(*token, "content").value_or("");
    const auto found = ids_.find(text);
    return found == ids_.end() ? -1 : found->second;
  }

  void add_special(const Config& config, std::vector<std::string>& notes) {
    if (word_pieces_) return;
    const Json generation = read_json_if_there(folder_ / "generation_config.json");
    const auto numbers_of = [&](const char* name) {
      std::vector<std::int64_t> ids;
      const Json* value = find(generation, name);
      if (value == nullptr) value = config.find({name});
      const auto take = [&](const Json& id) {
        if (id.is_number_unsigned() && id.get<std::uint64_t>() < n_tokens_)
          ids.push_back(id.get<std::int64_t>());
      };
      if (value != nullptr && value->is_array()) std::for_each(value->begin(), value->end(), take);
      if (value != nullptr && !value->is_array()) take(*value);
      return ids;
    };
    const std::pair<const char*, const char*> tokens[] = {{"bos", "bos"},       {"unk", "unknown"},
                                                          {"pad", "padding"},   {"cls", "cls"},
                                                          {"sep", "seperator"}, {"mask", "mask"}};
    for (const auto& [name, key] : tokens) {
      std::int64_t id = id_of((std::string(name) + "_token").c_str());
      if (std::string_view(name) == "unk" && unknown_ >= 0) id = unknown_;  // The tokenizer model's own id.
      if (std::string_view(name) == "bos" && id < 0) id = fallback_ids_[0];
      if (std::string_view(name) == "pad" && id < 0) id = fallback_ids_[2];
      if (static_cast<std::uint64_t>(id) >= n_tokens_) id = -1;
      if (const auto ids = numbers_of((std::string(name) + "_token_id").c_str()); id < 0 && !ids.empty())
        id = ids.front();
      if (id >= 0) set(std::string(key) + "_token_id", static_cast<std::uint32_t>(id));
      if (std::string_view(name) == "bos") bos_ = id;
    }
    std::vector<std::int64_t> ends = numbers_of("eos_token_id");
    std::int64_t end = id_of("eos_token");
    if (end < 0 && ends.empty()) end = fallback_ids_[1];
    if (const std::int64_t id = end; id >= 0 && static_cast<std::uint64_t>(id) < n_tokens_) {
      std::erase(ends, id);
      ends.insert(ends.begin(), id);
    }
    constexpr const char* kEnds[] = {"eos_token_id", "eot_token_id", "eom_token_id"};
    // Other readers support three; this key has all of them.
    if (ends.size() > 1) set("eos_token_ids", std::vector<std::int32_t>(ends.begin(), ends.end()));
    for (std::size_t i = 0; i < std::min(ends.size(), std::size(kEnds)); ++i)
      set(kEnds[i], static_cast<std::uint32_t>(ends[i]));
    const Frame around = frame();
    const auto said = [&](const char* name) {
      const Json* const adds = find(names_, name);
      return adds != nullptr && adds->is_boolean() ? std::optional(adds->get<bool>()) : std::nullopt;
    };
    const bool begins = bos_ >= 0 && !around.before.empty() && around.before.front() == bos_;
    // tokenizer.json lists the tokens around a prompt, and XLM-R has both. Other folders without it get the
    // default of their kind. Transformers' tokenizers have the same defaults.
    const auto set_adds = [&](const char* name, std::int64_t id, bool listed) {
      std::optional<bool> adds = listed ? true : said(name);
      if (!adds && (fairseq_ || find(tokenizer_, "model") != nullptr)) adds = fairseq_;
      if (adds) set(name, *adds && id >= 0);
    };
    const std::int64_t eos = ends.empty() ? -1 : ends.front();
    const bool closes = eos >= 0 && !around.after.empty() && around.after.back() == eos;
    set_adds("add_bos_token", bos_, begins);
    set_adds("add_eos_token", eos, closes);
    if (around.before.size() > (begins ? 1 : 0) || around.after.size() > (closes ? 1 : 0))
      notes.push_back("tokenizer.json adds" + texts_of(around.before) + " before and" +
                      texts_of(around.after) +
                      " after each prompt; GGUF has keys for one BOS and one EOS token only, so the others "
                      "must be written in prompts without a chat template");
  }

  /// The tokens around a prompt.
  struct Frame {
    std::vector<std::int64_t> before, after;
  };

  /// " <s> <x>", or " nothing".
  std::string texts_of(const std::vector<std::int64_t>& ids) const {
    std::string texts;
    for (const std::int64_t id : ids)
      texts += ' ' + (static_cast<std::uint64_t>(id) < n_tokens_ ? tokens_[to_size(id)] : "?");
    return texts.empty() ? " nothing" : texts;
  }

  /// The tokens that tokenizer.json puts before and after a prompt; -1 if a token has no id.
  Frame frame() const {
    Frame around;
    const Json* const processor = find(tokenizer_, "post_processor");
    if (processor == nullptr) return around;
    const auto id_of_text = [&](const std::string& text) {
      const auto found = ids_.find(text);
      return found == ids_.end() ? -1 : found->second;
    };
    for (const Json* step : steps_of(tokenizer_, "post_processor", "processors")) {
      const Json* const single = find(*step, "single");
      if (single != nullptr && single->is_array()) {
        around = {};
        bool is_after = false;
        for (const Json& part : *single) {
          if (const Json* const token = find(part, "SpecialToken"))
            (is_after ? around.after : around.before)
                .push_back(id_of_text(find_text(*token, "id").value_or("")));
          else
            is_after = true;  // The prompt.
        }
      }
      const auto pair = [&](const char* name) {  // ["</s>", 2]
        const Json* const of = find(*step, name);
        const bool good = of != nullptr && of->is_array() && !of->empty() && of->front().is_string();
        return std::vector<std::int64_t>{good ? id_of_text(of->front().get<std::string>()) : -1};
      };
      if (find_text(*step, "type") == "RobertaProcessing" || find_text(*step, "type") == "BertProcessing")
        around = {pair("cls"), pair("sep")};
    }
    return around;
  }

  void set(const std::string& key, const GgufValue& value) { file_.set("tokenizer.ggml." + key, value); }

  const std::filesystem::path folder_;
  const std::size_t n_tokens_;
  const std::string pre_;
  GgufWriter& file_;
  Json tokenizer_ = Json::object(), names_;
  std::vector<std::string> tokens_;
  std::vector<std::int32_t> kinds_;
  std::vector<float> scores_;
  std::map<std::string, std::int64_t> ids_;
  std::set<std::string> beyond_;  ///< Tokens that have no row of embeddings.
  /// Ids of added tokens by their flags in tokenizer.json.
  std::array<std::pair<const char*, std::vector<std::int32_t>>, 4> flags_ = {
      {{"lstrip", {}}, {"rstrip", {}}, {"single_word", {}}, {"normalized", {}}}};
  std::array<std::int64_t, 3> fallback_ids_ = {-1, -1, -1};  ///< bos, eos, padding: SentencePiece's word.
  std::int64_t bos_ = -1, unknown_ = -1;
  bool word_pieces_ = false;
  bool fairseq_ = false;  ///< XLM-R's file of SentencePiece.
};

}  // namespace

void add_vocabulary(const std::filesystem::path& folder, const Config& config, std::int64_t n_tokens,
                    const std::string& pre, GgufWriter& file, std::vector<std::string>& notes) {
  Vocabulary(folder, n_tokens, pre, file).add(config, notes);
}

}  // namespace weft::convert_impl
