#include "convert/place.h"

#include <charconv>
#include <span>

#include "base/to_size.h"
#include "convert/refuse.h"

namespace weft::convert_impl {
namespace {

bool take_number(std::string_view& text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() || number < 0 || number >= 1 << 16) return false;
  text.remove_prefix(to_size(end - text.data()));
  return true;
}

/// Whether `text` is `pattern` and an ending; that is left in `text`.
bool match(std::string_view pattern, std::string_view& text, std::int64_t& expert) {
  std::string_view rest = text;
  if (const auto star = pattern.find('*'); star != pattern.npos) {
    if (!rest.starts_with(pattern.substr(0, star))) return false;
    rest.remove_prefix(star);
    if (!take_number(rest, expert)) return false;
    pattern.remove_prefix(star + 1);
  }
  if (!rest.starts_with(pattern)) return false;
  rest.remove_prefix(pattern.size());
  if (!rest.empty() && rest != ".weight" && rest != ".bias") return false;
  text = rest;
  return true;
}

/// GGUF's name for the target of a rename and the folder's ending.
std::string gguf_name(std::string_view to, std::string_view ending, Place& place) {
  if (const auto mark = to.find('#'); mark != to.npos) {
    place.expert = to[mark + 1] - '0';
    place.joined = true;
    to = to.substr(0, mark);
  }
  // These names get no ending, or have one already.
  const bool ended = to == "ssm_a" || to == "ssm_d" || to.ends_with(".bias") || to.ends_with(".scale");
  if (ending.empty() && !ended) ending = ".weight";
  return std::string(to) + std::string(ending);
}

bool find_name(std::span<const Rename> own, std::span<const Rename> shared, std::string_view text,
               Place& place) {
  for (const std::span<const Rename> names : {own, shared})
    for (const Rename& rename : names)
      if (match(rename.from, text, place.expert)) {
        place.name = gguf_name(rename.to, text, place);
        return true;
      }
  return false;
}

}  // namespace

bool is_left_out(std::string_view name, const Family& family) {
  for (const std::string_view part :
       {"rotary_emb.inv_freq", "vision_tower.", "multi_modal_projector.", "visual.", "position_ids",
        "attention.masked_bias", "attn.masked_bias", "vision_model.", "connector.", "audio_tower.",
        "embed_vision.", "embed_audio.", "vqmodel."})
    if (name.find(part) != name.npos) return true;
  if (name.ends_with(".attention.bias") || name.ends_with(".attn.bias") || name.starts_with("mtp."))
    return true;
  if ((family.traits & kLearnedCurve) != 0 && name.find(".act_fn.") != name.npos) return true;
  if ((family.traits & kBothSides) != 0 && name == "decoder.embed_tokens.weight") return true;
  if ((family.traits & kEncoder) == 0) return false;
  // A classifier reads the pooled row. Embeddings need neither the pooler nor the training head.
  const bool classifies = family.name.ends_with("ForSequenceClassification");
  if (!classifies && (name.find("pooler.") != name.npos || name.starts_with("head."))) return true;
  return name.starts_with("cls.") || name.starts_with("lm_head.") || name.starts_with("decoder.");
}

Place place_of(const std::string& full, const Family& family) {
  std::string_view name = full;
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view prefix : {"model.", "language_model.", "text_model.", "gpt_neox.",
                                          "transformer.", "bert.", "roberta.", "backbone."})
      if (name.starts_with(prefix)) {
        name.remove_prefix(prefix.size());
        again = true;
      }
  }
  Place place;
  std::string_view prefix = family.prefix;
  if ((family.traits & kBothSides) != 0) {
    const bool writes = name.starts_with("decoder.");
    prefix = writes ? "decoder.block." : "encoder.block.";
    place.block = writes ? "dec.blk" : "enc.blk";
  }
  if (name.starts_with(prefix)) {
    std::string_view rest = name.substr(prefix.size());
    if (take_number(rest, place.layer) && rest.starts_with('.') &&
        find_name(family.layer, shared_layer_names(), rest.substr(1), place)) {
      if ((family.traits & kBothSides) != 0) {
        // The second of a decoder's three parts is not its feed-forward one; none is an expert.
        if (place.block == "dec.blk" && place.expert == 1 && place.name == "ffn_norm.weight")
          place.name = "cross_attn_norm.weight";
        place.expert = -1;
      }
      return place;
    }
  } else if (find_name(family.whole, shared_whole_names(), name, place)) {
    return place;
  }
  refuse_tensor(full, "is not part of any known model of the class " + std::string(family.name));
}

}  // namespace weft::convert_impl
