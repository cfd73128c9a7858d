// Models whose vocabulary or chat template is wrong, one thing at a time: refused by the name of the key, or
// usable (malformed_model_test.cpp does the same for hyper-parameters and tensors).
#include <limits>

#include "engine/model_draft.h"

namespace weft {
namespace {

using test::Draft;
using test::Trials;

using Strings = std::vector<std::string>;
using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;

class MalformedVocabulary : public testing::TestWithParam<const char*> {
 protected:
  static constexpr const char* kTokens = "tokenizer.ggml.tokens";
  static constexpr const char* kScores = "tokenizer.ggml.scores";
  static constexpr const char* kTypes = "tokenizer.ggml.token_type";
  static constexpr const char* kMerges = "tokenizer.ggml.merges";

  bool is_bpe() const { return *good_.original().get_string("tokenizer.ggml.model") == "gpt2"; }

  template <typename T>
  Draft with(const std::string& key, T value) const {
    return Draft(good_).set(key, value);
  }
  template <typename T>
  Draft with_array(const std::string& key, std::vector<T> values) const {
    return Draft(good_).set_array(key, std::move(values));
  }
  template <typename T>
  void refused(const char* key, std::vector<T> values, const std::string& what) {
    trials_.refused(with_array(key, std::move(values)), std::string(key) + " " + what, {key});
  }
  /// Things that no list of the vocabulary may be.
  void refused_as_list(const char* key) {
    trials_.refused(with(key, "text"), "string", {key});
    trials_.refused(with(key, std::uint32_t{1}), "number", {key});
  }

  const Draft good_{GetParam()};
  const Strings tokens_ = *good_.original().get_strings(kTokens);
  const std::size_t n_ = tokens_.size();
  Trials trials_;

 private:
  const test::AddressSpaceLimit limit_;
};

TEST_P(MalformedVocabulary, Tokens) {
  trials_.refused(Draft(good_).drop(kTokens), "missing", {kTokens});
  refused_as_list(kTokens);
  refused(kTokens, std::vector<bool>(tokens_.size()), "of bool");
  refused(kTokens, std::vector<std::uint32_t>(n_), "of numbers");
  refused(kTokens, Strings{}, "empty");
  Strings changed = tokens_;
  changed.push_back("one more");
  refused(kTokens, changed, "one more");
  for (const std::size_t size : {std::size_t{4097}, std::size_t{1} << 20}) {
    changed = tokens_;
    changed[n_ - 1] = std::string(size, 'x');
    refused(kTokens, changed, "a long one");
  }
  if (is_bpe()) return;  // There, merges and the alphabet lean on most tokens.
  for (const std::string& text : {std::string(), std::string("\xff\xfe"), std::string(3, '\0'),
                                  std::string("\xE2\x96\x81\xE2\x96\x81 \xE2\x96"), std::string(4096, 'x')}) {
    changed = tokens_;
    changed[n_ - 1] = text;
    trials_.runs(with_array(kTokens, changed), "a strange text");
  }
  // Characters of a byte without a token are unknown: the file must have a token for those.
  const auto byte = std::find(tokens_.begin(), tokens_.end(), "<0x41>") - tokens_.begin();
  ASSERT_LT(static_cast<std::size_t>(byte), n_);
  for (const char* text : {"<0x-1>", "<0xZZ>", "<0x100>", "<0x4>", "<0x", "0x41", "", "<0x+4>", "<0x 4>"}) {
    changed = tokens_;
    changed[static_cast<std::size_t>(byte)] = text;
    const Draft draft = with_array(kTokens, changed);
    trials_.refused(draft, std::string("byte ") + text, {"unknown_token_id"});
    trials_.runs(Draft(draft).set("tokenizer.ggml.unknown_token_id", std::uint32_t{0}),
                 "with an unknown one");
  }
}

TEST_P(MalformedVocabulary, Scores) {
  if (is_bpe()) {  // Of no use there.
    trials_.runs(with_array(kScores, Floats(n_ - 1)), "one less");
    trials_.runs(with_array(kScores, Floats(n_, 1.0f)), "of no use");
    return;
  }
  trials_.runs(Draft(good_).drop(kScores), "missing");
  refused_as_list(kScores);
  refused(kScores, Strings(n_, "0"), "of strings");
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, n_ - 1})
    refused(kScores, Floats(n), "of another length");
  trials_.runs(with_array(kScores, Floats(n_ + 1)), "one more");
  refused(kScores, std::vector<std::uint8_t>(n_ / 4), "bytes of another length");
  refused(kScores, Floats(n_, std::numeric_limits<float>::quiet_NaN()), "NaN");
  for (const float value : {0.0f, std::numeric_limits<float>::infinity(), -3e38f})
    trials_.runs(with_array(kScores, Floats(n_, value)), "all equal");
  trials_.runs(with_array(kScores, std::vector<std::uint8_t>(n_, 7)), "bytes");
  trials_.runs(with_array(kScores, std::vector<double>(n_, 1e30)), "doubles");
}

