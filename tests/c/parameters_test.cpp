// Each field of the C parameter structs has an effect, or is refused. This finds fields that are not passed
// on to C++. tests/engine/parameters_test.cpp covers the rest.
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/parameters_testing.h"
#include "weft.h"

namespace {

using weft::test::acts;
using weft::test::both;
using weft::test::refused;
using weft::test::unseen;
using weft::test::walk;

/// The error of a call, as an exception.
struct Checked {
  weft_error* error = nullptr;
  ~Checked() { weft_error_free(error); }
  template <typename T>
  T operator()(T result) {
    if (weft_error_status(error) != WEFT_OK) throw std::runtime_error(weft_error_message(error));
    return result;
  }
};
template <typename T>
using Handle = std::unique_ptr<T, void (*)(T*)>;

template <typename P>
P made(void (*init)(P*, std::size_t)) {
  P params;
  init(&params, sizeof params);
  return params;
}

const std::string kModel = WEFT_TEST_DATA "/golden/llama/model.gguf";
constexpr weft_token kPrompt[] = {1, 30, 31, 32, 30, 31, 32, 30};
constexpr std::size_t kPromptSize = std::size(kPrompt);
const float kNan = std::nanf("");

Handle<weft_model> load(const weft_model_params* params = nullptr, const std::string& path = kModel) {
  Checked check;
  return {check(weft_model_load(path.c_str(), params, &check.error)), weft_model_free};
}
const weft_model* llama() {
  static const Handle<weft_model> model = load();
  return model.get();
}
Handle<weft_tokenizer> tokenizer_of(const weft_model* model) {
  Checked check;
  return {check(weft_model_tokenizer(model, &check.error)), weft_tokenizer_free};
}
Handle<weft_context> context_of(const weft_context_params& params) {
  Checked check;
  return {check(weft_context_create(llama(), &params, &check.error)), weft_context_free};
}
weft_context_params small(int n_ctx = 64) {
  weft_context_params params = made(weft_context_params_init);
  params.n_ctx = n_ctx;
  params.n_sequences = 4;
  params.n_threads = 1;
  return params;
}

TEST(CParameters, OfSamplersActOrAreRefused) {
  using P = weft_sampler_params;
  const Handle<weft_tokenizer> tokenizer = tokenizer_of(llama());
  const auto n = static_cast<std::size_t>(weft_tokenizer_n_vocab(tokenizer.get()));
  std::vector<float> logits(n);
  for (std::size_t i = 0; i < n; ++i) logits[i] = 6.0f / static_cast<float>(1 + i % 16);
  const auto drawn = [&](const P& params) {
    Checked check;
    const Handle<weft_sampler> sampler(check(weft_sampler_create_for(tokenizer.get(), &params, &check.error)),
                                       weft_sampler_free);
    std::string text;
    for (int i = 0; i < 150; ++i) {
      weft_token token = 0;
      check(weft_sampler_sample(sampler.get(), logits.data(), n, nullptr, &token, &check.error));
      check(weft_sampler_accept(sampler.get(), token, &check.error));
      text += std::to_string(token) + " ";
    }
    return text;
  };
  P start = made(weft_sampler_params_init);
  start.seed = 1;
  start.temperature = 1.0f;
  start.top_k = 0;
  start.top_p = 1.0f;
  start.min_p = 0.0f;
  static const char* const every[] = {"!", "e", "a", "o", "t", "n", "i", "s", " ", "r"};
  static const char* const vowel[] = {"e"};
  static const char* const empty[] = {""};
  static const weft_logit_bias none[] = {{0, 0.0f}, {3, 100.0f}}, often[] = {{3, 100.0f}},
                               beyond[] = {{1 << 30, 1.0f}};
  start.logit_bias = none;
  start.n_logit_bias = 1;
  start.dry_breakers = every;
  start.n_dry_breakers = 1;
  const auto dry = [](P& p) {
    p.dry_multiplier = 0.5f;
    p.dry_allowed_length = 0;
  };
  const auto mirostat = [](P& p) { p.mirostat = 2, p.mirostat_tau = 3.0f; };
  const auto xtc = [](P& p) { p.xtc_probability = 1.0f, p.xtc_threshold = 0.0001f; };
  const auto dynamic = [](P& p) { p.dynamic_temperature_range = 0.5f; };
  const auto penalty = [](P& p) { p.repetition_penalty = 2.0f; };
  walk({refused(&P::struct_size, 3),
        acts(&P::seed, 2),
        both(&P::temperature, 0.3f, kNan),
        acts(&P::top_k, 2),
        both(&P::top_p, 0.3f, 1.5f),
        both(&P::min_p, 0.5f, kNan),
        both(&P::typical_p, 0.2f, 2.0f),
        both(&P::top_n_sigma, 0.5f, kNan),
        both(&P::xtc_probability, 0.0f, 2.0f).with(xtc),
        both(&P::xtc_threshold, 0.6f, -1.0f).with(xtc),
        both(&P::dynamic_temperature_range, 0.5f, -1.0f),
        both(&P::dynamic_temperature_exponent, 3.0f, -1.0f).with(dynamic),
        both(&P::mirostat, 1, 3),
        both(&P::mirostat_tau, 1.0f, -1.0f).with(mirostat),
        both(&P::mirostat_eta, 2.0f, kNan).with(mirostat),
        both(&P::penalty_last_n, 1, -2).with(penalty),
        both(&P::repetition_penalty, 3.0f, 0.0f),
        both(&P::frequency_penalty, 2.0f, kNan),
        both(&P::presence_penalty, 2.0f, kNan),
        both(&P::dry_multiplier, 0.0f, -1.0f).with(dry),
        both(&P::dry_base, 9.0f, 0.5f).with(dry),
        both(&P::dry_allowed_length, 3, -1).with(dry),
        both(&P::dry_penalty_last_n, 2, -2).with(dry),
        both(&P::logit_bias, often, beyond),
        acts(&P::n_logit_bias, 2),
        both(&P::steps, "temperature", "top_hat").with([](P& p) { p.top_k = 2; }),
        both(&P::dry_breakers, vowel, empty).with(dry),
        acts(&P::n_dry_breakers, std::size(every)).with(dry)},
       start, drawn);
}

TEST(CParameters, OfGenerationsActOrAreRefused) {
  using P = weft_generate_params;
  static std::string told;
  const auto result = [&](const P& params) {
    Checked check;
    const Handle<weft_context> context = context_of(small());
    weft_sampler_params greedy = made(weft_sampler_params_init);
    greedy.temperature = 0.0f;
    const Handle<weft_tokenizer> tokenizer = tokenizer_of(llama());
    const Handle<weft_sampler> sampler(check(weft_sampler_create_for(tokenizer.get(), &greedy, &check.error)),
                                       weft_sampler_free);
    char* text = nullptr;
    weft_generation how = {};
    how.struct_size = sizeof how;
    told.clear();
    check(weft_generate(context.get(), sampler.get(), kPrompt, kPromptSize, 0, &params, &text, nullptr,
                        nullptr, &how, &check.error));
    const std::string all =
        std::string(text) + "|" + told + std::to_string(how.n_generated) + " " + std::to_string(how.stop);
    weft_free(text);
    return all;
  };
  P start = made(weft_generate_params_init);
  start.n_predict = 8;
  start.ignore_end = true;
  P longer = start;
  longer.n_predict = 60;
  static const std::string written = [&] {
    const std::string all = result(longer);
    return all.substr(all.find_first_not_of(' '), 2);
  }();
  static const char* const stops[] = {"never written", written.c_str()};
  static const char* const empty[] = {""};
  start.stop = stops;
  start.n_stop = 1;
  static const auto on_text = [](const char* text, std::size_t, void* user_data) {
    told += text;
    if (user_data != nullptr) told += "with data";
    return true;
  };
  const auto shifts = [](P& p) { p.n_predict = 200, p.context_shift = true; };
  Checked check;
  const Handle<weft_grammar> grammar(
      check(weft_grammar_create(llama(), WEFT_GRAMMAR_REGEX, "ab+", &check.error)), weft_grammar_free);
  static int data = 0;
  walk(
      {refused(&P::struct_size, 3), acts(&P::n_predict, 3), both(&P::n_keep, 40, -1).with(shifts),
       both(&P::stop, stops + 1, empty), acts(&P::n_stop, 2), acts(&P::on_text, +on_text),
       acts(&P::on_prefill, [](std::int32_t, void*) { return false; }),
       acts(&P::user_data, &data).with([](P& p) { p.on_text = +on_text; }),
       unseen(&P::ignore_end, "this model ends no text of these; see OfRequestsActOrAreRefused"),
       acts(&P::context_shift, true).with([](P& p) { p.n_predict = 200; }),
       unseen(&P::media, "tests/c/test_media.c"), refused(&P::n_skipped, 1), acts(&P::grammar, grammar.get()),
       refused(&P::n_chunk, -1), unseen(&P::special, "this model generates no control tokens")},
      start, result);
}

TEST(CParameters, OfRequestsActOrAreRefused) {
  using P = weft_request_params;
  static std::string told;
  static const weft_output_callback tell = [](const weft_output* output, void* user_data) {
    told += std::to_string(output->request) + ":" + output->text + "|";
    for (std::size_t i = 0; i < output->n_tokens; ++i)
      told += std::to_string(output->tokens[i].token) + " " + std::to_string(output->tokens[i].logprob) +
              " " + std::to_string(output->tokens[i].n_top) + " ";
    told += std::to_string(output->n_prompt) + " " + std::to_string(output->n_embedding) + " " +
            std::to_string(output->completion) + " " + std::to_string(output->stop);
    if (output->done)
      told += " " + std::to_string(output->stats->n_drafted) + " " + std::to_string(output->stats->n_cached);
    if (user_data != nullptr) told += "with data";
    return true;
  };
  const auto result = [&](const P& params) {
    Checked check;
    const Handle<weft_context> context = context_of(small(256));
    weft_batcher_params how = made(weft_batcher_params_init);
    how.n_running = 1;  // So that one waits for the other.
    how.speculation = WEFT_SPECULATION_NGRAM;
    const Handle<weft_batcher> batcher(check(weft_batcher_create(context.get(), &how, &check.error)),
                                       weft_batcher_free);
    told.clear();
    P other = made(weft_request_params_init);
    other.n_predict = 3;
    other.on_output = tell;
    check(weft_batcher_submit(batcher.get(), kPrompt, kPromptSize, &other, nullptr, &check.error));
    check(weft_batcher_submit(batcher.get(), kPrompt, kPromptSize, &params, nullptr, &check.error));
    check(weft_batcher_run(batcher.get(), &check.error));
    // The other one draws at random.
    const std::size_t own = told.find("2:");
    return (told.starts_with("1:") ? "after " : "before ") + told.substr(std::min(own, told.size()));
  };
  static weft_sampler_params greedy = made(weft_sampler_params_init), ends = greedy, wrong = greedy;
  greedy.temperature = ends.temperature = 0.0f;
  static weft_logit_bias end = {2, 1000.0f};
  ends.logit_bias = &end;
  ends.n_logit_bias = 1;
  wrong.top_p = 2.0f;
  Checked check;
  const Handle<weft_grammar> grammar(
      check(weft_grammar_create(llama(), WEFT_GRAMMAR_REGEX, "ab+", &check.error)), weft_grammar_free);
  P start = made(weft_request_params_init);
  start.sampler = &greedy;
  start.n_predict = 5;
  start.on_output = tell;
  static const char* const stops[] = {"never written", "b"};
  static const char* const empty[] = {""};
  static const weft_adapter_use use = {0, 1.0f};
  static const weft_token beyond[] = {1 << 30};
  static int data = 0;
  start.stop = stops;
  start.n_stop = 1;
  const auto held = [&](P& p) { p.grammar = grammar.get(); };
  const auto ending = [](P& p) { p.sampler = &ends; };
  const auto shifts = [](P& p) {
    p.n_predict = 100, p.n_ctx = 32;
    p.ignore_end = p.context_shift = true;
  };
  walk({refused(&P::struct_size, 3),
        both(&P::sampler, &ends, &wrong),
        acts(&P::grammar, grammar.get()),
        both(&P::stop, stops + 1, empty).with(held),
        acts(&P::n_stop, 2).with(held),
        both(&P::n, 2, 0),
        acts(&P::n_predict, 3).with([](P& p) { p.ignore_end = true; }),
        both(&P::n_min, 3, 6).with(ending),
        both(&P::n_logprobs, 2, 5000),
        acts(&P::priority, 1000),
        both(&P::n_ctx, 10, -1).with([](P& p) { p.n_predict = 20, p.ignore_end = true; }),
        both(&P::n_keep, 20, 31).with(shifts),
        both(&P::pooling, WEFT_POOLING_MEAN, 9).with([](P& p) { p.n_stop = 0; }),
        refused(&P::queue_timeout_ms, -1.0),
        refused(&P::first_token_timeout_ms, std::nan("")),
        refused(&P::timeout_ms, -1.0),
        refused(&P::adapters, &use).with([](P& p) { p.n_adapters = 1; }),
        refused(&P::n_adapters, std::size_t{1}).with([](P& p) { p.adapters = &use; }),
        acts(&P::on_output, nullptr),
        acts(&P::user_data, &data),
        acts(&P::ignore_end, true).with(ending),
        unseen(&P::special, "grammars write no control tokens"),
        acts(&P::prompt_logprobs, true),
        acts(&P::context_shift, false).with(shifts),
        acts(&P::speculate, false).with([](P& p) { p.n_predict = 60, p.ignore_end = true; }),
        unseen(&P::media, "tests/c/test_media.c"),
        refused(&P::stop_tokens, beyond).with([](P& p) { p.n_stop_tokens = 1; }),
        refused(&P::n_stop_tokens, std::size_t{1}),
        refused(&P::banned_strings, empty).with([](P& p) { p.n_banned_strings = 1; }),
        refused(&P::n_banned_strings, std::size_t{1}),
        refused(&P::bad_words, empty).with([](P& p) { p.n_bad_words = 1; }),
        refused(&P::n_bad_words, std::size_t{1}),
        refused(&P::allowed_tokens, beyond).with([](P& p) { p.n_allowed_tokens = 1; }),
        refused(&P::n_allowed_tokens, std::size_t{1}),
        unseen(&P::snapshot_at, "sequences of this model can be cut anywhere (test_batcher.c)"),
        refused(&P::n_snapshot_at, std::size_t{1}),
        unseen(&P::chat, "test_chat.c"),
        both(&P::n_shown_stops, 1, 2).with([&](P& p) { p.grammar = grammar.get(), p.stop = stops + 1; }),
        acts(&P::reuse_prefix, false)},
       start, result);
}

TEST(CParameters, OfBatchersAndContextsActOrAreRefused) {
  using P = weft_batcher_params;
  const auto made_of = [](const P& params) {
    Checked check;
    const Handle<weft_context> context = context_of(small());
    const Handle<weft_batcher> batcher(check(weft_batcher_create(context.get(), &params, &check.error)),
                                       weft_batcher_free);
    P one = params;
    std::string taken;
    for (int i = 0; i < 3; ++i)
      taken += weft_status_name(weft_batcher_submit(batcher.get(), kPrompt, 2, nullptr, nullptr, nullptr));
    return taken + std::to_string(one.struct_size);
  };
  const Handle<weft_context> draft = context_of(small());
  walk({refused(&P::struct_size, 3),
        refused(&P::n_running, -1),
        refused(&P::n_step_tokens, -1),
        refused(&P::max_step_ms, -1.0),
        refused(&P::max_pause_ms, -1.0),
        both(&P::n_waiting, 1, -1),
        refused(&P::speculation, 7),
        refused(&P::n_draft, -1),
        refused(&P::n_unread, 0),
        refused(&P::draft, draft.get()),
        unseen(&P::reuse_prefixes, "as in C++"),
        refused(&P::cache_ram_bytes, -2),
        unseen(&P::cache_disk, "files of prefixes (test_batcher.c)"),
        refused(&P::cache_disk_bytes, -1).with([](P& p) { p.cache_ram_bytes = 1; }),
        unseen(&P::on_note, "damaged files (test_batcher.c)"),
        unseen(&P::note_data, "given to it"),
        refused(&P::snapshot_bytes, -1),
        refused(&P::n_snapshots, -1),
        refused(&P::n_draft_branches, 0),
        both(&P::n_waiting_tokens, 3, -1),
        both(&P::n_request_tokens, 1, 0),
        unseen(&P::stop_bytes, "of requests with stop strings (test_batcher.c)"),
        refused(&P::n_stops, -1),
        refused(&P::n_completions, 0),
        unseen(&P::adapt_drafts, "drafts are as many as pay, which is a matter of time")},
       made(weft_batcher_params_init), made_of);

  using C = weft_context_params;
  const auto info_of = [](const C& params) {
    Checked check;
    const Handle<weft_context> context = context_of(params);
    weft_context_info info = {};
    info.struct_size = sizeof info;
    check(weft_context_get_info(context.get(), &info, &check.error));
    return std::to_string(info.n_ctx) + " " + std::to_string(info.n_sequences) + " " +
           std::to_string(info.n_ubatch);
  };
  static const weft_adapter_use use = {0, 1.0f};
  walk({refused(&C::struct_size, 3), both(&C::n_ctx, 32, -1), both(&C::n_sequences, 2, 0),
        both(&C::n_ubatch, 8, 0), refused(&C::n_outputs, -1), refused(&C::n_threads, -1),
        refused(&C::n_best, -2), refused(&C::k_type, 10), refused(&C::v_type, -1),
        refused(&C::adapters, &use).with([](C& p) { p.n_adapters = 1; }),
        refused(&C::n_adapters, std::size_t{1}), refused(&C::window_rewind, -2),
        unseen(&C::shares_with, "the same results in less memory (test_context.c)"),
        refused(&C::n_source, -1), unseen(&C::rotate_cache, "of quantised caches (test_context.c)"),
        refused(&C::state_rewind, std::int64_t{1} << 32)},
       small(), info_of);

  using E = weft_embedder_params;
  const auto length = [](const E& params) {
    Checked check;
    const Handle<weft_embedder> embedder(check(weft_embedder_create(llama(), &params, &check.error)),
                                         weft_embedder_free);
    return weft_embedder_max_tokens(embedder.get());
  };
  walk({refused(&E::struct_size, 3), both(&E::n_tokens, 7, -1), refused(&E::n_threads, -1),
        refused(&E::adapters, &use).with([](E& p) { p.n_adapters = 1; }),
        refused(&E::n_adapters, std::size_t{1})},
       made(weft_embedder_params_init), length);
}

TEST(CParameters, OfModelsAndChatsActOrAreRefused) {
  using P = weft_model_params;
  static const char* const unknown[] = {"nothing of this name"};
  static const char* const second[] = {"second=cpu"};
  static const float shares[] = {0.0f, -1.0f};
  static const weft_pin pin = {"output", "nothing"};
  static const weft_margin margin = {"second", std::uint64_t{1} << 60};
  static const weft_adapter_file adapter = {"nothing", nullptr};
  static const weft_control_vector vector = {"nothing", 1.0};
  const auto loaded = [](const P& params) { return load(&params) != nullptr; };
  walk({refused(&P::struct_size, 3),
        refused(&P::n_threads, -1),
        refused(&P::n_gpu_layers, -2),
        refused(&P::devices, unknown).with([](P& p) { p.n_devices = 1; }),
        refused(&P::n_devices, std::size_t{1}),
        refused(&P::shares, shares).with([](P& p) { p.n_shares = 2; }),
        refused(&P::n_shares, std::size_t{1}),
        refused(&P::pins, &pin).with([](P& p) { p.n_pins = 1; }),
        refused(&P::n_pins, std::size_t{1}),
        refused(&P::adapters, &adapter).with([](P& p) { p.n_adapters = 1; }),
        refused(&P::n_adapters, std::size_t{1}),
        refused(&P::control_vectors, &vector).with([](P& p) { p.n_control_vectors = 1; }),
        refused(&P::n_control_vectors, std::size_t{1}),
        refused(&P::first_control_layer, 1),
        refused(&P::last_control_layer, 1),
        refused(&P::n_cpu_moe, -1),
        refused(&P::n_ctx, -1),
        refused(&P::n_sequences, 0),
        refused(&P::n_ubatch, 0),
        unseen(&P::pack_cache, "the second start"),
        refused(&P::pre_tokenizer, "gpt-2"),
        unseen(&P::chat_template, "of chats (test_model.c)"),
        refused(&P::progress, [](float, void*) { return false; }),
        unseen(&P::progress_data, "given to it (test_model.c)"),
        unseen(&P::split_rows, "of several devices"),
        unseen(&P::experts_on_cpu, "of models with experts"),
        unseen(&P::fit, "of devices whose memory is too small"),
        unseen(&P::repack, "the same results, slower"),
        refused(&P::fit_margin, std::uint64_t{1} << 60).with([](P& p) {
          p.devices = second;
          p.n_devices = 1;
          p.n_gpu_layers = 1;
        }),
        refused(&P::n_ctx_min, -1),
        refused(&P::margins, &margin).with([](P& p) {
          p.devices = second;
          p.n_devices = p.n_margins = 1;
          p.n_gpu_layers = 1;
        }),
        refused(&P::n_margins, std::size_t{1}),
        unseen(&P::pack_cache_bytes, "what the folder keeps"),
        refused(&P::n_source, -1),
        refused(&P::k_type, 10),
        refused(&P::v_type, -1)},
       made(weft_model_params_init), loaded);

  using C = weft_chat_params;
  const Handle<weft_model> model = load(nullptr, WEFT_TEST_DATA "/golden_sources/t5/model.gguf");
  const auto text_of = [&](const C& params) {
    Checked check;
    const weft_chat_message message = {"user", "hello"};
    char* text = nullptr;
    check(weft_model_apply_chat_template(model.get(), &message, params.messages_json == nullptr ? 1 : 0,
                                         &params, &text, nullptr, nullptr, &check.error));
    const std::string made_text = text;
    weft_free(text);
    return made_text;
  };
  walk({refused(&C::struct_size, 3), both(&C::messages_json, R"([{"role": "user", "content": "bye"}])", "{"),
        refused(&C::tools_json, "{"), refused(&C::variables_json, "{"),
        unseen(&C::add_generation_prompt, "this template has none (test_model.c)")},
       made(weft_chat_params_init), text_of);
}

TEST(CParameters, OfTurnsActOrAreRefused) {
  using P = weft_chat_turn;
  weft_model_params params = made(weft_model_params_init);
  params.chat_template =
      "{{ messages[-1].content }}{{ tools }}{{ x }}{{ reasoning_effort }}{{ enable_thinking }}"
      "{% if add_generation_prompt %}:{% endif %}";
  const Handle<weft_model> model = load(&params);
  const auto prompt = [&](const P& turn) {
    Checked check;
    const Handle<weft_chat> chat(check(weft_chat_open(model.get(), &turn, &check.error)), weft_chat_free);
    std::size_t n = 0;
    const weft_token* const tokens = check(weft_chat_tokens(chat.get(), &n, &check.error));
    return std::vector<weft_token>(tokens, tokens + n);
  };
  P start = made(weft_chat_turn_init);
  start.messages_json = R"([{"role": "user", "content": "hi"}])";
  constexpr const char* kTool =
      R"([{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}])";
  walk({refused(&P::struct_size, 3), both(&P::messages_json, R"([{"role": "user", "content": "bye"}])", "{"),
        both(&P::tools_json, kTool, "{"), both(&P::variables_json, R"({"x": 1})", "{"),
        refused(&P::tool_name, "other").with([&](P& p) {
          p.tools_json = kTool;
          p.tool_choice = WEFT_TOOL_NAMED;
        }),
        both(&P::reasoning_effort, "high", "huge"),
        unseen(&P::reasoning_budget_message, "of the response (test_chat.c)"),
        unseen(&P::content_grammar, "of the response (test_chat.c)"), refused(&P::tool_choice, 4),
        acts(&P::reasoning_budget, 0), refused(&P::parallel_tool_calls, 2),
        acts(&P::add_generation_prompt, false)},
       start, prompt);
}

}  // namespace
