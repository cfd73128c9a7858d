#include "convert/vocabulary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/read_file.h"
#include "convert/pre_tokenizer_name.h"
#include "convert/sentencepiece_model.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

// Kinds of tokens, as GGUF numbers them.
constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;
constexpr std::uint64_t kMaxText = 64 << 20;
constexpr std::string_view kSpace = "\u2581";

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorCode::kInvalidFile, reason); }

std::string read_text(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = base::read_file(path, kMaxText);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Vocabulary {
 public:
  Vocabulary(const std::filesystem::path& folder, std::int64_t n_tokens, const std::string& pre,
             GgufWriter& file)
      : folder_(folder), n_tokens_(static_cast<std::size_t>(n_tokens)), pre_(pre), file_(file) {
    names_ = read_json_if_there(folder / "tokenizer_config.json");
    std::error_code ignored;
    if (std::filesystem::exists(folder / "tokenizer.json", ignored))
      tokenizer_ = read_json(folder / "tokenizer.json");
  }

  void add(const Config& config) {
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
    add_special(config);
    add_templates();
  }

 private:
  void put(std::string text, std::int64_t id, std::int32_t kind) {
    if (id < 0) refuse("tokenizer.json: the token '" + text.substr(0, 60) + "' has a negative number");
    // What has no row of embeddings cannot be read by the model.
    if (static_cast<std::size_t>(id) >= n_tokens_) return;
    const auto at = static_cast<std::size_t>(id);
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
      if (!id.is_number_integer()) refuse("tokenizer.json: a token's number is none");
      const auto number = id.get<std::int64_t>();
      if (const auto at = static_cast<std::uint64_t>(number); at < n_tokens_ && kinds_[at] != kUnused)
        refuse("tokenizer.json: the tokens '" + tokens_[at].substr(0, 60) + "' and '" + text.substr(0, 60) +
               "' have the same number");
      put(text, number, kNormal);
    }
    read_added();
  }

  /// Tokens beside the model's, and a text for each row that has none.
  void read_added() {
    const Json* const added = find(tokenizer_, "added_tokens");
    if (added != nullptr && added->is_array())
      for (const Json& token : *added) {
        const Json* const id = find(token, "id");
        const auto text = find_text(token, "content");
        if (id == nullptr || !id->is_number_integer() || !text)
          refuse("tokenizer.json: an added token has no id or no content");
        const Json* const special = find(token, "special");
        const bool controls = special != nullptr && special->is_boolean() && special->get<bool>();
        put(*text, id->get<std::int64_t>(), controls ? kControl : kUserDefined);
      }
    // Where there is no tokenizer.json, the configuration has them by their numbers.
    if (const Json* const by_id = find(names_, "added_tokens_decoder");
        added == nullptr && by_id != nullptr && by_id->is_object())
      for (const auto& [number, token] : by_id->items()) {
        std::int64_t id = -1;
        const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
        const auto text = find_text(token, "content");
        if (error != std::errc() || end != number.data() + number.size() || !text)
          refuse("tokenizer_config.json: an added token has no number or no content");
        const Json* const special = find(token, "special");
        const bool controls = special != nullptr && special->is_boolean() && special->get<bool>();
        put(*text, id, controls ? kControl : kUserDefined);
      }
    for (std::size_t i = 0; i < n_tokens_; ++i)
      if (tokens_[i].empty() && kinds_[i] == kUnused) tokens_[i] = "[PAD" + std::to_string(i) + "]";
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
        refuse("tokenizer.json: a merge is no pair of texts");
      }
    }
    return merges;
  }

  void add_bpe(const Json& model) {
    read_vocabulary(model);
    const std::vector<std::string> merges = read_merges(model);
    const Json* const fallback = find(model, "byte_fallback");
    const bool bytes = fallback != nullptr && fallback->is_boolean() && fallback->get<bool>();
    if (bytes && ids_.contains("<0x00>") && ids_.contains("<0xFF>")) {
      add_pieces(merges, find_text(model, "unk_token").value_or("<unk>"));
    } else {
      const std::string pre = pre_.empty() ? pre_tokenizer_name(tokenizer_) : pre_;
      check_bytes(pre);
      set("model", std::string("gpt2"));
      set("pre", pre);
      set("tokens", tokens_);
      set("token_type", kinds_);
      set("merges", merges);
    }
  }

  /// Byte-level BPE reads texts as they are. NFC, which most of these files name, leaves nearly all of them
  /// as they are, and readers of GGUF leave it out; another change would be other tokens without a word.
  void check_bytes(const std::string& pre) {
    for (const Json* const step : steps_of("normalizer", "normalizers")) {
      const std::string type = find_text(*step, "type").value_or("");
      if (type == "Lowercase" && pre == "whitespace")
        set("normalizer.lowercase", true);
      else if (type != "NFC")
        refuse_step(*step);
    }
    for (const Json* const step : steps_of("pre_tokenizer", "pretokenizers"))
      if (const Json* const adds = find(*step, "add_prefix_space");
          find_text(*step, "type") == "ByteLevel" && adds != nullptr && *adds == true)
        refuse_step(*step);
  }

  /// BPE of SentencePiece: what is merged first has the highest score. All merges that give a token have the
  /// same rank there, so the order of the list says it all.
  void add_pieces(const std::vector<std::string>& merges, const std::string& unknown) {
    for (const Json* const step : steps_of("normalizer", "normalizers")) {
      const std::string type = find_text(*step, "type").value_or("");
      if (type != "Prepend" && type != "NFC" && (type != "Replace" || pattern(*step, "String") != " "))
        refuse_step(*step);
    }
    std::vector<float> scores(n_tokens_, 0.0f);
    std::vector<bool> seen(n_tokens_, false);
    float next = 0.0f;
    for (const std::string& merge : merges) {
      std::string text = merge;
      if (const auto space = text.find(' '); space != text.npos) text.erase(space, 1);
      const auto found = ids_.find(text);
      if (found == ids_.end() || seen[static_cast<std::size_t>(found->second)]) continue;
      seen[static_cast<std::size_t>(found->second)] = true;
      scores[static_cast<std::size_t>(found->second)] = next--;
    }
    for (std::size_t i = 0; i < n_tokens_; ++i) {
      if (!seen[i] && kinds_[i] == kNormal) scores[i] = next--;  // Characters: no merge gives them.
      if (kinds_[i] == kNormal && is_byte(tokens_[i])) kinds_[i] = kByte;
      if (tokens_[i] == unknown) kinds_[i] = kUnknown;
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
        refuse("tokenizer.json: a piece is no text with a score");
      put_piece(piece[0].get<std::string>(), id++, kNormal, piece[1].get<float>());
    }
    read_added();
    const Json* const fallback = find(model, "byte_fallback");
    if (fallback != nullptr && fallback->is_boolean() && fallback->get<bool>())
      for (std::size_t i = 0; i < n_tokens_; ++i)
        if (kinds_[i] == kNormal && is_byte(tokens_[i])) kinds_[i] = kByte;
    if (const Json* const unknown = find(model, "unk_id");
        unknown != nullptr && unknown->is_number_unsigned() && unknown->get<std::uint64_t>() < n_tokens_)
      mark_unknown(unknown->get<std::size_t>());
    bool removes = false;
    for (const Json* const step : steps_of("normalizer", "normalizers")) {
      const std::string type = find_text(*step, "type").value_or("");
      if (type == "Precompiled") {
        const auto map = base::from_base64(find_text(*step, "precompiled_charsmap").value_or(""));
        if (!map) refuse("tokenizer.json: precompiled_charsmap is no base64");
        set_charsmap({reinterpret_cast<const std::uint8_t*>(map->data()), map->size()});
      } else if (type == "Replace" && pattern(*step, "Regex") == " {2,}") {
        removes = true;
      } else if (type == "Strip" || type == "Replace") {
        removes |= type == "Strip";
        if (type == "Replace" && pattern(*step, "String") != " ") refuse_step(*step);
      } else if (type != "Prepend") {
        refuse_step(*step);
      }
    }
    for (const Json* const step : steps_of("pre_tokenizer", "pretokenizers"))
      removes |= find_text(*step, "type") == "WhitespaceSplit";
    finish_pieces("t5", prepends_space(), removes);
  }

  static std::optional<std::string> pattern(const Json& step, const char* kind) {
    const Json* const pattern = find(step, "pattern");
    return pattern == nullptr ? std::nullopt : find_text(*pattern, kind);
  }

  [[noreturn]] static void refuse_step(const Json& step) {
    throw Error(ErrorCode::kUnsupported, "tokenizer.json changes texts in a way that is not known (" +
                                             step.dump().substr(0, 120) +
                                             "), and another text would give the model wrong tokens");
  }

  /// False where the folder has no file of SentencePiece.
  bool add_sentencepiece() {
    std::error_code ignored;
    for (const char* name : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"}) {
      if (!std::filesystem::exists(folder_ / name, ignored)) continue;
      const SentencePieceModel model = read_sentencepiece(base::read_file(folder_ / name, kMaxText));
      // XLM-R's tokens are those of fairseq: four of its own, and the pieces behind the file's first three.
      const bool fairseq = std::string_view(name) == "sentencepiece.bpe.model";
      tokens_.resize(n_tokens_);
      kinds_.assign(n_tokens_, kUnused);
      scores_.assign(n_tokens_, 0.0f);
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
      if (!fairseq && model.unknown >= 0 && static_cast<std::size_t>(model.unknown) < n_tokens_)
        mark_unknown(static_cast<std::size_t>(model.unknown));
      set_charsmap(model.charsmap);
      finish_pieces(model.unigram ? "t5" : "llama", model.adds_space, model.removes_extra_spaces);
      fallback_ids_ = {fairseq ? 0 : model.bos, fairseq ? 2 : model.eos, fairseq ? 1 : model.padding};
      return true;
    }
    return false;
  }

  void put_piece(std::string text, std::int64_t id, std::int32_t kind, float score) {
    if (static_cast<std::size_t>(id) < n_tokens_) scores_[static_cast<std::size_t>(id)] = score;
    put(std::move(text), id, kind);
  }

  void mark_unknown(std::size_t id) {
    kinds_[id] = kUnknown;
    unknown_ = static_cast<std::int64_t>(id);
  }

  void set_charsmap(std::span<const std::uint8_t> map) {
    if (!map.empty()) set("precompiled_charsmap", std::vector<std::uint8_t>(map.begin(), map.end()));
  }

  void finish_pieces(const char* model, bool adds_space, bool removes_extra_spaces) {
    set("model", std::string(model));
    set("pre", std::string("default"));
    set("tokens", tokens_);
    set("scores", scores_);
    set("token_type", kinds_);
    set("add_space_prefix", adds_space);
    set("remove_extra_whitespaces", removes_extra_spaces);
  }

  /// Steps of sequences, one behind another.
  static void flatten(const Json& step, const char* list_name, std::vector<const Json*>& steps,
                      int depth = 0) {
    constexpr int kDeepest = 4;
    const Json* const list = find(step, list_name);
    if (list == nullptr || !list->is_array() || depth == kDeepest) {
      steps.push_back(&step);
      return;
    }
    for (const Json& next : *list) flatten(next, list_name, steps, depth + 1);
  }

  /// Of a part of tokenizer.json; none where it is not there.
  std::vector<const Json*> steps_of(const char* part, const char* list_name) const {
    std::vector<const Json*> steps;
    if (const Json* const step = find(tokenizer_, part)) flatten(*step, list_name, steps);
    return steps;
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
    return some(steps_of("normalizer", "normalizers")) || some(steps_of("pre_tokenizer", "pretokenizers"));
  }

  void add_word_pieces(const Json& model) {
    read_vocabulary(model);
    const Json* const step = find(tokenizer_, "normalizer");
    finish_word_pieces(step != nullptr ? *step : names_, step != nullptr ? "lowercase" : "do_lower_case");
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
    finish_word_pieces(names_, "do_lower_case");
  }

  /// GGUF marks the beginning of words, where the folder marks what goes on. `texts` says what becomes of
  /// texts; readers of GGUF make them lower case unless a file says otherwise.
  void finish_word_pieces(const Json& texts, const char* lowercase) {
    for (const auto& [from, to] :
         {std::pair(lowercase, "lowercase"), std::pair("strip_accents", "strip_accents")})
      if (const Json* const value = find(texts, from); value != nullptr && value->is_boolean())
        set(std::string("normalizer.") + to, value->get<bool>());
    const std::pair<const char*, const char*> special[] = {{"[UNK]", "unknown"},
                                                           {"[CLS]", "bos"},
                                                           {"[SEP]", "seperator"},  // The format's spelling.
                                                           {"[PAD]", "padding"},
                                                           {"[MASK]", "mask"}};
    for (std::size_t i = 0; i < n_tokens_; ++i) {
      const auto found = std::find_if(std::begin(special), std::end(special),
                                      [&](const auto& pair) { return tokens_[i] == pair.first; });
      if (found != std::end(special)) {
        set(std::string(found->second) + "_token_id", static_cast<std::uint32_t>(i));
        kinds_[i] = tokens_[i] == "[UNK]" ? kUnknown : kControl;
      } else if (kinds_[i] == kNormal) {
        tokens_[i] = tokens_[i].starts_with("##") ? tokens_[i].substr(2) : std::string(kSpace) + tokens_[i];
      }
    }
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

  void add_special(const Config& config) {
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
      if (std::string_view(name) == "unk" && unknown_ >= 0) id = unknown_;  // What the model itself says.
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
    for (std::size_t i = 0; i < std::min(ends.size(), std::size(kEnds)); ++i)
      set(kEnds[i], static_cast<std::uint32_t>(ends[i]));
    const auto [begins, closes] = frame();
    const auto said = [&](const char* name) {
      const Json* const adds = find(names_, name);
      return adds != nullptr && adds->is_boolean() ? std::optional(adds->get<bool>()) : std::nullopt;
    };
    set("add_bos_token", bos_ >= 0 && (said("add_bos_token").value_or(false) || begins == bos_));
    const std::int64_t eos = ends.empty() ? -1 : ends.front();
    if (eos >= 0 && closes == eos)
      set("add_eos_token", true);
    else if (const auto adds = said("add_eos_token"))
      set("add_eos_token", *adds && eos >= 0);
    else if (find(tokenizer_, "model") != nullptr)  // Which has said what stands around a text.
      set("add_eos_token", false);
  }

  /// The tokens that tokenizer.json sets before and behind a text; -1 where it sets none.
  std::pair<std::int64_t, std::int64_t> frame() const {
    std::pair<std::int64_t, std::int64_t> ids{-1, -1};
    const Json* const processor = find(tokenizer_, "post_processor");
    if (processor == nullptr) return ids;
    std::vector<const Json*> steps;
    flatten(*processor, "processors", steps);
    const auto id_of_text = [&](const std::string& text) {
      const auto found = ids_.find(text);
      return found == ids_.end() ? -1 : found->second;
    };
    for (const Json* step : steps) {
      const Json* const single = find(*step, "single");
      if (single != nullptr && single->is_array() && !single->empty()) {
        if (const Json* const first = find(single->front(), "SpecialToken"))
          ids.first = id_of_text(find_text(*first, "id").value_or(""));
        if (const Json* const last = find(single->back(), "SpecialToken"))
          ids.second = id_of_text(find_text(*last, "id").value_or(""));
      }
      const auto pair = [&](const char* name) {  // ["</s>", 2]
        const Json* const of = find(*step, name);
        const bool good = of != nullptr && of->is_array() && !of->empty() && of->front().is_string();
        return good ? id_of_text(of->front().get<std::string>()) : -1;
      };
      if (find_text(*step, "type") == "RobertaProcessing" || find_text(*step, "type") == "BertProcessing")
        ids = {pair("cls"), pair("sep")};
    }
    return ids;
  }

  void add_templates() {
    std::error_code ignored;
    if (const auto path = folder_ / "chat_template.jinja"; std::filesystem::exists(path, ignored)) {
      file_.set("tokenizer.chat_template", read_text(path));
      return;
    }
    const Json* const value = find(names_, "chat_template");
    if (value == nullptr) return;
    if (value->is_string()) file_.set("tokenizer.chat_template", value->get<std::string>());
    if (!value->is_array()) return;
    for (const Json& named : *value)
      if (const auto text = find_text(named, "template"); text && find_text(named, "name") == "default")
        file_.set("tokenizer.chat_template", *text);
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
  std::array<std::int64_t, 3> fallback_ids_ = {-1, -1, -1};  ///< bos, eos, padding: SentencePiece's word.
  std::int64_t bos_ = -1, unknown_ = -1;
  bool word_pieces_ = false;
};

}  // namespace

void add_vocabulary(const std::filesystem::path& folder, const Config& config, std::int64_t n_tokens,
                    const std::string& pre, GgufWriter& file) {
  Vocabulary(folder, n_tokens, pre, file).add(config);
}

}  // namespace weft::convert_impl
