#include "engine/prompt_parts.h"

#include <algorithm>
#include <string>

#include "engine/refuse.h"

namespace weft::engine {
namespace {

int end_of(const EmbeddedPart& part) { return part.first + part.n; }

void check_part(const EmbeddedPart& part, int after, std::span<const Token> prompt, const Context& context) {
  const std::string name = "the part at place " + std::to_string(part.first) + " of the prompt ";
  if (part.n < 1 || part.first < after || part.n > static_cast<int>(prompt.size()) - part.first)
    refuse(name + "has " + std::to_string(part.n) +
           " rows, which do not lie within the prompt and behind the part before");
  if (part.rows == nullptr) refuse(name + "has no rows");
  if (part.id < 0 || part.id > EmbeddedPart::kMaxId)
    refuse(name + "has the id " + std::to_string(part.id) + ", expected 0 to " +
           std::to_string(EmbeddedPart::kMaxId));
  if (part.both_ways && part.n > context.params().n_ubatch)
    refuse(name + "has " + std::to_string(part.n) + " rows that see each other, and a step has room for " +
           std::to_string(context.params().n_ubatch) + "; use a larger ubatch");
  const auto places = prompt.subspan(static_cast<std::size_t>(part.first), static_cast<std::size_t>(part.n));
  if (std::any_of(places.begin(), places.end(), [&](Token token) { return token != part.token(); }))
    refuse(name + "does not have its token in all its places (EmbeddedPart::token)");
}

}  // namespace

void check_prompt(std::span<const Token> prompt, std::span<const EmbeddedPart> parts,
                  const Context& context) {
  const int n_vocab = context.model().info().n_vocab;
  int at = 0;
  const auto check_tokens = [&](int end) {
    for (; at < end; ++at)
      if (const Token token = prompt[static_cast<std::size_t>(at)]; token < 0 || token >= n_vocab)
        refuse("token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(n_vocab));
  };
  for (const EmbeddedPart& part : parts) {
    check_part(part, at, prompt, context);
    check_tokens(part.first);
    at = end_of(part);
  }
  check_tokens(static_cast<int>(prompt.size()));
}

const EmbeddedPart* part_at(std::span<const EmbeddedPart> parts, int place) {
  const auto part = std::partition_point(parts.begin(), parts.end(),
                                         [&](const EmbeddedPart& one) { return end_of(one) <= place; });
  return part != parts.end() && part->first <= place ? &*part : nullptr;
}

void PlacedPrompt::add(int place, Batch& batch, bool logits) const {
  const EmbeddedPart* const part = part_at(parts, place);
  if (part == nullptr) return batch.add(tokens[static_cast<std::size_t>(place)], seq, logits);
  const auto row = static_cast<std::size_t>(place - part->first), width = static_cast<std::size_t>(n_embd);
  batch.add(std::span(part->rows.get() + row * width, width), seq, logits);
  if (part->both_ways) batch.see_to(batch.size() - 1, start + end_of(*part));
}

int whole_parts(std::span<const EmbeddedPart> parts, int begin, int n, int n_before, int n_ubatch) {
  auto part = std::partition_point(parts.begin(), parts.end(),
                                   [&](const EmbeddedPart& one) { return end_of(one) <= begin; });
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
