#include "quantize/mixes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "gguf/file_types.h"

namespace weft::quantize_impl {
namespace {

// The role of a matrix.
enum class Role : std::uint8_t { kOutput, kEmbedding, kV, kK, kQ, kQkv, kAttention, kDown, kGateUp, kOther };

// The layers that a rule is for.
enum class Where : std::uint8_t {
  kAll,
  kFirstTwo,
  kFirstFour,
  kFirstEighth,
  kFirstSixteenth,
  kInner,     // Neither in the first nor in the last eighth.
  kMoreBits,  // The first and last eighth, and every third layer between them.
  kGrouped,   // All, where at least four query heads share keys and values.
};
enum class When : std::uint8_t { kAlways, kUnknown, kKnown };  // Of columns' importances.

struct Rule {
  Role role;
  DType type;
  Where where = Where::kAll;
  When when = When::kAlways;
};

constexpr int kMaxRules = 8;
struct Mix {
  QuantizeMix mix;
  std::array<Rule, kMaxRules> rules = {};  // The first matching rule wins. Rules of type F32 are empty.
};

using enum DType;
constexpr Rule kOutputQ5 = {Role::kOutput, kQ5_K};
constexpr Rule kTableQ2 = {Role::kEmbedding, kQ2_K};

// The usual presets. Values and the products at the end of a block get more bits, most of all in the first
// and last layers. Queries and keys get the fewest.
constexpr Mix kMixes[] = {
    {{"F32", "32-bit floats", kF32}},
    {{"BF16", "16-bit floats with the range of 32-bit ones", kBF16}},
    {{"F16", "16-bit floats", kF16}},
    {{"Q8_0", "nearly the same as F16", kQ8_0}},
    {{"Q6_K", "nearly the same as Q8_0", kQ6_K}},
    {{"Q5_K_M", "small loss", kQ5_K},
     {{{Role::kV, kQ6_K, Where::kMoreBits}, {Role::kDown, kQ6_K, Where::kMoreBits}, {Role::kQkv, kQ6_K}}}},
    {{"Q5_1", "small loss; blocks of 32", kQ5_1}},
    {{"Q5_K_S", "small loss", kQ5_K}},
    {{"Q5_0", "blocks of 32", kQ5_0}, {{{Role::kDown, kQ5_1, Where::kFirstEighth, When::kKnown}}}},
    {{"Q4_K_M", "the usual choice", kQ4_K},
     {{{Role::kV, kQ6_K, Where::kMoreBits}, {Role::kDown, kQ6_K, Where::kMoreBits}, {Role::kQkv, kQ5_K}}}},
    {{"Q4_1", "blocks of 32", kQ4_1}},
    {{"Q4_K_S", "a little smaller than Q4_K_M", kQ4_K},
     {{{Role::kV, kQ5_K, Where::kFirstFour}, {Role::kDown, kQ5_K, Where::kFirstEighth}}}},
    {{"Q4_0", "fast; blocks of 32", kQ4_0}, {{{Role::kDown, kQ4_1, Where::kFirstEighth, When::kKnown}}}},
    {{"IQ4_NL", "blocks of 32, values denser around 0", kIQ4_NL},
     {{{Role::kV, kQ5_K, Where::kGrouped}, {Role::kDown, kQ5_K, Where::kFirstEighth, When::kUnknown}}}},
    {{"NVFP4", "4-bit floats with a scale for each 16", kNVFP4}},
    {{"IQ4_XS", "as IQ4_NL, with smaller scales", kIQ4_XS},
     {{{Role::kV, kQ5_K, Where::kGrouped}, {Role::kDown, kQ5_K, Where::kFirstEighth, When::kUnknown}}}},
    {{"MXFP4", "4-bit floats with a power of two for each 32", kMXFP4}},
    {{"Q3_K_L", "large loss", kQ3_K},
     {{{Role::kV, kQ5_K}, {Role::kDown, kQ5_K}, {Role::kAttention, kQ5_K}, {Role::kQkv, kQ4_K}}}},
    {{"Q3_K_M", "large loss", kQ3_K},
     {{{Role::kV, kQ5_K, Where::kFirstTwo},
       {Role::kV, kQ4_K},
       {Role::kDown, kQ5_K, Where::kFirstSixteenth},
       {Role::kDown, kQ4_K},
       {Role::kAttention, kQ4_K},
       {Role::kQkv, kQ4_K}}}},
    {{"IQ3_M", "better than Q3_K_S", kIQ3_S},
     {{{Role::kV, kQ4_K},
       {Role::kDown, kQ4_K, Where::kFirstEighth},
       {Role::kAttention, kQ4_K},
       {Role::kQkv, kQ4_K}}}},
    {{"IQ3_S", "better than Q3_K_S", kIQ3_S}, {{{Role::kV, kQ4_K, Where::kGrouped}}}},
    {{"Q3_K_S", "large loss", kQ3_K}},
    {{"IQ3_XS", "between IQ3_XXS and IQ3_S", kIQ3_S},
     {{{Role::kV, kQ4_K, Where::kGrouped},
       {Role::kK, kIQ3_XXS},
       {Role::kQ, kIQ3_XXS},
       {Role::kGateUp, kIQ3_XXS, Where::kInner}}}},
    {{"IQ3_XXS", "three bits", kIQ3_XXS},
     {{{Role::kV, kQ4_K, Where::kGrouped},
       {Role::kV, kIQ3_S, Where::kAll, When::kUnknown},
       {Role::kK, kIQ2_S},
       {Role::kQ, kIQ2_S},
       {Role::kDown, kQ4_K, Where::kFirstEighth, When::kUnknown},
       {Role::kDown, kQ3_K, Where::kAll, When::kUnknown},
       {Role::kAttention, kIQ3_S},
       {Role::kEmbedding, kIQ3_S}}}},
    {{"Q2_K", "very large loss", kQ2_K},
     {{{Role::kV, kQ4_K, Where::kGrouped},
       {Role::kV, kQ3_K},
       {Role::kDown, kQ3_K},
       {Role::kAttention, kQ3_K}}}},
    {{"Q2_K_S", "very large loss", kQ2_K, true},
     {{{Role::kV, kQ4_K, Where::kGrouped}, {Role::kDown, kQ4_K, Where::kFirstEighth}}}},
    {{"IQ2_M", "very large loss", kIQ2_S, true},
     {{kOutputQ5,
       {Role::kV, kQ4_K, Where::kGrouped},
       {Role::kV, kIQ3_S},
       {Role::kDown, kIQ3_S, Where::kFirstEighth},
       {Role::kAttention, kIQ3_S},
       {Role::kEmbedding, kIQ3_S}}}},
    {{"IQ2_S", "very large loss", kIQ2_XS, true},
     {{kOutputQ5,
       {Role::kV, kQ4_K, Where::kGrouped},
       {Role::kV, kIQ3_S},
       {Role::kDown, kIQ3_S, Where::kFirstEighth},
       {Role::kAttention, kIQ3_S},
       {Role::kEmbedding, kIQ3_S}}}},
    {{"IQ2_XS", "very large loss", kIQ2_XS, true},
     {{kOutputQ5,
       {Role::kV, kQ4_K, Where::kGrouped},
       {Role::kV, kQ2_K},
       {Role::kDown, kQ2_K, Where::kFirstEighth},
       kTableQ2}}},
    {{"TQ2_0", "for models of three values", kTQ2_0}, {{{Role::kEmbedding, kQ4_K}}}},
    {{"IQ2_XXS", "very large loss", kIQ2_XXS, true},
     {{kOutputQ5,
       {Role::kV, kQ4_K, Where::kGrouped},
       {Role::kV, kQ2_K},
       {Role::kDown, kQ2_K, Where::kFirstEighth},
       kTableQ2}}},
    {{"IQ1_M", "hardly usable", kIQ1_M, true},
     {{kOutputQ5,
       {Role::kV, kQ4_K, Where::kGrouped},
       {Role::kV, kQ2_K},
       {Role::kDown, kQ2_K, Where::kFirstEighth},
       {Role::kAttention, kIQ2_XXS},
       kTableQ2}}},
    {{"TQ1_0", "for models of three values", kTQ1_0}, {{{Role::kEmbedding, kQ4_K}}}},
    {{"IQ1_S", "hardly usable", kIQ1_S, true},
     {{kOutputQ5,
       {Role::kV, kQ4_K, Where::kGrouped},
       {Role::kV, kQ2_K},
       {Role::kDown, kQ2_K, Where::kFirstEighth},
       {Role::kAttention, kIQ2_XXS},
       kTableQ2}}},
    {{"Q1_0", "for models of two values", kQ1_0}},
};

struct NamedRole {
  std::string_view part;
  Role role;
};
constexpr NamedRole kRoles[] = {
    {"attn_v.", Role::kV},     {"attn_kv_b.", Role::kV},    {"attn_k.", Role::kK},
    {"attn_q.", Role::kQ},     {"attn_qkv.", Role::kQkv},   {"attn_output.", Role::kAttention},
    {"ffn_down", Role::kDown}, {"ffn_gate", Role::kGateUp}, {"ffn_up", Role::kGateUp},
};

Role role_of(std::string_view name, const ModelShape& shape) {
  if (is_output(name, shape)) return Role::kOutput;
  if (is_embedding(name)) return Role::kEmbedding;
  for (const NamedRole& row : kRoles)
    if (name.find(row.part) != std::string_view::npos) return row.role;
  return Role::kOther;
}

// The layer in names like "blk.3.attn_v.weight"; -1 if there is none.
int layer_of(std::string_view name) {
  const auto at = name.find("blk.");
  int layer = -1;
  if (at != std::string_view::npos) std::from_chars(name.data() + at + 4, name.data() + name.size(), layer);
  return layer;
}

bool holds(Where where, int layer, const ModelShape& shape) {
  const int n = shape.n_layers;
  const bool first_eighth = layer < n / 8, last_eighth = layer >= 7 * n / 8;
  switch (where) {
    case Where::kAll:
      return true;
    case Where::kFirstTwo:
      return layer < 2;
    case Where::kFirstFour:
      return layer < 4;
    case Where::kFirstEighth:
      return first_eighth;
    case Where::kFirstSixteenth:
      return layer < n / 16;
    case Where::kInner:
      return !first_eighth && !last_eighth;
    case Where::kMoreBits:
      return first_eighth || last_eighth || (layer - n / 8) % 3 == 2;
    case Where::kGrouped:
      return shape.n_heads_of_kv_head >= 4 || shape.n_experts >= 4;
  }
  return false;
}

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// With many experts, attention is a small part of the model, so that it may have more bits.
constexpr int kManyExperts = 8;

}  // namespace

bool is_output(std::string_view name, const ModelShape& shape) {
  return name == (shape.tied ? "token_embd.weight" : "output.weight");
}
bool is_embedding(std::string_view name) {
  return name == "token_embd.weight" || name == "per_layer_token_embd.weight";
}

bool is_quantizable(std::string_view name, std::size_t rank) {
  // Small, and read as they are: routers, convolutions, tables, and what recurrent layers mix and decay with.
  constexpr std::string_view kPlain[] = {
      "_norm.",         "ffn_gate_inp",     "position_embd",       "token_types",    "rope_freqs",
      "rope_factors",   "ssm_conv1d",       "attn_rel_b",          "shortconv.conv", "altup",
      "laurel",         "time_mix_lerp",    "time_mix_w",          "time_mix_a",     "time_mix_v0",
      "time_mix_v1",    "time_mix_v2",      "time_mix_g1",         "time_mix_g2",    "time_mix_decay",
      "time_mix_first", "channel_mix_lerp", "per_layer_model_proj"};
  // Image encoders, audio encoders, projectors and classifiers.
  constexpr std::string_view kPlainBeginnings[] = {"v.", "a.", "mm.", "cls."};
  if (rank < 2 || rank > 3 || !name.ends_with(".weight")) return false;
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  const auto begins = [&](std::string_view part) { return name.starts_with(part); };
  return std::none_of(std::begin(kPlain), std::end(kPlain), has) &&
         std::none_of(std::begin(kPlainBeginnings), std::end(kPlainBeginnings), begins);
}

DType type_of(const QuantizeMix& mix, const ModelShape& shape, std::string_view name, bool important) {
  const auto found = std::find_if(std::begin(kMixes), std::end(kMixes),
                                  [&](const Mix& m) { return m.mix.name == mix.name; });
  const bool quantised = info(mix.type).kind == DTypeKind::kQuantised;
  const Role role = role_of(name, shape);
  const int layer = layer_of(name);
  if (quantised && shape.n_experts >= kManyExperts && (role == Role::kV || role == Role::kK)) return kQ8_0;
  for (const Rule& rule : found->rules) {
    if (rule.type == kF32 || rule.role != role || !holds(rule.where, layer, shape)) continue;
    if (rule.when == When::kAlways || (rule.when == When::kKnown) == important) return rule.type;
  }
  // All tokens pass through the output matrix, so it gets more bits.
  if (role == Role::kOutput && quantised && mix.type != kQ8_0) return kQ6_K;
  return mix.type;
}

DType fallback(DType type) {
  switch (type) {
    case kQ6_K:
      return kQ8_0;
    case kQ5_K:
      return kQ5_1;
    case kQ4_K:
      return kQ5_0;
    case kTQ1_0:
    case kTQ2_0:
      return kQ4_0;
    case kQ8_0:
    case kQ5_0:
    case kQ5_1:
    case kQ4_0:
    case kQ4_1:
    case kIQ4_NL:
    case kMXFP4:
      return kF16;
    default:
      return kIQ4_NL;
  }
}

}  // namespace weft::quantize_impl

namespace weft {

const QuantizeMix* find_quantize_mix(std::string_view name) {
  using quantize_impl::equal_in_any_case;
  std::uint32_t number = 0;
  const char* const end = name.data() + name.size();
  if (const auto [rest, error] = std::from_chars(name.data(), end, number);
      error == std::errc{} && rest == end)
    name = gguf::file_type_name(number);
  constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
      {"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}, {"MXFP4_MOE", "MXFP4"}};
  for (const auto& [other, own] : kOtherNames)
    if (equal_in_any_case(other, name)) name = own;
  for (const QuantizeMix& mix : quantize_mixes())
    if (equal_in_any_case(mix.name, name)) return &mix;
  return nullptr;
}

std::span<const QuantizeMix> quantize_mixes() {
  using namespace quantize_impl;
  static constexpr auto kAll = [] {
    std::array<QuantizeMix, std::size(kMixes)> all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = kMixes[i].mix;
    return all;
  }();
  return kAll;
}

}  // namespace weft
