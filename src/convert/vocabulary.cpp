#include "convert/vocabulary.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/read_file.h"
#include "convert/pre_tokenizer_name.h"
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
      } else {
        throw Error(ErrorCode::kUnsupported, "tokenizer.json has a model of the type '" + type.substr(0, 40) +
                                                 "', known are BPE and WordPiece");
      }
    } else {
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
      put(text, id.get<std::int64_t>(), kNormal);
    }
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
      set("model", std::string("gpt2"));
      set("pre", pre_.empty() ? pre_tokenizer_name(tokenizer_) : pre_);
      set("tokens", tokens_);
      set("token_type", kinds_);
      set("merges", merges);
    }
  }

  /// BPE of SentencePiece: what is merged first has the highest score. All merges that give a token have the
  /// same rank there, so the order of the list says it all.
  void add_pieces(const std::vector<std::string>& merges, const std::string& unknown) {
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

  bool prepends_space() const {
    const auto prepends = [](const Json& step) {
      if (find_text(step, "type") == "Prepend") return true;
      const auto scheme = find_text(step, "prepend_scheme");
      return find_text(step, "type") == "Metaspace" && scheme != "never";
    };
    for (const char* part : {"normalizer", "pre_tokenizer"})
      if (const Json* const step = find(tokenizer_, part)) {
        if (prepends(*step)) return true;
        const Json* const list = find(*step, "normalizers");
        if (list != nullptr && list->is_array() && std::any_of(list->begin(), list->end(), prepends))
          return true;
      }
    return false;
  }

  void add_word_pieces(const Json& model) {
    read_vocabulary(model);
    finish_word_pieces();
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
    finish_word_pieces();
  }

  /// GGUF marks the beginning of words, where the folder marks what goes on.
  void finish_word_pieces() {
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
    const std::pair<const char*, const char*> tokens[] = {
        {"bos", "bos"}, {"unk", "unknown"}, {"pad", "padding"}};
    for (const auto& [name, key] : tokens) {
      std::int64_t id = id_of((std::string(name) + "_token").c_str());
      if (const auto ids = numbers_of((std::string(name) + "_token_id").c_str()); id < 0 && !ids.empty())
        id = ids.front();
      if (id >= 0) set(std::string(key) + "_token_id", static_cast<std::uint32_t>(id));
      if (std::string_view(name) == "bos") bos_ = id;
    }
    std::vector<std::int64_t> ends = numbers_of("eos_token_id");
    if (const std::int64_t id = id_of("eos_token"); id >= 0) {
      std::erase(ends, id);
      ends.insert(ends.begin(), id);
    }
    constexpr const char* kEnds[] = {"eos_token_id", "eot_token_id", "eom_token_id"};
    for (std::size_t i = 0; i < std::min(ends.size(), std::size(kEnds)); ++i)
      set(kEnds[i], static_cast<std::uint32_t>(ends[i]));
    set("add_bos_token", adds_bos());
    if (const Json* const adds = find(names_, "add_eos_token"); adds != nullptr && adds->is_boolean())
      set("add_eos_token", adds->get<bool>());
  }

  /// What tokenizer.json does to a text counts, whatever is said beside it.
  bool adds_bos() const {
    if (bos_ < 0) return false;
    const Json* const adds = find(names_, "add_bos_token");
    if (adds != nullptr && adds->is_boolean() && adds->get<bool>()) return true;
    const Json* const processor = find(tokenizer_, "post_processor");
    if (processor == nullptr) return false;
    std::vector<const Json*> steps = {processor};
    if (const Json* const list = find(*processor, "processors"); list != nullptr && list->is_array())
      for (const Json& step : *list) steps.push_back(&step);
    for (const Json* step : steps) {
      const Json* const single = find(*step, "single");
      if (single == nullptr || !single->is_array() || single->empty()) continue;
      const Json* const first = find(single->front(), "SpecialToken");
      if (first == nullptr) continue;
      const auto found = ids_.find(find_text(*first, "id").value_or(""));
      if (found != ids_.end() && found->second == bos_) return true;
    }
    return false;
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
  std::map<std::string, std::int64_t> ids_;
  std::int64_t bos_ = -1;
  bool word_pieces_ = false;
};

}  // namespace

void add_vocabulary(const std::filesystem::path& folder, const Config& config, std::int64_t n_tokens,
                    const std::string& pre, GgufWriter& file) {
  Vocabulary(folder, n_tokens, pre, file).add(config);
}

}  // namespace weft::convert_impl
