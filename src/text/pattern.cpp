#include "text/pattern.h"

#include <new>
#include <utility>

#include "base/pcre2_handles.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"
#include "weft/error.h"

namespace weft::text {
namespace {

/// Limits the work of an expression on one input string. Expressions come from untrusted files and may
/// backtrack exponentially. PCRE2's own limits start again at each byte of the input, so they do not suffice.
class Budget {
 public:
  explicit Budget(std::size_t n_bytes) : left_(kBase + kPerByte * n_bytes) {}

  /// PCRE2 calls this before each part of the expression that it tries. The work since the last call is that
  /// part and the bytes that were passed. Returns a negative number if the budget is used up.
  static int spend(pcre2_callout_block* block, void* self) {
    Budget& budget = *static_cast<Budget*>(self);
    const std::size_t at = block->current_position;
    const std::size_t work = 1 + (at > budget.at_ ? at - budget.at_ : budget.at_ - at);
    budget.at_ = at;
    if (work > budget.left_) return PCRE2_ERROR_MATCHLIMIT;
    budget.left_ -= work;
    return 0;
  }

 private:
  static constexpr std::size_t kBase = 1'000'000, kPerByte = 256;
  std::size_t left_;
  std::size_t at_ = 0;
};

/// The expression with \w as tokenizers define it: PCRE2's \w excludes marks and includes fractions.
std::string with_words(std::string_view expression) {
  constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc})";
  std::string result;
  bool in_class = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    const char next = c == '\\' && i + 1 < expression.size() ? expression[i + 1] : '\0';
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    if (next == 'W' && in_class)
      throw Error(ErrorCode::kUnsupported, "the tokenizer's expression '" +
                                               std::string(expression.substr(0, 80)) +
                                               "' has \\W in a character class, which weft does not support");
    if (next == 'w' || next == 'W')
      result.append(in_class ? "" : next == 'w' ? "[" : "[^").append(kWord).append(in_class ? "" : "]");
    else
      result.append(1, c).append(next == '\0' ? 0 : 1, next);
    if (next != '\0') ++i;
  }
  return result;
}

std::vector<Place> find_expression(const pcre2_code& code, std::string_view text) {
  const base::Pcre2MatchData data(pcre2_match_data_create(1, nullptr));
  const base::Pcre2MatchContext context(pcre2_match_context_create(nullptr));
  if (data == nullptr || context == nullptr) throw std::bad_alloc();
  Budget budget(text.size());
  pcre2_set_callout(context.get(), Budget::spend, &budget);
  const PCRE2_SIZE* const found = pcre2_get_ovector_pointer(data.get());
  std::vector<Place> places;
  for (std::size_t at = 0; at <= text.size();) {
    const int rc = pcre2_match(&code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                               PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data.get(), context.get());
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0)
      throw Error(
          ErrorCode::kUnsupported,
          "an expression of weft.tokenizer.* takes too many steps (PCRE2 error " + std::to_string(rc) + ")");
    if (found[0] < at || found[1] <= found[0]) break;  // \K can move a match's begin.
    places.push_back({found[0], found[1]});
    at = found[1];
  }
  return places;
}

}  // namespace

Pattern Pattern::of_text(std::string wanted) {
  return Pattern([wanted = std::move(wanted)](std::string_view text) {
    std::vector<Place> places;
    if (wanted.empty()) return places;
    for (std::size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, at + wanted.size()))
      places.push_back({at, at + wanted.size()});
    return places;
  });
}

Pattern Pattern::of_expression(std::string_view expression) {
  const std::string pattern = as_pcre2(with_words(expression));
  int error = 0;
  PCRE2_SIZE at = 0;
  const std::shared_ptr<pcre2_code> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT, &error, &at,
                    nullptr),
      base::Pcre2Deleter());
  if (code == nullptr)
    throw Error(ErrorCode::kUnsupported, "the tokenizer's expression '" +
                                             std::string(expression.substr(0, 80)) + "' is not supported");
  return Pattern([code](std::string_view text) { return find_expression(*code, text); });
}

Pattern Pattern::of_characters(bool (*wanted)(char32_t)) {
  return Pattern([wanted](std::string_view text) {
    std::vector<Place> places;
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Char c = first_char(text.substr(at));
      if (wanted(c.code)) places.push_back({at, at + c.size});
      at += c.size;
    }
    return places;
  });
}

}  // namespace weft::text
