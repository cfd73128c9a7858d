// Each field of the public parameters has an effect, or its wrong values are refused.
#include <cmath>

#include "engine/batcher_testing.h"
#include "engine/error_testing.h"
#include "engine/parameters_testing.h"
#include "text/vocabulary_testing.h"
#include "weft/embedder.h"
#include "weft/service.h"

namespace weft {
namespace {

using test::acts;
using test::both;
using test::golden;
using test::refused;
using test::Script;
using test::unseen;
using test::walk;

const float kNan = std::nanf("");

/// Numbers as a string, for comparisons.
template <typename... T>
std::string joined(const T&... values) {
  std::string text;
  ((text += std::to_string(values) + " "), ...);
  return text;
}
std::string listed(std::span<const Token> tokens) {
  std::string text;
  for (const Token token : tokens) text += std::to_string(token) + " ";
  return text;
}

TEST(Parameters, OfSamplersActOrAreRefused) {
  using P = SamplerParams;
  const Tokenizer tokenizer(text::bpe_vocabulary({}));
  std::vector<float> logits(256);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = 4.0f / static_cast<float>(1 + i % 16);
  const auto drawn = [&](const P& params) {
    Sampler sampler(params, tokenizer);
    std::vector<Token> text;
    for (int i = 0; i < 200; ++i) {
      text.push_back(sampler.sample(logits));
      sampler.accept(text.back());
    }
    return listed(text);
  };
  P start;
  start.seed = 1;
  start.temperature = 1.0f;
  start.top_k = 0;
  start.top_p = 1.0f;
  start.min_p = 0.0f;
  const auto dry = [](P& p) {
    p.dry_multiplier = 0.5f;
    p.dry_allowed_length = 0;
    p.top_k = 4;
  };
  const auto mirostat = [](P& p) { p.mirostat = 2; };
  const auto xtc = [](P& p) { p.xtc_probability = 1.0f, p.xtc_threshold = 0.001f; };
  const auto dynamic = [](P& p) { p.dynamic_temperature_range = 0.5f; };
  const auto penalty = [](P& p) { p.repetition_penalty = 2.0f; };
  walk({acts(&P::seed, 2),
        both(&P::temperature, 0.3f, kNan),
        both(&P::dynamic_temperature_range, 0.5f, -1.0f),
        both(&P::dynamic_temperature_exponent, 3.0f, -1.0f).with(dynamic),
        acts(&P::top_k, 2),
        both(&P::top_p, 0.3f, 1.5f),
        both(&P::min_p, 0.5f, kNan),
        both(&P::typical_p, 0.2f, 2.0f),
        both(&P::top_n_sigma, 0.5f, kNan),
        both(&P::xtc_probability, 0.0f, 2.0f).with(xtc),
        both(&P::xtc_threshold, 0.4f, -1.0f).with(xtc),
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
        both(&P::dry_breakers, std::vector<std::string>{std::string(1, '\0')}, std::vector<std::string>{""})
            .with(dry),
        both(&P::logit_bias, {{3, 100.0f}}, {{256, 1.0f}}),
        both(&P::steps, {}, {static_cast<SamplerStep>(99)}).with([](P& p) { p.top_k = 2; })},
       start, drawn);
}

/// What a generation did.
std::string generated(const GenerateParams& given, int n_ctx = 64) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = n_ctx, .n_threads = 1});
  Sampler sampler({.temperature = 0.0f}, model->tokenizer());
  GenerateParams params = given;
  const std::vector<Token> prompt = {1, 30, 31, 32};
  if (params.n_predict < 0 && params.context_shift) params.n_predict = 200;
  const Generation g = generate(context, sampler, prompt, params);
  return g.text + "|" + listed(g.tokens) + joined(static_cast<int>(g.stop), g.n_decoded) +
         joined(static_cast<std::int64_t>(context.plan_stats().steps));
}

