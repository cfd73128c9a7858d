#pragma once
// Turns generated tokens into the completion: whole characters, up to a stop string.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/string_matcher.h"
#include "weft/tokenizer.h"

namespace weft::engine {

/// Holds bytes back while they may begin a stop string.
class StopFilter {
 public:
  /// `out` includes the first `n_shown` of the stop strings.
  explicit StopFilter(std::vector<std::string> stops, int n_shown = 0)
      : stops_(std::move(stops)), n_shown_(n_shown), matcher_(stops_) {}

  /// Matches more bytes, and appends those that can be output to `out`. Returns true when a stop string is
  /// complete: `out` then ends before it, or with it, and push() must not be called again. Bytes that are not
  /// `shown` are matched only.
  bool push(std::string_view text, std::string& out, bool shown = true);
  /// Whether a stop string that the next bytes complete counts (default: true). It may begin earlier.
  void set_stops(bool stops) { counts_ = stops; }
  /// Whether a stop string contains these bytes.
  bool has(std::string_view text) const;
  /// At the end: appends the bytes held back.
  void finish(std::string& out) { release(held_.size(), out); }
  /// The index of the matched stop string; -1: none.
  int found() const { return found_; }

 private:
  void release(std::size_t n, std::string& out);

  struct Byte {
    char value;
    bool shown;
  };
  std::vector<std::string> stops_;
  int n_shown_;
  StringMatcher matcher_;
  std::vector<Byte> held_;
  bool counts_ = true;
  int found_ = -1;
};

/// One per generation; the tokenizer must outlive it.
class TextWriter {
 public:
  /// With `special`, `out` includes control tokens. It never includes end tokens. The first `n_min` tokens
  /// complete no stop string.
  TextWriter(const Tokenizer& tokenizer, bool special, const std::vector<std::string>& stops,
             int n_shown_stops = 0, int n_min = 0)
      : tokenizer_(tokenizer),
        special_(special),
        n_to_min_(n_min),
        detokenizer_(tokenizer, special),
        filter_(stops, n_shown_stops) {}

  /// Appends to `out` the characters that can be output after this token. Returns true when a stop string is
  /// complete. Stop strings match control tokens, which `out` may exclude.
  bool push(Token token, std::string& out);
  /// Appends the characters held back. Returns true when a stop string is complete.
  bool finish(std::string& out);
  /// The bytes that the token adds to the completion.
  std::string bytes_of(Token token) const;
  int found() const { return filter_.found(); }  ///< The index of the stop string; -1: none.

 private:
  bool shows(Token token, std::string_view text) const;

  const Tokenizer& tokenizer_;
  bool special_;
  int n_to_min_;  // Tokens that complete no stop string are still to come.
  Detokenizer detokenizer_;
  StopFilter filter_;
};

}  // namespace weft::engine
