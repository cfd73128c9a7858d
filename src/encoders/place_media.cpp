#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "base/to_size.h"
#include "weft/error.h"
#include "weft/media.h"

namespace weft {
namespace {

std::string hexadecimal(std::uint64_t number) {
  std::string text;
  for (int i = 60; i >= 0; i -= 4) text += "0123456789abcdef"[number >> i & 15];
  return text;
}

/// Splits the prompt at the marks: an image or audio follows each run except the last.
std::vector<std::vector<PromptPiece>> cut_at_marks(std::span<const PromptPiece> prompt,
                                                   std::string_view mark) {
  std::vector<std::vector<PromptPiece>> runs(1);
  for (const PromptPiece& piece : prompt) {
    std::string_view rest = piece.text;
    for (std::size_t at = rest.find(mark); at != std::string_view::npos; at = rest.find(mark)) {
      runs.back().push_back({std::string(rest.substr(0, at)), piece.from_template});
      runs.emplace_back();
      rest.remove_prefix(at + mark.size());
    }
    runs.back().push_back({std::string(rest), piece.from_template});
  }
  return runs;
}

/// Collects pieces and tokenizes them when embedded rows follow or the prompt ends.
class Writer {
 public:
  Writer(const Tokenizer& tokenizer, PromptWithMedia& to) : tokenizer_(tokenizer), to_(to) {}

  void add(std::vector<PromptPiece> pieces) {
    text_.insert(text_.end(), std::make_move_iterator(pieces.begin()), std::make_move_iterator(pieces.end()));
  }
  void add(EmbeddedPart part) {
    flush();
    if (std::exchange(is_first_, false) && tokenizer_.adds_bos()) to_.tokens.push_back(tokenizer_.bos());
    part.first = static_cast<int>(to_.tokens.size());
    to_.tokens.insert(to_.tokens.end(), to_size(part.n), kMediaToken);
    to_.parts.push_back(std::move(part));
  }
  void flush() {
    std::vector<PromptPiece> text = std::exchange(text_, {});
    std::erase_if(text, [](const PromptPiece& piece) { return piece.text.empty(); });
    if (text.empty()) return;
    std::vector<Token> tokens = tokenizer_.encode(text);
    // Only the prompt begins with BOS, not each run.
    const bool is_first = std::exchange(is_first_, false);
    const bool extra =
        !is_first && tokenizer_.adds_bos() && !tokens.empty() && tokens.front() == tokenizer_.bos();
    to_.tokens.insert(to_.tokens.end(), tokens.begin() + (extra ? 1 : 0), tokens.end());
  }

 private:
  const Tokenizer& tokenizer_;
  PromptWithMedia& to_;
  std::vector<PromptPiece> text_;
  bool is_first_ = true;
};

}  // namespace

std::string make_media_marker() {
  std::random_device random;
  std::string text = "[media";
  for (int i = 0; i < 2; ++i) text += " " + hexadecimal(std::uint64_t{random()} << 32 | random());
  return text + "]";
}

PromptWithMedia place_media(const Tokenizer& tokenizer, std::span<const PromptPiece> prompt,
                            std::span<const std::shared_ptr<const EncodedMedia>> media,
                            std::string_view mark) {
  if (mark.empty()) throw Error(ErrorCode::kInvalidArgument, "the marker of images and audio is empty");
  std::vector<std::vector<PromptPiece>> runs = cut_at_marks(prompt, mark);
  if (runs.size() != media.size() + 1)
    throw Error(ErrorCode::kInvalidArgument,
                "the prompt has " + std::to_string(runs.size() - 1) +
                    " markers of images and audio, but there are " + std::to_string(media.size()) +
                    " images and audio clips; the chat template must render each message exactly once");
  PromptWithMedia result;
  Writer writer(tokenizer, result);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    writer.add(std::move(runs[i]));
    if (i == media.size()) break;
    const std::shared_ptr<const EncodedMedia>& one = media[i];
    std::int32_t id = one->id;
    const float* rows = one->rows.data();
    for (const EncodedMedia::Piece& piece : one->pieces) {
      if (piece.n_rows == 0) {
        writer.add({{piece.text, true}});
        continue;
      }
      writer.add(EmbeddedPart{.n = piece.n_rows,
                              .rows = std::shared_ptr<const float>(one, rows),
                              .n_embd = one->n_embd,
                              .id = id++,
                              .both_ways = one->both_ways,
                              .grid_width = piece.grid_width});
      rows += static_cast<std::ptrdiff_t>(piece.n_rows) * one->n_embd;
    }
  }
  writer.flush();
  return result;
}

}  // namespace weft