TEST(Parameters, OfGenerationsActOrAreRefused) {
  using P = GenerateParams;
  const auto model = golden("llama");
  const Token control = model->tokenizer().bos();
  Script script({40, control, 41, 42, 43, 44, 45, 46});
  const P start = {.n_predict = 8, .ignore_end = true};
  const std::string text = model->tokenizer().decode(std::vector<Token>{41});
  const auto scripted = [&](P& p) {
    p.n_predict = 4;
    p.constraint = &script;
  };
  const auto shifts = [](P& p) {
    p.n_predict = -1;
    p.context_shift = true;
  };
  const auto result = [&](const P& p) {
    script = Script({40, control, 41, 42, 43, 44, 45, 46});
    return generated(p);
  };
  walk({refused(&P::parts, {EmbeddedPart{.first = 0, .n = 2}}), refused(&P::n_skipped, 1),
        acts(&P::n_predict, 3), unseen(&P::ignore_end, "below: the sampler must want an end"),
        both(&P::stop, {text}, {""}).with(scripted),
        acts(&P::context_shift, true).with([](P& p) { p.n_predict = 200; }),
        both(&P::n_keep, 40, 63).with(shifts), acts(&P::constraint, &script),
        acts(&P::special, true).with(scripted), both(&P::n_chunk, 1, -1),
        acts(&P::on_text, [](std::string_view) { return false; }),
        acts(&P::on_prefill, [](int) { return false; })},
       start, result);
  SamplerParams ends;
  for (const Token token : model->tokenizer().end_tokens()) ends.logit_bias.emplace_back(token, 1000.0f);
  for (const bool ignore_end : {false, true}) {
    Context context(model, {.n_ctx = 64, .n_threads = 1});
    Sampler sampler(ends, model->tokenizer());
    const Generation g = generate(context, sampler, {1, 2}, {.n_predict = 3, .ignore_end = ignore_end});
    EXPECT_EQ(g.tokens.size(), ignore_end ? 3u : 0u);
  }
}

/// The outputs of a request and of another one, in their order.
std::string served(const RequestParams& given, const BatcherParams& how = {}, int n_other = 3) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 256, .n_sequences = 4, .n_threads = 1});
  Batcher batcher(context, how);
  std::string told;
  const auto tell = [&](const Output& output) {
    told += std::to_string(output.request) + ":" + std::string(output.text) + "|";
    for (const OutputToken& token : output.tokens)
      told += joined(token.id, token.logprob, static_cast<int>(token.top.size()));
    for (const OutputToken& token : output.prompt)
      told += joined(token.id, token.logprob, static_cast<int>(token.top.size()));
    told += joined(static_cast<int>(output.embedding.size()), static_cast<int>(output.done),
                   static_cast<int>(output.stop), output.completion, output.stats.n_drafted,
                   output.stats.n_cached);
    return true;
  };
  RequestParams other{.n_predict = n_other, .ignore_end = true, .on_output = tell};
  other.sampler.temperature = 0.0f;
  batcher.submit({5, 6, 5, 6, 5}, other);
  RequestParams params = given;
  if (!params.on_output) params.on_output = tell;
  batcher.submit({5, 6, 5, 6, 5, 6}, params);
  batcher.run();
  return told;
}

