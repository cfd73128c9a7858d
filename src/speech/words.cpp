#include "speech/words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/to_size.h"

namespace weft::speech {
namespace {

constexpr std::string_view kBefore[] = {"\"", "'", "“", "¿", "(", "[", "{", "-"};
constexpr std::string_view kAfter[] = {"\"", "'", ".",  "。", ",", "，", "!", "！", "?",
                                       "？", ":", "：", "”",  ")", "]",  "}", "、"};
constexpr std::string_view kSentenceEnds[] = {".", "。", "!", "！", "?", "？"};

template <std::size_t N>
bool is_one(std::string_view text, const std::string_view (&list)[N]) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\n");
  return begin == text.npos ? std::string_view()
                            : text.substr(begin, text.find_last_not_of(" \t\n") + 1 - begin);
}

/// Whether the bytes end within a character of UTF-8.
bool ends_within_character(std::string_view bytes) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(bytes.size(), 4); ++n) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - n]);
    if ((byte & 0xc0) == 0x80) continue;
    return byte >= 0xf0 ? n < 4 : byte >= 0xe0 ? n < 3 : byte >= 0xc0 ? n < 2 : false;
  }
  return false;
}

bool is_punctuation(std::string_view text) {
  return is_one(text, kBefore) || is_one(text, kAfter) ||
         (text.size() == 1 && std::ispunct(static_cast<unsigned char>(text.front())) != 0);
}

/// Each value becomes the median of itself and its neighbours. Rows are mirrored at their ends.
void filter_median(std::span<float> row) {
  constexpr int kWidth = 7, kHalf = kWidth / 2;
  const int n = static_cast<int>(row.size());
  if (n <= kHalf) return;
  const std::vector<float> old(row.begin(), row.end());
  for (int i = 0; i < n; ++i) {
    std::array<float, kWidth> near{};
    for (int k = -kHalf; k <= kHalf; ++k) {
      int at = std::abs(i + k);
      if (at >= n) at = 2 * (n - 1) - at;
      near[to_size(k + kHalf)] = old[to_size(at)];
    }
    std::nth_element(near.begin(), near.begin() + kHalf, near.end());
    row[to_size(i)] = near[kHalf];
  }
}

void softmax(std::span<float> row) {
  const float most = *std::max_element(row.begin(), row.end());
  float sum = 0.0f;
  for (float& x : row) sum += x = std::exp(x - most);
  for (float& x : row) x /= sum;
}

/// Words longer than twice the median are cut at the ends of sentences, where pauses are.
void cut_long_words(std::vector<AlignedWord>& words) {
  std::vector<double> lengths;
  for (const AlignedWord& word : words)
    if (word.end > word.start) lengths.push_back(word.end - word.start);
  if (lengths.empty()) return;
  const auto middle = lengths.begin() + std::ssize(lengths) / 2;
  std::nth_element(lengths.begin(), middle, lengths.end());
  constexpr double kLongestMedian = 0.7;
  const double most = 2.0 * std::min(*middle, kLongestMedian);
  for (std::size_t i = 1; i < words.size(); ++i) {
    AlignedWord& word = words[i];
    if (word.end - word.start <= most) continue;
    if (is_one(trimmed(word.text), kSentenceEnds))
      word.end = word.start + most;
    else if (is_one(trimmed(words[i - 1].text), kSentenceEnds))
      word.start = word.end - most;
  }
}

/// Joins `from` to the front or the back of `to`.
void join(AlignedWord& to, AlignedWord& from, bool front) {
  to.text = front ? from.text + to.text : to.text + from.text;
  to.tokens.insert(front ? to.tokens.begin() : to.tokens.end(), from.tokens.begin(), from.tokens.end());
  from = {};
}

void merge_punctuation(std::vector<AlignedWord>& words) {
  for (std::size_t i = words.size(), next = i; i-- > 0;) {
    if (next < words.size() && words[next].segment == words[i].segment && words[i].text.starts_with(' ') &&
        is_one(trimmed(words[i].text), kBefore))
      join(words[next], words[i], true);
    else
      next = i;
  }
  std::erase_if(words, [](const AlignedWord& word) { return word.tokens.empty(); });
  std::size_t last = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[last].segment == words[i].segment && !words[last].text.ends_with(' ') &&
        is_one(words[i].text, kAfter))
      join(words[last], words[i], false);
    else
      last = i;
  }
  std::erase_if(words, [](const AlignedWord& word) { return word.tokens.empty(); });
}

}  // namespace

