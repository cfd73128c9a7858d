#include "engine/prompt_parts.h"

#include <algorithm>
#include <string>

#include "base/counted.h"
#include "base/to_size.h"
#include "engine/refuse.h"

namespace weft::engine {
namespace {

int end_of(const EmbeddedPart& part) { return part.first + part.n; }

/// The first part that does not end before this place.
auto part_behind(std::span<const EmbeddedPart> parts, int place) {
  return std::partition_point(parts.begin(), parts.end(),
                              [&](const EmbeddedPart& part) { return end_of(part) <= place; });
}

void check_part(const EmbeddedPart& part, int after, std::span<const Token> prompt, const Context& context) {
  const std::string name = "the part at place " + std::to_string(part.first) + " of the prompt ";
  if (part.n < 1 || part.first < after || part.n > static_cast<int>(prompt.size()) - part.first)
    refuse(name + "has " + base::counted(part.n, "row") +
           ", which are outside the prompt or overlap the previous part");
  if (part.rows == nullptr) refuse(name + "has no rows");
  if (const int n_embd = context.model().info().n_embd_input; part.n_embd != n_embd)
    refuse(name + "has rows of " + std::to_string(part.n_embd) + " numbers, but the model has " +
           std::to_string(n_embd) + "; they belong to another model");
  if (part.grid_width < 0 || (part.grid_width > 0 && part.n % part.grid_width != 0))
    refuse(name + "has " + std::to_string(part.n) + " rows, which do not form a grid of " +
           std::to_string(part.grid_width) + " columns");
  if (part.grid_width > 0 && !context.model().info().axes)
    refuse(name + "is a grid, but this model has no 2D positions");
  if (part.id < 0 || part.id > EmbeddedPart::kMaxId)
    refuse(name + "has the id " + std::to_string(part.id) + ", expected 0 to " +
           std::to_string(EmbeddedPart::kMaxId));
  if (part.both_ways && part.n > context.params().n_ubatch)
    refuse(name + "has " + std::to_string(part.n) +
           " rows that attend to each other, but a step has room for " +
           std::to_string(context.params().n_ubatch) + "; use a larger ubatch");
  const auto places = prompt.subspan(to_size(part.first), to_size(part.n));
  if (std::any_of(places.begin(), places.end(), [](Token token) { return token != kMediaToken; }))
    refuse(name + "does not have kMediaToken at all its positions");
}

}  // namespace

void check_prompt(std::span<const Token> prompt, std::span<const EmbeddedPart> parts,
                  const Context& context) {
  const int n_vocab = context.model().info().n_vocab;
  int at = 0;
  const auto check_tokens = [&](int end) {
    for (; at < end; ++at) {
      const Token token = prompt[to_size(at)];
      if (token == kMediaToken)
        refuse("the prompt has kMediaToken at " + std::to_string(at) +
               ", where no image or audio is; give it in `parts`");
      if (token < 0 || token >= n_vocab)
        refuse("token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(n_vocab));
    }
  };
  for (const EmbeddedPart& part : parts) {
    check_part(part, at, prompt, context);
    check_tokens(part.first);
    at = end_of(part);
  }
  check_tokens(static_cast<int>(prompt.size()));
}

void fold_ids(std::span<Token> prompt, std::span<const EmbeddedPart> parts) {
  for (const EmbeddedPart& part : parts)
    std::fill_n(prompt.begin() + part.first, part.n, kMediaToken - part.id);
}

const EmbeddedPart* part_at(std::span<const EmbeddedPart> parts, int place) {
  const auto part = part_behind(parts, place);
  return part != parts.end() && part->first <= place ? &*part : nullptr;
}

AxisPositions axes_of_token(Pos pos, Pos n_skipped) {
  if (n_skipped == 0) return ItemOptions{}.axes;
  const Pos at = pos - n_skipped;
  return {at, at, at};
}

bool any_skips(std::span<const EmbeddedPart> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [](const EmbeddedPart& part) { return part.extent() != part.n; });
}

PlacedPrompt::PlacedPrompt(std::span<const Token> tokens, std::span<const EmbeddedPart> parts, SeqId seq,
                           Pos start, Pos n_skipped)
    : tokens_(tokens), parts_(parts), seq_(seq), start_(start), skipped_{n_skipped} {
  for (const EmbeddedPart& part : parts) skipped_.push_back(skipped_.back() + part.n - part.extent());
}

void PlacedPrompt::add(int place, Batch& batch, ItemOptions options) const {
  const auto index = to_size(part_behind(parts_, place) - parts_.begin());
  const Pos skipped = skipped_[index];
  if (index == parts_.size() || place < parts_[index].first) {
    options.axes = axes_of_token(start_ + place, skipped);
    return batch.add(tokens_[to_size(place)], seq_, options);
  }
  const EmbeddedPart& part = parts_[index];
  const int row = place - part.first;
  const auto width = to_size(part.n_embd);
  if (part.both_ways) options.attend_to = start_ + end_of(part);
  const Pos begin = start_ + part.first - skipped;
  options.axes = part.grid_width > 0
                     ? AxisPositions{begin, begin + row / part.grid_width, begin + row % part.grid_width}
                     : axes_of_token(start_ + place, skipped);
  batch.add(std::span(part.rows.get() + to_size(row) * width, width), seq_, options);
}

int whole_parts(std::span<const EmbeddedPart> parts, int begin, int n, int n_before, int n_ubatch) {
  auto part = part_behind(parts, begin);
  for (; part != parts.end() && part->first < begin + n; ++part) {
    if (!part->both_ways) continue;
    const int before = std::max(part->first - begin, 0);  // Places of the batch that come before it.
    const int through = end_of(*part) - begin;
    const bool fits = n_before + through <= n_ubatch;
    if (fits && through <= n) continue;
    return fits && before == 0 ? through : before;
  }
  return n;
}

}  // namespace weft::engine