TEST(Parameters, OfRequestsActOrAreRefused) {
  using P = RequestParams;
  const auto model = golden("llama");
  const Tokenizer& tokenizer = model->tokenizer();
  const Token control = tokenizer.bos(), end = tokenizer.end_tokens()[0];
  const std::vector<Token> script = {40, control, 41, 42, end};
  P start = {.n_predict = 5};
  start.sampler.temperature = 0.0f;
  const auto scripted = [&](P& p) { p.constraint = Script::writes(script); };
  const auto shifts = [](P& p) {
    p.n_predict = 100, p.n_ctx = 32;
    p.ignore_end = p.context_shift = true;
  };
  SamplerParams banned = start.sampler, wrong = start.sampler;
  for (const Token token : tokenizer.end_tokens()) banned.logit_bias.emplace_back(token, 1000.0f);
  wrong.top_p = 2.0f;
  const auto ends = [&](P& p) { p.sampler = banned; };
  const auto result = [&](const P& p) {
    BatcherParams how = {.speculation = Speculation::kNgram, .adapt_drafts = false};
    how.n_running = 1;  // So that one waits for the other.
    return served(p, how);
  };
  walk({refused(&P::parts, {EmbeddedPart{.first = 0, .n = 2}}),
        both(&P::sampler, banned, wrong),
        both(&P::n, 2, 0),
        acts(&P::n_predict, 3).with(scripted),
        acts(&P::ignore_end, true).with(ends),
        both(&P::n_min, 3, 6).with(ends),
        acts(&P::special, true).with(scripted),
        both(&P::stop, {tokenizer.decode(std::vector<Token>{41})}, {""}).with(scripted),
        both(&P::n_shown_stops, 1, 2).with([&](P& p) {
          scripted(p);
          p.stop = {tokenizer.decode(std::vector<Token>{41})};
        }),
        both(&P::stop_tokens, {41}, {-1}).with(scripted),
        unseen(&P::banned_strings, "strings that the model would write; see BannedStrings"),
        acts(&P::reuse_prefix, false),
        unseen(&P::snapshot_at, "sequences of this model can be cut anywhere; see PromptSnapshots"),
        both(&P::pooling, Pooling::kMean, Pooling::kCls),
        both(&P::n_logprobs, 2, 5000),
        acts(&P::prompt_logprobs, true),
        acts(&P::priority, 1000),
        refused(&P::queue_timeout_ms, -1.0),
        refused(&P::first_token_timeout_ms, std::nan("")),
        refused(&P::timeout_ms, -1.0),
        acts(&P::context_shift, true).with([&](P& p) { shifts(p), p.context_shift = false; }),
        both(&P::n_keep, 20, 31).with(shifts),
        both(&P::n_ctx, 8, -1).with([](P& p) { p.n_predict = 20, p.ignore_end = true; }),
        acts(&P::speculate, false).with([](P& p) { p.n_predict = 40, p.ignore_end = true; }),
        refused(&P::adapters, std::vector<AdapterUse>{{0, 1.0f}}),
        acts(&P::constraint, Script::writes(script)),
        acts(&P::on_output, [](const Output&) { return false; })},
       start, result);
}

TEST(Parameters, OfBatchersActOrAreRefused) {
  using P = BatcherParams;
  using L = BatcherLimits;
  RequestParams request{.n_predict = 40, .ignore_end = true};
  request.sampler.temperature = 0.0f;
  request.sampler.logit_bias = {{40, 1000.0f}};  // What repeats can be drafted.
  const auto model = golden("llama");
  const auto draft =
      std::make_shared<Context>(model, ContextParams{.n_ctx = 256, .n_sequences = 4, .n_threads = 1});
  int n_steps = 0, n_drafted = 0;
  const P start = {.adapt_drafts = false, .on_step = [&](const StepRecord& record) {
                     ++n_steps;
                     n_drafted += record.n_drafted;
                   }};
  const auto result = [&](const P& p) {
    n_steps = n_drafted = 0;
    const std::string told = served(request, p);
    return told + joined(n_steps, n_drafted);
  };
  const auto ngram = [](P& p) { p.speculation = Speculation::kNgram; };
  L none_waits;
  none_waits.n_waiting = -1;
  walk({both(&P::n_running, 1, -1), both(&P::n_step_tokens, 1, -1), refused(&P::max_step_ms, 0.0),
        refused(&P::max_pause_ms, std::nan("")), refused(&P::limits, none_waits),
        acts(&P::reuse_prefixes, false).with([](P& p) { p.n_running = 1; }), refused(&P::n_snapshots, -1),
        refused(&P::snapshot_bytes, std::int64_t{-1}),
        unseen(&P::tiers, "prefixes that were evicted; see CacheTiers"),
        both(&P::speculation, Speculation::kNgram, Speculation::kModel), both(&P::n_draft, 1, -1).with(ngram),
        refused(&P::n_draft_branches, 0),
        unseen(&P::adapt_drafts, "drafts are as many as pay, which is a matter of time"),
        acts(&P::on_step, [](const StepRecord&) {}),
        unseen(&P::draft, "below: it comes and goes with speculation")},
       start, result);
  P by_model = start;
  by_model.speculation = Speculation::kModel;
  by_model.draft = draft;
  EXPECT_NE(result(start), result(by_model));
  Context context(model, {.n_ctx = 256, .n_sequences = 4, .n_threads = 1});
  test::expect_error(ErrorCode::kInvalidArgument, "BatcherParams::draft",
                     [&] { Batcher(context, {.speculation = Speculation::kModel}); });
  test::expect_error(ErrorCode::kInvalidArgument, "n_draft is -1, expected 0 to 64",
                     [&] { Batcher(context, {.n_draft = -1}); });
  test::expect_error(ErrorCode::kInvalidArgument, "kMediaToken at 1",
                     [&] { Batcher(context).submit({1, kMediaToken}, {}); });
  EXPECT_THROW(Batcher(context, {.draft = draft}), Error) << "a draft that nothing asks";
  EXPECT_THROW(Batcher(context, {.speculation = static_cast<Speculation>(7)}), Error);
}

