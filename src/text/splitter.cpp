// The part of pre_tokenizer.h that knows PCRE2.
#include <limits>
#include <new>
#include <string>

#include "base/check.h"
#include "base/pcre2_handles.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"
#include "weft/error.h"

namespace weft::text {
namespace {

struct Compiled {
  base::Pcre2Code code;
  bool jit = false;
};

Compiled compiled(std::string_view text) {
  const std::string pattern = as_pcre2(text);
  int error = 0;
  PCRE2_SIZE at = 0;
  Compiled result;
  result.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                  PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr));
  WEFT_CHECK(result.code != nullptr);  // All patterns are our own.
  // Without JIT (a system that forbids making code) the interpreter gives the same matches, slower.
  result.jit = pcre2_jit_compile(result.code.get(), PCRE2_JIT_COMPLETE) == 0;
  return result;
}

}  // namespace

std::string as_pcre2(std::string_view pattern) {
  std::string result;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      result += pattern[i];
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's')
      result += "\\p{White_Space}";
    else if (escaped == 'S')
      result += "\\P{White_Space}";
    else
      (result += '\\') += escaped;
  }
  return result;
}

struct Splitter::Impl {
  std::vector<Compiled> patterns;
};

Splitter::Splitter(std::span<const std::string_view> patterns) {
  auto impl = std::make_unique<Impl>();
  for (const std::string_view pattern : patterns) impl->patterns.push_back(compiled(pattern));
  impl_ = std::move(impl);
}
Splitter::~Splitter() = default;

struct Splitter::Session::Impl {
  explicit Impl(const Splitter::Impl& s) : splitter(s) {
    data.reset(pcre2_match_data_create(1, nullptr));
    context.reset(pcre2_match_context_create(nullptr));
    if (data == nullptr || context == nullptr) throw std::bad_alloc();
    // Backtracking is linear in all patterns of the table; the limits are for worse ones.
    pcre2_set_match_limit(context.get(), std::numeric_limits<std::uint32_t>::max());
  }

  /// The next match in `text` at or after `from`; with `not_empty`, not an empty one at `from`. False if
  /// there is none.
  bool match(const Compiled& pattern, std::string_view text, std::size_t from, bool not_empty) {
    const auto run = pattern.jit ? pcre2_jit_match : pcre2_match;
    // The input was validated once; PCRE2 would validate it again for each match, which is quadratic.
    const int rc =
        run(pattern.code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
            PCRE2_NO_UTF_CHECK | (not_empty ? PCRE2_NOTEMPTY_ATSTART : 0u), data.get(), context.get());
    if (rc == PCRE2_ERROR_NOMATCH) return false;
    if (rc < 0)
      throw Error(ErrorCode::kOutOfMemory,
                  "splitting a string into words failed (PCRE2 error " + std::to_string(rc) + ")");
    return true;
  }

  /// Appends the ends of the pieces of text[begin, end). The pattern sees only that range.
  void cut(const Compiled& pattern, std::string_view text, std::size_t begin, std::size_t end) {
    const std::string_view piece = text.substr(begin, end - begin);
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data.get());
    std::size_t done = 0, from = 0;
    bool empty = false;
    while (from < piece.size() && match(pattern, piece, from, empty)) {
      empty = found[1] == found[0];  // Cuts there.
      if (found[0] > done) next.push_back(static_cast<std::uint32_t>(begin + found[0]));
      if (!empty) next.push_back(static_cast<std::uint32_t>(begin + found[1]));
      done = from = found[1];
    }
    if (done < piece.size()) next.push_back(static_cast<std::uint32_t>(end));
  }

  const Splitter::Impl& splitter;
  base::Pcre2MatchData data;
  base::Pcre2MatchContext context;
  std::vector<std::uint32_t> ends, next;
};

Splitter::Session::Session(const Splitter& splitter) : impl_(std::make_unique<Impl>(*splitter.impl_)) {}
Splitter::Session::~Session() = default;

std::span<const std::uint32_t> Splitter::Session::split(std::string_view text) {
  Impl& s = *impl_;
  s.ends.clear();
  if (text.empty()) return s.ends;
  s.ends.push_back(static_cast<std::uint32_t>(text.size()));
  for (const Compiled& pattern : s.splitter.patterns) {
    s.next.clear();
    std::size_t begin = 0;
    for (const std::uint32_t end : s.ends) {
      s.cut(pattern, text, begin, end);
      begin = end;
    }
    s.ends.swap(s.next);
  }
  return s.ends;
}

}  // namespace weft::text