TEST_P(MalformedVocabulary, Types) {
  refused_as_list(kTypes);
  refused(kTypes, Floats(n_, 1.5f), "no integers");
  refused(kTypes, Strings(n_, "1"), "strings");
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, n_ - 1})
    refused(kTypes, Ints(n, 1), "of another length");
  refused(kTypes, std::vector<std::uint64_t>(n_, ~std::uint64_t{0}), "2^64-1");
  const auto types = *good_.original().get_ints(kTypes);
  const auto as = [&]<typename T>(T) {
    return with_array(kTypes, std::vector<T>(types.begin(), types.end()));
  };
  trials_.runs(as(std::uint8_t{}), "bytes");
  trials_.runs(as(std::uint32_t{}), "unsigned");
  trials_.runs(as(std::int64_t{}), "64 bits");
  trials_.runs(as(float{}), "floats");
  for (const std::int32_t type : {-1, 7, 99, std::numeric_limits<std::int32_t>::min()}) {
    Ints odd(types.begin(), types.end());
    odd[n_ - 1] = type;
    trials_.runs(with_array(kTypes, odd), std::to_string(type));
  }
  const auto all = [&](std::int32_t type) { return with_array(kTypes, Ints(n_, type)); };
  if (is_bpe()) {
    for (const std::int32_t type : {0, 1, 2, 3, 4, 5, 6}) trials_.runs(all(type), std::to_string(type));
    trials_.runs(Draft(good_).drop(kTypes), "missing");
  } else {
    // Without byte tokens there must be an unknown token.
    for (const std::int32_t type : {0, 1, 2, 3, 4, 5}) {
      trials_.refused(all(type), std::to_string(type), {"unknown_token_id"});
      trials_.runs(all(type).set("tokenizer.ggml.unknown_token_id", std::uint32_t{0}), "with an unknown one");
    }
    trials_.runs(all(6), "all bytes");
    trials_.runs(Draft(good_).drop(kTypes), "missing");
  }
}

TEST_P(MalformedVocabulary, Merges) {
  if (!is_bpe()) {
    trials_.runs(with_array(kMerges, Strings{"abc"}), "of no use");
    return;
  }
  trials_.refused(Draft(good_).drop(kMerges), "missing", {kMerges});
  refused_as_list(kMerges);
  refused(kMerges, std::vector<std::uint32_t>(3), "of numbers");
  for (const std::string& merge :
       {std::string("abc"), std::string(), std::string(" "), std::string("  "), std::string("   "),
        std::string("a "), std::string(" a"), std::string("a b c"), std::string("no such"),
        std::string("a\0b", 3), std::string("! \xff"), std::string(1 << 20, 'x'), std::string(1 << 20, ' ')})
    trials_.runs(with_array(kMerges, Strings{merge}), "\"" + merge.substr(0, 20) + "\"");
  Strings merges = *good_.original().get_strings(kMerges);
  std::reverse(merges.begin(), merges.end());
  trials_.runs(with_array(kMerges, merges), "reversed");
  trials_.runs(with_array(kMerges, Strings(1000, merges[0])), "one many times");
  trials_.runs(with_array(kMerges, Strings{}), "none");
}

