#include "text/text_steps.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/to_size.h"
#include "text/characters.h"
#include "text/charsmap.h"
#include "text/pattern.h"
#include "text/utf8.h"
#include "weft/error.h"

namespace weft::text {
namespace {

using Json = nlohmann::json;
using Change = std::function<std::string(std::string_view)>;
using Piece = PieceCutter::Piece;
using Cut = std::function<std::vector<Piece>(const Piece&)>;

constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxSteps = 64;
constexpr std::size_t kMaxValues = 4096;  // Of all steps.
/// Limit of a normalised string: replacements may be longer than their originals.
constexpr std::size_t kMaxBytes = 0xFFFF'FFFF;  // Positions have 32 bits.

/// Steps make strings longer. `n_bytes` is the length so far.
void check_size(std::size_t n_bytes) {
  if (n_bytes > kMaxBytes)
    throw Error(ErrorCode::kInvalidArgument, "the text is too long: normalised, it has more than 4 GiB");
}

[[noreturn]] void refuse(const Json& step, const std::string& reason) {
  throw Error(ErrorCode::kInvalidFile,
              "the tokenizer's step " + step.dump(-1, ' ', true).substr(0, 120) + " " + reason);
}

[[noreturn]] void refuse_unknown(const Json& step, const char* kind) {
  throw Error(ErrorCode::kUnsupported, "the tokenizer has a " + std::string(kind) +
                                           " that weft does not support (" +
                                           step.dump(-1, ' ', true).substr(0, 120) +
                                           "); without it, the model would get wrong tokens");
}

Json parse(std::string_view steps, const char* key) {
  const std::string name = "the metadata key weft.tokenizer." + std::string(key);
  try {
    Json list = base::parse_json<Json>(steps, {.depth = kMaxDepth, .n_values = kMaxValues});
    if (list.is_array() && list.size() <= kMaxSteps) return list;
  } catch (const base::JsonError&) {
    // Reported below.
  }
  throw Error(ErrorCode::kInvalidFile,
              name + " is not a JSON list of at most " + std::to_string(kMaxSteps) + " steps");
}

std::optional<std::string> text_of(const Json& step, const char* name) {
  const auto found = step.is_object() ? step.find(name) : step.end();
  if (!step.is_object() || found == step.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

/// A flag, or nothing where the step omits it or has null.
std::optional<bool> flag_of(const Json& step, const char* name) {
  const auto found = step.find(name);
  if (found == step.end() || found->is_null()) return std::nullopt;
  if (!found->is_boolean()) refuse(step, std::string("has no flag ") + name);
  return found->get<bool>();
}

Pattern pattern_of(const Json& step) {
  const auto found = step.find("pattern");
  if (found != step.end() && found->is_object()) {
    if (const auto text = text_of(*found, "String")) return Pattern::of_text(*text);
    if (const auto expression = text_of(*found, "Regex")) return Pattern::of_expression(*expression);
  }
  refuse(step, "has no pattern");
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::vector<utf8proc_int32_t> decomposed(std::string_view text, utf8proc_option_t flags) {
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  std::array<utf8proc_int32_t, 32> part{};  // The longest decomposition has 18.
  int state = UTF8PROC_BOUNDCLASS_START;
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    text.remove_prefix(c.size);
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code), part.data(),
                                static_cast<utf8proc_ssize_t>(part.size()), flags, &state);
    codes.insert(codes.end(), part.begin(), part.begin() + n);
  }
  return codes;
}

/// The canonical order of combining marks. utf8proc_map() takes quadratic time for a run of them.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  const auto rank = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto at = codes.begin(); at != codes.end();) {
    const auto end = std::find_if(at, codes.end(), [&](auto c) { return rank(c) == 0; });
    std::stable_sort(at, end, [&](auto a, auto b) { return rank(a) < rank(b); });
    at = end == codes.end() ? end : end + 1;
  }
}

