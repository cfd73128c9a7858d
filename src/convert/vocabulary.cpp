#include "convert/vocabulary.h"

#include <algorithm>
#include <cstddef>
#include <optional>
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
#include "convert/special_tokens.h"
#include "convert/token_rows.h"
#include "convert/tokenizer_steps.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

constexpr std::uint64_t kMaxText = 64 << 20;
constexpr std::string_view kSpace = "\u2581";

std::string read_text(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = base::read_file(path, kMaxText);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Vocabulary {
 public:
  Vocabulary(const std::filesystem::path& folder, std::int64_t n_tokens, const std::string& pre,
             GgufWriter& file)
      : folder_(folder), pre_(pre), file_(file), rows_(folder_, n_tokens) {}

  void add(const Config& config, std::vector<std::string>& notes) {
    if (const Json* const model = find(folder_.tokenizer, "model")) {
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
    if (!word_pieces_) add_special_tokens(folder_, rows_, config, defaults_, file_, notes);
    rows_.write_flags(file_);
    add_chat_templates(folder_.path, folder_.names, file_, notes);
    if (const auto& beyond = rows_.beyond(); !beyond.empty())
      notes.push_back("left out " + base::counted(beyond.size(), "token") +
                      " that the embeddings have no row for, e.g. '" + beyond.begin()->substr(0, 60) + "'");
  }

 private:
  void read_vocabulary(const Json& model) {
    const Json* const vocabulary = find(model, "vocab");
    if (vocabulary == nullptr || !vocabulary->is_object()) refuse("tokenizer.json has no object \"vocab\"");
    for (const auto& [text, id] : vocabulary->items()) {
      if (!id.is_number_integer()) refuse("tokenizer.json: a token's id is not an integer");
      const auto number = id.get<std::int64_t>();
      if (const auto at = static_cast<std::uint64_t>(number); at < rows_.size() && rows_.kinds[at] != kUnused)
        refuse("tokenizer.json: the tokens '" + rows_.tokens[at].substr(0, 60) + "' and '" +
               text.substr(0, 60) + "' have the same id");
      rows_.put(text, number, kNormal);
    }
    rows_.read_added();
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
    if (bytes && rows_.contains("<0x00>") && rows_.contains("<0xFF>")) {
      add_pieces(model, merges);
    } else if (cuts_at_spaces(folder_.tokenizer)) {
      add_words(model, merges);
    } else {
      const std::string pre = pre_.empty() ? pre_tokenizer_name(folder_.tokenizer) : known_pre();
      add_steps(folder_.tokenizer, true, file_);
      if (const bool ignores = ignores_merges(folder_.tokenizer);
          ignores != text::find_pre_tokenizer(pre).ignore_merges)
        file_.set("weft.tokenizer.ignore_merges", ignores);
      finish_bpe(pre, merges);
    }
  }

  void finish_bpe(const std::string& pre, const std::vector<std::string>& merges) {
    if (pre == "whitespace" && has_step("Lowercase")) set("normalizer.lowercase", true);
    set("model", std::string("gpt2"));
    set("pre", pre);
    set("tokens", rows_.tokens);
    set("token_type", rows_.kinds);
    set("merges", merges);
  }

  /// BPE on the characters of words. The steps cut the words.
  void add_words(const Json& model, const std::vector<std::string>& merges) {
    refuse_pre();
    for (const char* flag : {"fuse_unk", "ignore_merges"})
      if (const Json* const value = find(model, flag); value != nullptr && *value == true)
        throw Error(ErrorCode::kUnsupported, std::string("tokenizer.json has ") + flag +
                                                 ", which weft does not support for BPE on characters");
    add_steps(folder_.tokenizer, false, file_);
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
    const auto steps = normalizers_of(folder_.tokenizer);
    return std::any_of(steps.begin(), steps.end(),
                       [&](const Json* step) { return find_text(*step, "type") == type; });
  }

  /// BPE of SentencePiece: the first merge has the highest score. All merges that produce a token have the
  /// same rank there, so the order of the list suffices.
  void add_pieces(const Json& model, const std::vector<std::string>& merges) {
    refuse_pre();
    add_steps(folder_.tokenizer, false, file_);
    const std::string unknown = find_text(model, "unk_token").value_or("<unk>");
    const Json& vocabulary = *find(model, "vocab");
    std::vector<float> scores(rows_.size(), 0.0f);
    std::vector<bool> seen(rows_.size(), false);  // A merge produces it.
    float next = 0.0f;
    for (const std::string& merge : merges) {
      std::string text = merge;
      if (const auto space = text.find(' '); space != text.npos) text.erase(space, 1);
      const std::int64_t id = rows_.id_of(text);
      if (id < 0 || seen[to_size(id)]) continue;
      seen[to_size(id)] = true;
      scores[to_size(id)] = next--;
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!seen[i] && rows_.kinds[i] == kNormal) scores[i] = next--;  // Characters.
      if (!seen[i] && rows_.kinds[i] == kUserDefined)
        scores[i] =
            is_character(rows_.tokens[i]) && vocabulary.contains(rows_.tokens[i]) ? next-- : kNeverMerged;
      if (is_byte(rows_.tokens[i]))
        rows_.kinds[i] = kByte;  // Also where a tokenizer.json adds them as special tokens.
      if (rows_.tokens[i] == unknown) rows_.mark_unknown(i);
    }
    set("model", std::string("llama"));
    set("pre", std::string("default"));
    set("tokens", rows_.tokens);
    set("scores", scores);
    set("token_type", rows_.kinds);
    set("add_space_prefix", prepends_space());
  }

  /// [["piece", score], ...] by their numbers.
  void add_unigram(const Json& model) {
    const Json* const list = find(model, "vocab");
    if (list == nullptr || !list->is_array()) refuse("tokenizer.json has no list \"vocab\"");
    std::int64_t id = 0;
    for (const Json& piece : *list) {
      if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number())
        refuse("tokenizer.json: a piece is not a string with a score");
      rows_.put_piece(piece[0].get<std::string>(), id++, kNormal, piece[1].get<float>());
    }
    rows_.read_added();
    const Json* const fallback = find(model, "byte_fallback");
    if (fallback != nullptr && fallback->is_boolean() && fallback->get<bool>())
      for (std::size_t i = 0; i < rows_.size(); ++i)
        if (is_byte(rows_.tokens[i])) rows_.kinds[i] = kByte;
    if (const Json* const unknown = find(model, "unk_id");
        unknown != nullptr && unknown->is_number_unsigned() && unknown->get<std::uint64_t>() < rows_.size())
      rows_.mark_unknown(unknown->get<std::size_t>());
    add_steps(folder_.tokenizer, false, file_);
    finish_pieces("t5", prepends_space(), removes_spaces());
  }

  /// Whether the steps remove extra spaces, as far as GGUF's key can express that.
  bool removes_spaces() const {
    for (const Json* const step : normalizers_of(folder_.tokenizer)) {
      const auto type = find_text(*step, "type");
      if (type == "Strip" || (type == "Replace" && pattern(*step, "Regex") == " {2,}")) return true;
    }
    const auto steps = pre_tokenizers_of(folder_.tokenizer);
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
      if (!std::filesystem::exists(folder_.path / name, ignored)) continue;
      const SentencePieceModel model = read_sentencepiece(base::read_file(folder_.path / name, kMaxText));
      // XLM-R has fairseq's tokens: four of its own, then the file's pieces without the first three.
      const bool fairseq = std::string_view(name) == "sentencepiece.bpe.model";
      if (!model.unigram) std::fill(rows_.scores.begin(), rows_.scores.end(), kNeverMerged);
      std::int64_t id = 0;
      std::size_t next = 0;
      if (fairseq) {
        for (const char* token : {"<s>", "<pad>", "</s>"}) rows_.put_piece(token, id++, kControl, 0.0f);
        rows_.put_piece("<unk>", id++, kUnknown, 0.0f);
        next = 3;
        rows_.put_piece("<mask>", static_cast<std::int64_t>(model.pieces.size()) + 1, kControl, 0.0f);
      }
      for (; next < model.pieces.size(); ++next) {
        const SentencePieceModel::Piece& piece = model.pieces[next];
        rows_.put_piece(piece.text, id++, piece.kind, piece.score);
      }
      rows_.read_added();
      if (!fairseq && model.unknown >= 0 && to_size(model.unknown) < rows_.size())
        rows_.mark_unknown(to_size(model.unknown));
      set_charsmap(model.charsmap);
      finish_pieces(model.unigram ? "t5" : "llama", model.adds_space, model.removes_extra_spaces);
      defaults_.fairseq = fairseq;
      defaults_.ids = {fairseq ? 0 : model.bos, fairseq ? 2 : model.eos, fairseq ? 1 : model.padding};
      return true;
    }
    return false;
  }

  /// Marks the token that the model's "unk_token" names, if it names one.
  void find_unknown(const Json& model) {
    const std::int64_t id = rows_.id_of(find_text(model, "unk_token").value_or(""));
    if (id >= 0) rows_.mark_unknown(to_size(id));
  }

  void set_charsmap(std::span<const std::uint8_t> map) {
    if (!map.empty()) set("precompiled_charsmap", std::vector<std::uint8_t>(map.begin(), map.end()));
  }

  void finish_pieces(const char* model, bool adds_space, bool removes_extra_spaces) {
    refuse_pre();
    set("model", std::string(model));
    set("pre", std::string("default"));
    set("tokens", rows_.tokens);
    set("scores", rows_.scores);
    set("token_type", rows_.kinds);
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
    return some(normalizers_of(folder_.tokenizer)) || some(pre_tokenizers_of(folder_.tokenizer));
  }

  void add_word_pieces(const Json& model) {
    read_vocabulary(model);
    if (const auto prefix = find_text(model, "continuing_subword_prefix"); prefix && *prefix != "##")
      throw Error(ErrorCode::kUnsupported, "tokenizer.json marks parts of words with '" +
                                               prefix->substr(0, 40) +
                                               "' (continuing_subword_prefix), expected '##'");
    add_steps(folder_.tokenizer, false, file_);
    find_unknown(model);
    const Json* const step = find(folder_.tokenizer, "normalizer");
    const bool bert = step != nullptr && find_text(*step, "type") == "BertNormalizer";
    const Json others = {{"lowercase", has_step("Lowercase")}, {"strip_accents", has_step("StripAccents")}};
    finish_word_pieces(bert ? *step : others, "lowercase");
  }

  void add_word_pieces_of_text() {
    std::error_code ignored;
    if (!std::filesystem::exists(folder_.path / "vocab.txt", ignored))
      throw Error(ErrorCode::kNotFound, folder_.path.string() + " has no tokenizer.json and no vocab.txt");
    const std::string text = read_text(folder_.path / "vocab.txt");
    std::int64_t id = 0;
    for (std::size_t at = 0; at < text.size(); ++id) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      std::string token = text.substr(at, end - at);
      if (token.ends_with('\r')) token.pop_back();
      rows_.put(std::move(token), id, kNormal);
      at = end + 1;
    }
    rows_.read_added();
    finish_word_pieces(folder_.names, "do_lower_case");
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
      std::int64_t id = special.kind == kUnknown ? rows_.unknown() : -1;  // The tokenizer model's own id.
      if (id < 0) id = rows_.id_of_name(special.name);
      if (id < 0) id = rows_.id_of(special.usual);
      if (id < 0 && special.required)
        refuse("the vocabulary has no token " + std::string(special.usual) +
               ", and tokenizer_config.json names no other as " + special.name);
      if (id < 0) continue;
      set(std::string(special.key) + "_token_id", static_cast<std::uint32_t>(id));
      rows_.kinds[to_size(id)] = special.kind;
    }
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (rows_.kinds[i] == kNormal)
        rows_.tokens[i] = rows_.tokens[i].starts_with("##") ? rows_.tokens[i].substr(2)
                                                            : std::string(kSpace) + rows_.tokens[i];
    set("model", std::string("bert"));
    set("pre", std::string("jina-v2-en"));
    set("tokens", rows_.tokens);
    set("token_type", rows_.kinds);
    word_pieces_ = true;
  }

  void set(const std::string& key, const GgufValue& value) { file_.set("tokenizer.ggml." + key, value); }

  const TokenizerFolder folder_;
  const std::string pre_;
  GgufWriter& file_;
  TokenRows rows_;
  SpecialDefaults defaults_;
  bool word_pieces_ = false;
};

}  // namespace

void add_vocabulary(const std::filesystem::path& folder, const Config& config, std::int64_t n_tokens,
                    const std::string& pre, GgufWriter& file, std::vector<std::string>& notes) {
  Vocabulary(folder, n_tokens, pre, file).add(config, notes);
}

}  // namespace weft::convert_impl