void split_words(const Vocabulary& vocabulary, std::span<const Token> tokens, std::string_view language,
                 std::size_t segment, std::vector<AlignedWord>& words) {
  constexpr std::string_view kWithoutSpaces[] = {"zh", "ja", "th", "lo", "my", "yue"};
  const bool spaces = !is_one(language, kWithoutSpaces);
  const std::size_t first = words.size();
  AlignedWord next;
  std::string bytes;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    next.tokens.push_back(tokens[i]);
    bytes += vocabulary.bytes(tokens[i]);
    if (ends_within_character(bytes) && i + 1 < tokens.size()) continue;
    next.text = vocabulary.text(next.tokens);
    next.segment = segment;
    if (!spaces || words.size() == first || next.text.starts_with(' ') || is_punctuation(trimmed(next.text)))
      words.push_back(std::move(next));
    else
      join(words.back(), next, false);
    next = {};
    bytes.clear();
  }
}

std::vector<int> warp(std::span<const float> cost, int n, int m) {
  enum : char { kBoth, kRow, kColumn };
  const auto width = to_size(m) + 1;
  std::vector<float> before(width, std::numeric_limits<float>::infinity()), now(width);
  before[0] = 0.0f;
  std::vector<char> from((to_size(n) + 1) * width, kColumn);
  for (std::size_t i = 1; i <= to_size(n); ++i) {
    now[0] = std::numeric_limits<float>::infinity();
    from[i * width] = kRow;
    for (std::size_t j = 1; j < width; ++j) {
      const float both = before[j - 1], row = before[j], column = now[j - 1];
      float least = column;
      char way = kColumn;
      if (both < row && both < column) {
        least = both;
        way = kBoth;
      } else if (row < both && row < column) {
        least = row;
        way = kRow;
      }
      now[j] = cost[(i - 1) * to_size(m) + j - 1] + least;
      from[i * width + j] = way;
    }
    std::swap(before, now);
  }
  std::vector<int> enters(to_size(n), 0);
  for (std::size_t i = to_size(n), j = width - 1; i > 0 && j > 0;) {
    enters[i - 1] = static_cast<int>(j) - 1;
    const char way = from[i * width + j];
    if (way != kColumn) --i;
    if (way != kRow) --j;
  }
  return enters;
}

void align_words(Decoder& decoder, const Vocabulary& vocabulary, std::span<const Token> start, int n_rows,
                 int n_heard, std::vector<AlignedWord>& words) {
  if (words.empty() || n_rows < 1) return;
  std::vector<Token> sequence(start.begin(), start.end());
  sequence.push_back(vocabulary.no_timestamps);
  for (const AlignedWord& word : words)
    sequence.insert(sequence.end(), word.tokens.begin(), word.tokens.end());
  sequence.push_back(vocabulary.end);
  const std::size_t n_tokens = sequence.size();
  const auto m = to_size(n_rows);
  // Row i predicts token i, and the last row predicts the end.
  const std::size_t n = n_tokens - start.size() - 1;
  std::vector<float> cost(n * m, 0.0f), head(n_tokens * m);
  decoder.scores(sequence, [&](std::span<float> scores) {
    for (std::size_t t = 0; t < n_tokens; ++t) {
      const auto row = std::span(head).subspan(t * m, m);
      std::copy_n(scores.begin() + static_cast<std::ptrdiff_t>(t * to_size(n_heard)), m, row.begin());
      softmax(row);
    }
    for (std::size_t j = 0; j < m; ++j) {
      double sum = 0.0, squares = 0.0;
      for (std::size_t t = 0; t < n_tokens; ++t) sum += static_cast<double>(head[t * m + j]);
      const double mean = sum / static_cast<double>(n_tokens);
      for (std::size_t t = 0; t < n_tokens; ++t)
        squares += std::pow(static_cast<double>(head[t * m + j]) - mean, 2);
      const double deviation = std::sqrt(squares / static_cast<double>(n_tokens));
      for (std::size_t t = 0; t < n_tokens; ++t)
        head[t * m + j] = deviation > 0.0
                              ? static_cast<float>((static_cast<double>(head[t * m + j]) - mean) / deviation)
                              : 0.0f;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const auto row = std::span(head).subspan((start.size() + i) * m, m);
      filter_median(row);
      for (std::size_t j = 0; j < m; ++j) cost[i * m + j] -= row[j];
    }
  });
  const std::vector<int> enters = warp(cost, static_cast<int>(n), n_rows);
  std::size_t at = 0;
  for (AlignedWord& word : words) {
    word.start = enters[at] * kSecondsPerTimestamp;
    at += word.tokens.size();
    word.end = enters[at] * kSecondsPerTimestamp;
  }
  cut_long_words(words);
  merge_punctuation(words);
}

}  // namespace weft::speech