/// One of Unicode's normal forms.
Change normal_form(int options) {
  return [options](std::string_view text) -> std::string {
    if (is_ascii(text)) return std::string(text);
    const auto flags = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options);
    std::vector<utf8proc_int32_t> codes = decomposed(text, flags);
    order_marks(codes);
    const utf8proc_ssize_t n =
        utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), flags);
    std::string result;
    for (utf8proc_ssize_t i = 0; i < n; ++i) append_utf8(result, static_cast<char32_t>(codes[to_size(i)]));
    return result;
  };
}

/// `change` appends the replacement of each character.
template <typename F>
Change by_character(F change) {
  return [change](std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
      const Utf8Char c = first_char(text);
      change(c.code, text.substr(0, c.size), result);
      text.remove_prefix(c.size);
    }
    return result;
  };
}

Change without(bool (*dropped)(char32_t)) {
  return by_character([dropped](char32_t c, std::string_view bytes, std::string& to) {
    if (!dropped(c)) to += bytes;
  });
}

Change replace(Pattern pattern, std::string content) {
  return [pattern = std::move(pattern), content = std::move(content)](std::string_view text) {
    std::string result;
    std::size_t done = 0;
    for (const Place& place : pattern.find(text)) {
      result.append(text, done, place.begin - done).append(content);
      done = place.end;
      check_size(result.size());
    }
    return result.append(text.substr(done));
  };
}

/// Bytes of white space at the front.
std::size_t white_front(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && is_white_space(first_char(text.substr(at)).code)) at += char_size(text[at]);
  return at;
}

std::string_view without_white_end(std::string_view text) {
  while (!text.empty()) {
    std::size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (!is_white_space(first_char(text.substr(at)).code)) break;
    text = text.substr(0, at);
  }
  return text;
}

Change strip(bool left, bool right) {
  return [left, right](std::string_view text) {
    if (left) text.remove_prefix(white_front(text));
    return std::string(right ? without_white_end(text) : text);
  };
}

Change prepend(std::string front) {
  return [front = std::move(front)](std::string_view text) {
    return text.empty() ? std::string() : front + std::string(text);
  };
}

/// SentencePiece's table of replacements.
Change charsmap(std::string_view bytes) {
  return [map = std::make_shared<const Charsmap>(bytes)](std::string_view text) {
    std::string result;
    while (!text.empty()) {
      const Charsmap::Step step = map->front(text);
      result += step.text;
      check_size(result.size());
      text.remove_prefix(step.size);
    }
    return result;
  };
}

