#include "engine/vocabulary_from_gguf.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/notes.h"
#include "base/to_size.h"
#include "text/pre_tokenizer.h"
#include "weft/error.h"

namespace weft::engine {
namespace {

using text::Vocabulary;
using text::VocabularyKind;

[[noreturn]] void invalid(const std::string& message) { throw Error(ErrorCode::kInvalidFile, message); }

std::string key(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

VocabularyKind read_kind(const gguf::File& file) {
  const auto model = file.get_string(key("model"));
  if (!model) invalid("tokenizer.ggml.model is missing: the file has no vocabulary");
  if (*model == "gpt2") return VocabularyKind::kBpe;
  if (*model == "llama") return VocabularyKind::kSpm;
  if (*model == "bert") return VocabularyKind::kWordPiece;
  if (*model == "t5") return VocabularyKind::kUnigram;
  if (*model == "gemma4") return VocabularyKind::kCharacterBpe;
  if (*model == "rwkv") return VocabularyKind::kRwkv;
  throw Error(ErrorCode::kUnsupported, "tokenizer.ggml.model is \"" + std::string(model->substr(0, 64)) +
                                           "\"; known are gpt2, gemma4, llama, bert, t5 and rwkv");
}

/// Kinds are numbered as in SentencePiece; 0 is not set.
std::optional<TokenKind> kind_of(std::int64_t type) {
  constexpr std::array kKinds = {TokenKind::kNormal,  TokenKind::kNormal,      TokenKind::kUnknown,
                                 TokenKind::kControl, TokenKind::kUserDefined, TokenKind::kUnused,
                                 TokenKind::kByte};
  if (type < 0 || type >= static_cast<std::int64_t>(kKinds.size())) return std::nullopt;
  return kKinds[to_size(type)];
}

void read_kinds(const gguf::File& file, Vocabulary& v) {
  const auto types = file.get_ints(key("token_type"));
  if (!types) return;
  std::size_t n_unknown = 0;
  for (std::size_t i = 0; i < types->size(); ++i) {
    const auto kind = kind_of((*types)[i]);
    v.kinds.push_back(kind.value_or(TokenKind::kNormal));
    if (kind || n_unknown++ > 0) continue;
    v.notes.push_back(key("token_type") + "[" + std::to_string(i) + "] is " + std::to_string((*types)[i]) +
                      "; known are 0 to 6. Such tokens are treated as ordinary ones");
  }
  if (types->empty()) invalid(key("token_type") + " is empty");
}

/// The ids of a key, which has one or a list. What cannot be an id is left out, with a note.
std::vector<Token> read_ids(const gguf::File& file, std::string_view name, Vocabulary& v) {
  std::vector<Token> ids;
  const gguf::Value* const value = file.find(key(name));
  if (value == nullptr) return ids;
  try {
    const bool list = value->type == gguf::ValueType::kArray;
    for (const std::int64_t id : list ? *file.get_ints(key(name)) : std::vector{*file.get_int(key(name))}) {
      if (id >= 0 && static_cast<std::uint64_t>(id) < v.tokens.size())
        ids.push_back(static_cast<Token>(id));
      else
        base::add_note(v.notes, key(name) + " is " + std::to_string(id) + ", but there are " +
                                    std::to_string(v.tokens.size()) + " tokens; it is ignored");
    }
  } catch (const Error& error) {
    v.notes.push_back(std::string(error.what()) + "; it is not used");
  }
  return ids;
}

void read_tokens(const gguf::File& file, Vocabulary& v) {
  const auto* tokens = file.get_strings(key("tokens"));
  if (tokens == nullptr) invalid("tokenizer.ggml.tokens is missing: the file has no vocabulary");
  v.tokens = *tokens;
  read_kinds(file, v);
  if (v.kind == VocabularyKind::kSpm || v.kind == VocabularyKind::kUnigram)
    if (const auto scores = file.get_floats(key("scores"))) {
      if (scores->empty()) invalid(key("scores") + " is empty");
      v.scores.assign(scores->begin(), scores->end());
    }
  if (v.kind != VocabularyKind::kBpe && v.kind != VocabularyKind::kCharacterBpe) return;
  const auto* merges = file.get_strings(key("merges"));
  if (merges == nullptr) invalid("tokenizer.ggml.merges is missing, which byte-level BPE needs");
  v.merges = *merges;
}

/// A list of bytes, signed or not; empty where it is missing.
std::string read_bytes(const gguf::File& file, std::string_view name) {
  std::string bytes;
  const auto numbers = file.get_ints(key(name));
  if (!numbers) return bytes;
  for (const std::int64_t number : *numbers) {
    if (number < -128 || number > 255) invalid(key(name) + " is not a list of bytes");
    bytes += static_cast<char>(number);
  }
  return bytes;
}

std::string chat_template_of(const gguf::File& file, std::vector<std::string>& notes) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  const gguf::Value* const value = file.find(kKey);
  if (value == nullptr) return {};
  if (const auto* text = std::get_if<std::string>(&value->data)) return *text;
  notes.push_back(std::string(kKey) + " is not a string; the file counts as one without a chat template");
  return {};
}

Token find(const Vocabulary& v, std::string_view text) {
  const auto found = std::find(v.tokens.begin(), v.tokens.end(), text);
  return found == v.tokens.end() ? kNoToken : static_cast<Token>(found - v.tokens.begin());
}

void read_special(const gguf::File& file, Vocabulary& v) {
  const std::pair<const char*, Token&> ids[] = {
      {"bos_token_id", v.bos},       {"unknown_token_id", v.unk},
      {"seperator_token_id", v.sep},  // The format's own spelling.
      {"padding_token_id", v.pad},   {"cls_token_id", v.cls},
      {"mask_token_id", v.mask},
  };
  for (const auto& [name, id] : ids)
    if (const std::vector<Token> read = read_ids(file, name, v); !read.empty()) id = read.front();
  Token other = kNoToken;
  const std::pair<const char*, Token&> ends[] = {
      {"eos_token_id", v.eos},     {"eos_token_ids", v.eos},
      {"eot_token_id", v.eot},     {"eot_token_ids", v.eot},
      {"eom_token_id", v.eom},     {"eom_token_ids", v.eom},
      {"eog_token_ids", other},    {"stop_token_ids", other},
      {"fim_pad_token_id", other},  // These end a file of code.
      {"fim_rep_token_id", other}, {"fim_sep_token_id", other},
  };
  for (const auto& [name, first] : ends) {
    const std::vector<Token> read = read_ids(file, name, v);
    if (first == kNoToken && !read.empty()) first = read.front();
    v.ends.insert(v.ends.end(), read.begin(), read.end());
  }
  if (v.kind == VocabularyKind::kWordPiece) {  // Many BERT files omit these keys.
    if (v.cls == kNoToken && v.bos == kNoToken) v.cls = find(v, "[CLS]");
    if (v.sep == kNoToken && v.eos == kNoToken) v.sep = find(v, "[SEP]");
    if (v.unk == kNoToken) v.unk = find(v, "[UNK]");
  }
  if (v.kind == VocabularyKind::kUnigram && v.unk == kNoToken) {
    const auto unknown = std::find(v.kinds.begin(), v.kinds.end(), TokenKind::kUnknown);
    if (unknown != v.kinds.end()) v.unk = static_cast<Token>(unknown - v.kinds.begin());
  }
  v.chat_template = chat_template_of(file, v.notes);
  v.add_bos = file.get_bool(key("add_bos_token"));
  v.add_eos = file.get_bool(key("add_eos_token"));
  v.add_space_prefix = file.get_bool(key("add_space_prefix"));
  v.remove_extra_spaces = file.get_bool(key("remove_extra_whitespaces"));
  if (v.kind == VocabularyKind::kUnigram || v.kind == VocabularyKind::kSpm)
    v.charsmap = read_bytes(file, "precompiled_charsmap");
  v.lowercase = file.get_bool(key("normalizer.lowercase"));
  v.strip_accents = file.get_bool(key("normalizer.strip_accents"));
}

/// Reads the keys of `weft convert` for steps and flags of tokenizer.json that GGUF has no keys for. False if
/// there are none, because another converter made the file.
bool read_steps(const gguf::File& file, Vocabulary& v) {
  const auto own = [](const char* name) { return std::string("weft.tokenizer.") + name; };
  if (const auto steps = file.get_string(own("normalizers"))) v.normalizers = *steps;
  if (const auto steps = file.get_string(own("pre_tokenizers"))) v.pre_tokenizers = *steps;
  v.ignore_merges = file.get_bool(own("ignore_merges"));
  bool found = v.normalizers.has_value();
  const std::pair<const char*, std::vector<Token>&> lists[] = {{"lstrip", v.strip_left},
                                                               {"rstrip", v.strip_right},
                                                               {"single_word", v.single_word},
                                                               {"normalized", v.normalized}};
  for (const auto& [name, ids] : lists) {
    const auto numbers = file.get_ints(own(name));
    if (!numbers) continue;
    found = true;
    for (const std::int64_t id : *numbers)
      ids.push_back(id < 0 || id > std::numeric_limits<Token>::max() ? kNoToken : static_cast<Token>(id));
  }
  return found;
}

/// GGUF has no key for special tokens that take the white space next to them. Some models are known by name.
void set_strips(const gguf::File& file, Vocabulary& v) {
  std::string name(file.get_label("general.name"));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  if (name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos) {
    for (std::size_t i = 0; i < std::min(v.tokens.size(), v.kinds.size()); ++i) {
      const std::string& token = v.tokens[i];
      const bool special = v.kinds[i] == TokenKind::kControl || v.kinds[i] == TokenKind::kUserDefined;
      if (special && token != "<unk>" && token != "<s>" && token != "<|endoftext|>")
        v.strip_right.push_back(static_cast<Token>(i));
    }
  }
  const bool jina_bpe = v.pre == "jina-v2-de" || v.pre == "jina-v2-es" || v.pre == "jina-v2-code";
  const Token mask = jina_bpe ? find(v, "<mask>") : v.pre == "modern-bert" ? find(v, "[MASK]") : kNoToken;
  if (mask != kNoToken) v.strip_left.push_back(mask);
}

}  // namespace

text::Vocabulary vocabulary_from_gguf(const gguf::File& file, std::string_view pre) {
  Vocabulary v;
  v.kind = read_kind(file);
  if (!pre.empty() && v.kind != VocabularyKind::kBpe)
    throw Error(ErrorCode::kInvalidArgument,
                "pre_tokenizer is '" + std::string(pre) +
                    "', but only byte-level BPE vocabularies have pre-tokenizers; leave it out");
  const auto named = pre.empty() ? file.get_string(key("pre")) : pre;
  v.pre = named.value_or("");
  if (v.kind == VocabularyKind::kBpe && !named)
    v.notes.push_back(key("pre") +
                      " is missing: weft uses the pre-tokenizer \"default\", and tokens may be wrong; --pre "
                      "(ModelParams::pre_tokenizer) sets another");
  // Some files name BPE on characters by its pre-tokenizer. Files of Gemma 4 omit that name, and some set
  // add_bos to false although the model needs a BOS token.
  if (v.kind == VocabularyKind::kBpe && (v.pre == "gemma4" || v.pre == "granite-embed-multi-311m" ||
                                         v.pre == "sarvam-moe" || v.pre == "whitespace"))
    v.kind = VocabularyKind::kCharacterBpe;
  else if (v.kind == VocabularyKind::kCharacterBpe)
    v.pre = "gemma4";
  read_tokens(file, v);
  read_special(file, v);
  if (v.pre == "gemma4") v.add_bos = true;
  if (read_steps(file, v)) return v;
  set_strips(file, v);
  if (v.kind == VocabularyKind::kBpe && text::composes(v.pre)) v.normalizers = R"([{"type": "NFC"}])";
  return v;
}

}  // namespace weft::engine