TEST_P(MalformedVocabulary, SpecialTokens) {
  const auto n = static_cast<std::uint32_t>(n_);
  for (const char* name : {"bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "cls", "mask"}) {
    const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
    // None of these is a token: a note says that it is not used.
    const auto bad = [&](auto value) {
      Draft draft = with(key, value);
      trials_.runs(draft.set("tokenizer.ggml.add_bos_token", false), key);
    };
    bad(std::int32_t{-1});
    bad(std::numeric_limits<std::int64_t>::min());
    bad(n);
    bad(std::uint32_t{0x7fffffff});
    bad(std::uint32_t{0xffffffff});
    bad(std::uint64_t{1} << 32);
    bad(~std::uint64_t{0});
    bad(1.5f);
    bad("1");
    trials_.runs(with_array(key, Ints{1}), key);
    for (const std::uint32_t id : {0u, n - 1}) trials_.runs(with(key, id), key);
    if (good_.has(key)) {
      Draft without(good_);
      without.drop(key).set("tokenizer.ggml.add_bos_token", false);
      trials_.runs(without, "without " + key);
    }
  }
  for (const char* name : {"add_bos_token", "add_eos_token", "add_space_prefix", "normalizer.lowercase",
                           "normalizer.strip_accents"}) {
    const std::string key = "tokenizer.ggml." + std::string(name);
    trials_.runs(with(key, std::uint32_t{1}), key);
    trials_.refused(with(key, std::uint32_t{2}), key, {key});
    trials_.runs(with(key, "true"), key);
    trials_.refused(with(key, "yes"), key, {key});
    for (const bool value : {false, true}) trials_.runs(with(key, value), key);
  }
  for (const char* name : {"bos", "eos"}) {
    const std::string flag = "tokenizer.ggml.add_" + std::string(name) + "_token";
    const std::string id = "tokenizer.ggml." + std::string(name) + "_token_id";
    Draft draft(good_);
    trials_.runs(draft.drop(id).set(flag, true), flag + " without a token");
  }
}

TEST_P(MalformedVocabulary, KindAndPreTokenizer) {
  const std::string model = "tokenizer.ggml.model", pre = "tokenizer.ggml.pre";
  trials_.refused(Draft(good_).drop(model), "missing", {model});
  for (const char* name : {"", "unheard-of", "GPT2", "rwkv5"})
    trials_.refused(with(model, name), name, {model});
  trials_.refused(with(model, std::string(1 << 20, 'x')), "long", {model});
  trials_.refused(with(model, std::uint32_t{1}), "number", {model});
  if (is_bpe()) {
    trials_.refused(with(model, "t5"), "t5", {kScores});
  } else {
    const std::string charsmap = "tokenizer.ggml.precompiled_charsmap";
    for (const std::vector<std::uint8_t>& bytes :
         {std::vector<std::uint8_t>{1, 2}, {8, 0, 0, 0, 1, 2, 3, 4}}) {
      Draft draft(good_);
      trials_.refused(draft.set(model, std::string("t5")).set_array(charsmap, bytes), "charsmap", {charsmap});
    }
    Draft draft(good_);
    trials_.refused(draft.set(model, std::string("t5")).set(charsmap, std::uint32_t{1}), "number",
                    {charsmap});
  }
  if (is_bpe()) {
    trials_.refused(with(model, "llama"), "the other kind", {"unknown_token_id"});
    for (const std::string& name : {std::string("unheard-of"), std::string(1 << 20, 'x'), std::string("\n")})
      trials_.refused(with(pre, name), name.substr(0, 20), {pre});
  } else {
    trials_.refused(with(model, "gpt2"), "the other kind", {kMerges});
  }
  trials_.refused(with(pre, std::uint32_t{1}), "number", {pre});
  trials_.runs(with("general.name", std::uint32_t{1}), "number");
}

TEST_P(MalformedVocabulary, ChatTemplates) {
  const std::string key = "tokenizer.chat_template";
  trials_.runs(with(key, std::uint32_t{1}), "number");
  trials_.runs(with_array(key, Strings{"{{ messages }}"}), "array");
  // A model with a template that cannot be read, or that never ends, can still be used without.
  for (const std::string& source :
       {std::string(), std::string("{% for x in %}{{"), std::string("{{"), std::string("\xff\0{#", 4),
        std::string(100000, '('), "{{" + std::string(100000, '(') + "}}",
        "{{" + std::string(1 << 20, '[') + "}}", std::string(1 << 20, 'x'),
        std::string("{% for i in range(1000000000) %}x{% endfor %}"),
        std::string("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), std::string("{{ 1 / 0 }}"),
        std::string("{{ 'x' * 1000000000 }}"), std::string("{{ messages.__class__ }}")})
    trials_.runs(with(key, source), source.substr(0, 30));
}

INSTANTIATE_TEST_SUITE_P(Kinds, MalformedVocabulary, testing::Values("llama", "gpt2"));

}  // namespace
}  // namespace weft