TEST(Parameters, OfQueuesAndServicesActOrAreRefused) {
  using L = BatcherLimits;
  const auto model = golden("llama");
  const auto result = [&](const L& limits) {
    Context context(model, {.n_ctx = 256, .n_sequences = 2, .n_threads = 1});
    Batcher batcher(context, {.limits = limits});
    std::string taken;
    for (const int n : {1, 2, 3}) try {
        batcher.submit({1, 2, 3, 4}, {.n = n, .n_predict = 1, .stop = {"aa", "bb"}});
        taken += "taken ";
      } catch (const Error&) {
        taken += "refused ";
      }
    return taken;
  };
  walk({both(&L::n_waiting, 1, -1), both(&L::n_waiting_tokens, 5, -1), both(&L::n_completions, 2, 0),
        both(&L::n_request_tokens, 9, 0), both(&L::n_stops, 1, -1), acts(&L::stop_bytes, std::size_t{3})},
       L{}, result);

  using S = ServiceParams;
  const auto paused = [&](const S& params) {
    Service service(Context(model, {.n_ctx = 256, .n_sequences = 2, .n_threads = 1}), params);
    Response response = service.submit({1, 2, 3}, {.n_predict = 30, .ignore_end = true});
    std::size_t most = 0;
    for (Output chunk; response.next(chunk);) most = std::max(most, chunk.tokens.size());
    return most;
  };
  BatcherParams wrong;
  wrong.n_running = -1;
  walk({refused(&S::batcher, wrong), refused(&S::n_unread, 0),
        unseen(&S::devices_lost, "asked when a step has failed (service_test.cpp)")},
       S{}, paused);
}

TEST(Parameters, OfContextsActOrAreRefused) {
  using P = ContextParams;
  const auto model = golden("llama");
  const std::vector<Token> text = test::prompt_of(40, 3);
  const auto result = [&](const P& params) {
    Context context(model, params);
    Batch batch;
    for (const Token token : text) batch.add(token, 0, {.logits = true});
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
    float sum = 0.0f;
    for (int i = 0; i < batch.size(); ++i) sum += context.logits(i)[7];
    return joined(sum, context.cache().cells_total(), context.params().n_sequences, context.params().n_best,
                  static_cast<int>(context.column_sums().size()),
                  static_cast<int>(context.plan_stats().steps));
  };
  const P start = {.n_ctx = 128, .n_threads = 1, .k_type = CacheType::kF32, .v_type = CacheType::kQ8_0};
  walk({both(&P::n_ctx, 64, -1), both(&P::n_sequences, 2, 0), both(&P::n_ubatch, 8, 0),
        refused(&P::n_source, -1), both(&P::n_outputs, 4, -1), refused(&P::n_threads, -1),
        both(&P::n_best, 3, -2), both(&P::k_type, CacheType::kQ8_0, static_cast<CacheType>(10)),
        both(&P::v_type, CacheType::kF32, static_cast<CacheType>(10)), acts(&P::rotate_cache, false),
        refused(&P::window_rewind, -2), refused(&P::state_rewind, -1), acts(&P::sum_columns, true),
        refused(&P::adapters, {{0, 1.0f}})},
       start, result);
  // Those that only some models have a use for.
  const auto rewound = [](int n) {
    Context context(golden("gemma3"), {.n_ctx = 512, .n_threads = 1, .window_rewind = n});
    return context.cache().cuts_anywhere();
  };
  EXPECT_NE(rewound(256), rewound(-1));
  Context reader(golden("t5"), {.n_ctx = 64, .n_source = 3, .n_threads = 1});
  EXPECT_THROW((void)reader.set_source(0, test::prompt_of(4, 3)), Error);
}

