// Grammars that are put together from others.
#include "weft/grammar.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/budget.h"
#include "grammar/language.h"

namespace weft {
namespace {

constexpr std::size_t kMaxTagBytes = 1024;

void check_tag(std::string_view text) {
  if (text.empty() || text.size() > kMaxTagBytes)
    grammar::refuse("a tag has " + std::to_string(text.size()) + " bytes; it must have 1 to " +
                    std::to_string(kMaxTagBytes));
}

/// A part that is written out several times: a rule of its own.
grammar::NodeId as_rule(grammar::NodeId part, grammar::Builder& builder) {
  const grammar::RuleId rule = builder.declare("repeated");
  builder.define(rule, part);
  return builder.rule(rule);
}

}  // namespace

Grammar::Grammar(std::shared_ptr<const Rules> rules) : rules_(std::move(rules)) {}

Grammar Grammar::literal(std::string_view text) {
  grammar::Builder builder;
  const grammar::NodeId root = builder.bytes(text);
  return Grammar(std::make_shared<const Rules>(Rules{builder.finish(root)}));
}

Grammar Grammar::tag(std::string_view text) {
  check_tag(text);
  grammar::Builder builder;
  const grammar::NodeId root = builder.tag(text);
  return Grammar(std::make_shared<const Rules>(Rules{builder.finish(root)}));
}

Grammar Grammar::sequence(std::vector<Grammar> parts) {
  grammar::Builder builder;
  std::vector<grammar::NodeId> nodes;
  for (const Grammar& part : parts) nodes.push_back(builder.append(part.rules_->language));
  const grammar::NodeId root = builder.sequence(nodes);
  return Grammar(std::make_shared<const Rules>(Rules{builder.finish(root)}));
}

Grammar Grammar::choice(std::vector<Grammar> parts) {
  grammar::Builder builder;
  std::vector<grammar::NodeId> nodes;
  for (const Grammar& part : parts) nodes.push_back(builder.append(part.rules_->language));
  const grammar::NodeId root = builder.choice(nodes);
  return Grammar(std::make_shared<const Rules>(Rules{builder.finish(root)}));
}

Grammar Grammar::repeat(Grammar part, int least, int most) {
  if (least < 0 || (most >= 0 && most < least))
    grammar::refuse("a repetition of " + std::to_string(least) + " to " + std::to_string(most) +
                    " times: the second number must not be below the first");
  grammar::Builder builder;
  grammar::NodeId node = builder.append(part.rules_->language);
  if (std::max(least, most) > 1) node = as_rule(node, builder);
  const grammar::NodeId root = builder.repeat(node, least, most);
  return Grammar(std::make_shared<const Rules>(Rules{builder.finish(root)}));
}

Grammar Grammar::list(Grammar part, Grammar separator, int most) {
  if (most == 0) grammar::refuse("a list of at most 0 parts: it must have one");
  if (most == 1) return part;
  grammar::Builder builder;
  const grammar::NodeId one = as_rule(builder.append(part.rules_->language), builder);
  const grammar::NodeId more = builder.sequence({builder.append(separator.rules_->language), one});
  const grammar::NodeId root =
      builder.sequence({one, builder.repeat(more, 0, most < 0 ? grammar::kUnlimited : most - 1)});
  return Grammar(std::make_shared<const Rules>(Rules{builder.finish(root)}));
}

Grammar Grammar::some_of(const std::vector<Grammar>& parts, const Grammar& separator) {
  grammar::Builder builder;
  std::vector<grammar::NodeId> nodes;
  for (const Grammar& part : parts) nodes.push_back(as_rule(builder.append(part.rules_->language), builder));
  const grammar::NodeId between = as_rule(builder.append(separator.rules_->language), builder);
  const grammar::NodeId root = builder.some_of(nodes, between, std::nullopt);
  return Grammar(std::make_shared<const Rules>(Rules{builder.finish(root)}));
}

Grammar Grammar::free_text(std::vector<std::pair<std::string, Grammar>> tags, int least, int most) {
  if (least < 0 || (most >= 0 && most < least))
    grammar::refuse("free text with " + std::to_string(least) + " to " + std::to_string(most) +
                    " tags: the second number must not be below the first");
  grammar::Builder builder;
  std::vector<grammar::NodeId> nodes;
  for (const auto& [tag, part] : tags) {
    check_tag(tag);
    nodes.push_back(builder.tag(tag));
    nodes.push_back(as_rule(builder.append(part.rules_->language), builder));
  }
  const grammar::NodeId root = builder.free_text(nodes, least, most);
  return Grammar(std::make_shared<const Rules>(Rules{builder.finish(root)}));
}

Grammar Grammar::until(std::string_view tag) {
  check_tag(tag);
  grammar::Builder builder;
  const grammar::NodeId root = builder.until(builder.tag(tag));
  return Grammar(std::make_shared<const Rules>(Rules{builder.finish(root)}));
}

}  // namespace weft
