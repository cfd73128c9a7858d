#include "convert/special_tokens.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/to_size.h"
#include "convert/tokenizer_steps.h"

namespace weft::convert_impl {
namespace {

class SpecialTokens {
 public:
  SpecialTokens(const TokenizerFolder& folder, const TokenRows& rows, const SpecialDefaults& defaults,
                GgufWriter& file)
      : folder_(folder), rows_(rows), defaults_(defaults), file_(file) {}

  void write(const Config& config, std::vector<std::string>& notes) {
    const Json generation = read_json_if_there(folder_.path / "generation_config.json");
    const auto numbers_of = [&](const char* name) {
      std::vector<std::int64_t> ids;
      const Json* value = find(generation, name);
      if (value == nullptr) value = config.find({name});
      const auto take = [&](const Json& id) {
        if (id.is_number_unsigned() && id.get<std::uint64_t>() < rows_.size())
          ids.push_back(id.get<std::int64_t>());
      };
      if (value != nullptr && value->is_array()) std::for_each(value->begin(), value->end(), take);
      if (value != nullptr && !value->is_array()) take(*value);
      return ids;
    };
    const std::pair<const char*, const char*> tokens[] = {{"bos", "bos"},       {"unk", "unknown"},
                                                          {"pad", "padding"},   {"cls", "cls"},
                                                          {"sep", "seperator"}, {"mask", "mask"}};
    for (const auto& [name, key] : tokens) {
      std::int64_t id = rows_.id_of_name((std::string(name) + "_token").c_str());
      if (std::string_view(name) == "unk" && rows_.unknown() >= 0)
        id = rows_.unknown();  // The tokenizer model's own id.
      if (std::string_view(name) == "bos" && id < 0) id = defaults_.ids[0];
      if (std::string_view(name) == "pad" && id < 0) id = defaults_.ids[2];
      if (static_cast<std::uint64_t>(id) >= rows_.size()) id = -1;
      if (const auto ids = numbers_of((std::string(name) + "_token_id").c_str()); id < 0 && !ids.empty())
        id = ids.front();
      if (id >= 0) set(std::string(key) + "_token_id", static_cast<std::uint32_t>(id));
      if (std::string_view(name) == "bos") bos_ = id;
    }
    std::vector<std::int64_t> ends = numbers_of("eos_token_id");
    std::int64_t end = rows_.id_of_name("eos_token");
    if (end < 0 && ends.empty()) end = defaults_.ids[1];
    if (const std::int64_t id = end; id >= 0 && static_cast<std::uint64_t>(id) < rows_.size()) {
      std::erase(ends, id);
      ends.insert(ends.begin(), id);
    }
    constexpr const char* kEnds[] = {"eos_token_id", "eot_token_id", "eom_token_id"};
    // Other readers support three; this key has all of them.
    if (ends.size() > 1) set("eos_token_ids", std::vector<std::int32_t>(ends.begin(), ends.end()));
    for (std::size_t i = 0; i < std::min(ends.size(), std::size(kEnds)); ++i)
      set(kEnds[i], static_cast<std::uint32_t>(ends[i]));
    const Frame around = frame();
    const auto said = [&](const char* name) {
      const Json* const adds = find(folder_.names, name);
      return adds != nullptr && adds->is_boolean() ? std::optional(adds->get<bool>()) : std::nullopt;
    };
    const bool begins = bos_ >= 0 && !around.before.empty() && around.before.front() == bos_;
    // tokenizer.json lists the tokens around a prompt, and XLM-R has both. Other folders without it get the
    // default of their kind. Transformers' tokenizers have the same defaults.
    const auto set_adds = [&](const char* name, std::int64_t id, bool listed) {
      std::optional<bool> adds = listed ? true : said(name);
      if (!adds && (defaults_.fairseq || find(folder_.tokenizer, "model") != nullptr))
        adds = defaults_.fairseq;
      if (adds) set(name, *adds && id >= 0);
    };
    const std::int64_t eos = ends.empty() ? -1 : ends.front();
    const bool closes = eos >= 0 && !around.after.empty() && around.after.back() == eos;
    set_adds("add_bos_token", bos_, begins);
    set_adds("add_eos_token", eos, closes);
    if (around.before.size() > (begins ? 1 : 0) || around.after.size() > (closes ? 1 : 0))
      notes.push_back("tokenizer.json adds" + texts_of(around.before) + " before and" +
                      texts_of(around.after) +
                      " after each prompt; GGUF has keys for one BOS and one EOS token only, so the others "
                      "must be written in prompts without a chat template");
  }

 private:
  /// The tokens around a prompt.
  struct Frame {
    std::vector<std::int64_t> before, after;
  };

  /// " <s> <x>", or " nothing".
  std::string texts_of(const std::vector<std::int64_t>& ids) const {
    std::string texts;
    for (const std::int64_t id : ids)
      texts += ' ' + (static_cast<std::uint64_t>(id) < rows_.size() ? rows_.tokens[to_size(id)] : "?");
    return texts.empty() ? " nothing" : texts;
  }

  /// The tokens that tokenizer.json puts before and after a prompt; -1 if a token has no id.
  Frame frame() const {
    Frame around;
    const Json* const processor = find(folder_.tokenizer, "post_processor");
    if (processor == nullptr) return around;
    for (const Json* step : steps_of(folder_.tokenizer, "post_processor", "processors")) {
      const Json* const single = find(*step, "single");
      if (single != nullptr && single->is_array()) {
        around = {};
        bool is_after = false;
        for (const Json& part : *single) {
          if (const Json* const token = find(part, "SpecialToken"))
            (is_after ? around.after : around.before)
                .push_back(rows_.id_of(find_text(*token, "id").value_or("")));
          else
            is_after = true;  // The prompt.
        }
      }
      const auto pair = [&](const char* name) {  // ["</s>", 2]
        const Json* const of = find(*step, name);
        const bool good = of != nullptr && of->is_array() && !of->empty() && of->front().is_string();
        return std::vector<std::int64_t>{good ? rows_.id_of(of->front().get<std::string>()) : -1};
      };
      if (find_text(*step, "type") == "RobertaProcessing" || find_text(*step, "type") == "BertProcessing")
        around = {pair("cls"), pair("sep")};
    }
    return around;
  }

  void set(const std::string& key, const GgufValue& value) { file_.set("tokenizer.ggml." + key, value); }

  const TokenizerFolder& folder_;
  const TokenRows& rows_;
  const SpecialDefaults& defaults_;
  GgufWriter& file_;
  std::int64_t bos_ = -1;
};

}  // namespace

void add_special_tokens(const TokenizerFolder& folder, const TokenRows& rows, const Config& config,
                        const SpecialDefaults& defaults, GgufWriter& file, std::vector<std::string>& notes) {
  SpecialTokens(folder, rows, defaults, file).write(config, notes);
}

}  // namespace weft::convert_impl