/// SentencePiece's rules nmt, without NFKC.
Change nmt() {
  return by_character([](char32_t c, std::string_view bytes, std::string& to) {
    const bool dropped =
        (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    const bool space = c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == 0xFFFD;
    if (space)
      to += ' ';
    else if (!dropped)
      to += bytes;
  });
}

void add_bert(const Json& step, std::vector<Change>& changes) {
  const bool lowercase = flag_of(step, "lowercase").value_or(true);
  if (flag_of(step, "clean_text").value_or(true))
    changes.push_back(by_character([](char32_t c, std::string_view bytes, std::string& to) {
      if (is_white_space(c) && c != '\v' && c != '\f' && c != 0x85)
        to += ' ';
      else if (c != 0 && c != 0xFFFD && !is_invisible(c))
        to += bytes;
    }));
  if (flag_of(step, "handle_chinese_chars").value_or(true))
    changes.push_back(by_character([](char32_t c, std::string_view bytes, std::string& to) {
      is_cjk(c) ? to.append(" ").append(bytes).append(" ") : to += bytes;
    }));
  if (flag_of(step, "strip_accents").value_or(lowercase)) {
    changes.push_back(normal_form(UTF8PROC_DECOMPOSE));
    changes.push_back(without(is_nonspacing_mark));
  }
  if (lowercase) changes.emplace_back(lowered);
}

void add_change(const Json& step, std::string_view map, std::vector<Change>& changes) {
  const std::string type = text_of(step, "type").value_or("");
  const auto add = [&](Change change) { changes.push_back(std::move(change)); };
  if (type == "NFC") return add(normal_form(UTF8PROC_COMPOSE));
  if (type == "NFD") return add(normal_form(UTF8PROC_DECOMPOSE));
  if (type == "NFKC") return add(normal_form(UTF8PROC_COMPOSE | UTF8PROC_COMPAT));
  if (type == "NFKD") return add(normal_form(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT));
  if (type == "Lowercase") return add(lowered);
  if (type == "StripAccents") return add(without(is_mark));
  if (type == "Nmt") return add(nmt());
  if (type == "Precompiled") return add(charsmap(map));
  if (type == "Replace") return add(replace(pattern_of(step), text_of(step, "content").value_or("")));
  if (type == "Prepend") return add(prepend(text_of(step, "prepend").value_or("")));
  if (type == "Strip")
    return add(
        strip(flag_of(step, "strip_left").value_or(true), flag_of(step, "strip_right").value_or(true)));
  if (type == "BertNormalizer") return add_bert(step, changes);
  refuse_unknown(step, "normalizer");
}

/// How tokenizers join matches with the stretches between them.
enum class Behaviour { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behaviour behaviour_of(const Json& step, Behaviour otherwise) {
  const auto name = text_of(step, "behavior");
  if (!name) return otherwise;
  constexpr std::pair<std::string_view, Behaviour> kNames[] = {
      {"Removed", Behaviour::kRemoved},
      {"Isolated", Behaviour::kIsolated},
      {"MergedWithPrevious", Behaviour::kMergedWithPrevious},
      {"MergedWithNext", Behaviour::kMergedWithNext},
      {"Contiguous", Behaviour::kContiguous}};
  for (const auto& [known, behaviour] : kNames)
    if (known == *name) return behaviour;
  refuse(step, "has an unknown behavior");
}

struct Stretch {
  std::size_t begin = 0, end = 0;
  bool found = false;
};

/// The whole string, as matches and stretches between them.
std::vector<Stretch> stretches(const Pattern& pattern, std::string_view text, bool invert) {
  std::vector<Stretch> all;
  std::size_t done = 0;
  for (const Place& place : pattern.find(text)) {
    if (place.begin > done) all.push_back({done, place.begin, invert});
    all.push_back({place.begin, place.end, !invert});
    done = place.end;
  }
  if (done < text.size()) all.push_back({done, text.size(), invert});
  return all;
}

/// Joins stretches as the behaviour says: a match joins a neighbour that is not a match.
std::vector<Stretch> joined(std::vector<Stretch> all, Behaviour behaviour) {
  if (behaviour == Behaviour::kRemoved) std::erase_if(all, [](const Stretch& s) { return s.found; });
  if (behaviour == Behaviour::kRemoved || behaviour == Behaviour::kIsolated) return all;
  const bool next = behaviour == Behaviour::kMergedWithNext;
  if (next) std::reverse(all.begin(), all.end());
  std::vector<Stretch> result;
  bool found_before = false;
  for (const Stretch& s : all) {
    const bool joins =
        behaviour == Behaviour::kContiguous ? s.found == found_before : s.found && !found_before;
    found_before = s.found;
    if (!joins || result.empty()) {
      result.push_back(s);
      continue;
    }
    result.back().begin = std::min(result.back().begin, s.begin);
    result.back().end = std::max(result.back().end, s.end);
  }
  if (next) std::reverse(result.begin(), result.end());
  return result;
}

Cut split(Pattern pattern, Behaviour behaviour, bool invert = false) {
  return [pattern = std::move(pattern), behaviour, invert](const Piece& piece) {
    std::vector<Piece> pieces;
    for (const Stretch& s : joined(stretches(pattern, piece.text, invert), behaviour))
      pieces.push_back({piece.text.substr(s.begin, s.end - s.begin), piece.begins_text && s.begin == 0});
    return pieces;
  };
}

/// Spaces become `mark`; a word gets one in front where `scheme` says so.
Cut metaspace(const Json& step) {
  const std::string mark = text_of(step, "replacement").value_or(std::string(kSpaceMark));
  const auto older = flag_of(step, "add_prefix_space");
  const std::string scheme =
      text_of(step, "prepend_scheme").value_or(older.value_or(true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    refuse(step, "has an unknown prepend_scheme");
  if (mark.empty()) refuse(step, "has an empty replacement");
  const Change marks = replace(Pattern::of_text(" "), mark);
  const Cut words = flag_of(step, "split").value_or(true)
                        ? split(Pattern::of_text(mark), Behaviour::kMergedWithNext)
                        : Cut([](const Piece& piece) { return std::vector{piece}; });
  return [=](const Piece& piece) {
    Piece marked{marks(piece.text), piece.begins_text};
    const bool wanted = scheme == "always" || (scheme == "first" && piece.begins_text);
    if (wanted && !marked.text.starts_with(mark)) marked.text.insert(0, mark);
    return words(marked);
  };
}

/// ByteLevel's space in front. The pre-tokenizer (tokenizer.ggml.pre) cuts the string.
Cut prefix_space() {
  return [](const Piece& piece) {
    return std::vector{Piece{piece.text.starts_with(' ') ? piece.text : " " + piece.text, piece.begins_text}};
  };
}

void add_cut(const Json& step, std::vector<Cut>& cuts) {
  const std::string type = text_of(step, "type").value_or("");
  const auto add = [&](Cut cut) { cuts.push_back(std::move(cut)); };
  const auto of_class = [](bool (*wanted)(char32_t)) { return Pattern::of_characters(wanted); };
  if (type == "Metaspace") return add(metaspace(step));
  if (type == "WhitespaceSplit") return add(split(of_class(is_white_space), Behaviour::kRemoved));
  if (type == "Whitespace") {
    add(split(of_class(is_white_space), Behaviour::kRemoved));
    return add(split(of_class(is_word), Behaviour::kContiguous));
  }
  if (type == "Punctuation")
    return add(split(of_class(is_punctuation), behaviour_of(step, Behaviour::kIsolated)));
  if (type == "Digits")
    return add(split(of_class(is_number), flag_of(step, "individual_digits").value_or(false)
                                              ? Behaviour::kIsolated
                                              : Behaviour::kContiguous));
  if (type == "Split")
    return add(split(pattern_of(step), behaviour_of(step, Behaviour::kIsolated),
                     flag_of(step, "invert").value_or(false)));
  if (type == "BertPreTokenizer") {
    add(split(of_class(is_white_space), Behaviour::kRemoved));
    return add(split(of_class(is_punctuation), Behaviour::kIsolated));
  }
  if (type == "ByteLevel" && flag_of(step, "add_prefix_space").value_or(true)) return add(prefix_space());
  if (type != "ByteLevel") refuse_unknown(step, "pre-tokenizer");
}

}  // namespace

Normalizer::Normalizer(std::string_view steps, std::string_view charsmap) {
  for (const Json& step : parse(steps, "normalizers")) add_change(step, charsmap, steps_);
}

std::string Normalizer::apply(std::string_view text) const {
  std::string result(text);
  for (const Change& step : steps_) {
    result = step(result);
    check_size(result.size());
  }
  return result;
}

PieceCutter::PieceCutter(std::string_view steps) {
  for (const Json& step : parse(steps, "pre_tokenizers")) add_cut(step, steps_);
}

std::vector<PieceCutter::Piece> PieceCutter::cut(Piece whole) const {
  std::vector<Piece> pieces = {std::move(whole)};
  for (const Cut& step : steps_) {
    std::vector<Piece> next;
    std::size_t n_bytes = 0;
    for (const Piece& piece : pieces)
      for (Piece& part : step(piece)) {
        check_size(n_bytes += part.text.size());
        next.push_back(std::move(part));
      }
    pieces = std::move(next);
  }
  std::erase_if(pieces, [](const Piece& piece) { return piece.text.empty(); });
  return pieces;
}

}  // namespace weft::text