TEST(Parameters, OfEmbeddersActOrAreRefused) {
  using P = EmbedderParams;
  const auto model = golden("llama");
  const auto result = [&](const P& params) { return Embedder(model, params).max_tokens(); };
  walk({both(&P::n_tokens, 7, -1), refused(&P::n_threads, -1), refused(&P::adapters, {{0, 1.0f}})}, P{},
       result);
}

TEST(Parameters, OfModelsActOrAreRefused) {
  using P = ModelParams;
  using D = PlacementParams;
  const auto path = test::golden_dir() / "llama" / "model.gguf";
  const auto result = [&](const P& params) {
    const PlanReport plan = inspect_plan(path, params);
    std::string told;
    for (const PlanReport::Device& device : plan.devices)
      told += device.name + joined(static_cast<std::int64_t>(device.weights),
                                   static_cast<std::int64_t>(device.cache),
                                   static_cast<std::int64_t>(device.workspace));
    const auto model = Model::load(path, params);
    for (const AdapterInfo& adapter : model->adapters()) told += adapter.name;
    return told + joined(model->info().weights_mapped ? 1 : 0);
  };
  P start;
  D both_devices;
  both_devices.devices = {"cpu", "second=cpu"};
  start.placement = both_devices;
  const auto placed = [&](const D& placement) {
    P params;
    params.placement = placement;
    return result(params);
  };
  const auto one_device = [](D& p) { p.devices = {"cpu"}; };
  walk(
      {both(&D::devices, {"cpu"}, {"nothing of this name"}), both(&D::n_layers, 0, -2),
       both(&D::shares, {3.0f, 1.0f}, {1.0f, 1.0f, 1.0f}), acts(&D::split_rows, true),
       unseen(&D::experts_on_cpu, "of models with experts"),
       both(&D::pins, {{"output", "second"}}, {{"output", "nothing"}}),
       unseen(&D::fit, "of devices whose memory is too small"),
       unseen(&D::margins, "of devices whose memory is too small (fit_test.cpp)"), refused(&D::n_ctx_min, -1),
       both(&D::n_ctx, 2048, -1).with(one_device), both(&D::n_sequences, 64, 0).with(one_device),
       both(&D::n_ubatch, 64, 0).with(one_device), refused(&D::n_source, -1),
       acts(&D::k_type, CacheType::kF32).with(one_device), acts(&D::v_type, CacheType::kF32).with(one_device),
       both(&D::n_outputs, 512, -1).with(one_device), refused(&D::state_rewind, -1)},
      both_devices, placed);

  D wrong;
  wrong.n_layers = -5;
  walk({refused(&P::n_threads, -1), refused(&P::isa, static_cast<CpuIsa>(77)), refused(&P::placement, wrong),
        refused(&P::n_cpu_moe, -1), unseen(&P::registry, "which backends there are"), acts(&P::repack, false),
        unseen(&P::pack_cache, "the second start (packed_cache_test.cpp)"),
        unseen(&P::pack_cache_bytes, "what the folder keeps"), refused(&P::pre_tokenizer, "gpt-2"),
        unseen(&P::chat_template, "of chats, and what ends a turn (end_tokens_test.cpp)"),
        refused(&P::adapters, {{.path = "nothing"}}), refused(&P::control_vectors, {{.path = "nothing"}}),
        refused(&P::first_control_layer, 1), refused(&P::last_control_layer, 1),
        unseen(&P::placed, "before weights are loaded (fit_test.cpp)"),
        refused(&P::progress, [](float) { return false; })},
       P{}, result);
}

}  // namespace
}  // namespace weft
