#include "options.h"

#include <nanobind/stl/map.h>

#include <array>
#include <map>
#include <string>

namespace weft::python {

namespace {

/// The option whose value is a member of a member.
template <auto kOuter, auto kInner>
constexpr Field<OwnerOf<kOuter>> inner(std::string_view name) {
  return {name,
          [](OwnerOf<kOuter>& into, nb::handle value) {
            auto& member = into.*kOuter.*kInner;
            member = nb::cast<std::remove_reference_t<decltype(member)>>(value);
          },
          [](const OwnerOf<kOuter>& from) { return nb::cast(from.*kOuter.*kInner); }};
}

/// A limit of a request, in seconds.
template <auto kMilliseconds>
constexpr Field<RequestOptions> seconds(std::string_view name) {
  return {name, [](RequestOptions& request, nb::handle value) {
            request.params.*kMilliseconds = nb::cast<double>(value) * 1000.0;
          }};
}

/// A limit of the cache tiers.
template <auto kMember>
constexpr Field<ServiceParams> of_tiers(std::string_view name) {
  return {name,
          [](ServiceParams& params, nb::handle value) {
            auto& member = params.batcher.tiers.*kMember;
            member = nb::cast<std::remove_reference_t<decltype(member)>>(value);
          },
          [](const ServiceParams& params) { return nb::cast(params.batcher.tiers.*kMember); }};
}

template <typename E>
E one_of(std::string_view option, nb::handle value,
         std::initializer_list<std::pair<std::string_view, E>> names) {
  const auto given = nb::cast<std::string>(value);
  std::string known;
  for (const auto& [name, meaning] : names) {
    if (name == given) return meaning;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  refuse(std::string(option) + " is '" + given + "'; it must be one of " + known);
}

CacheType cache_type(std::string_view option, nb::handle value) {
  return one_of<CacheType>(option, value,
                           {{"auto", CacheType::kAuto},
                            {"f32", CacheType::kF32},
                            {"f16", CacheType::kF16},
                            {"bf16", CacheType::kBF16},
                            {"q8_0", CacheType::kQ8_0},
                            {"q4_0", CacheType::kQ4_0},
                            {"q4_1", CacheType::kQ4_1},
                            {"q5_0", CacheType::kQ5_0},
                            {"q5_1", CacheType::kQ5_1},
                            {"iq4_nl", CacheType::kIQ4_NL}});
}

std::vector<AdapterUse> adapter_uses(nb::handle value) {
  std::vector<AdapterUse> uses;
  for (const auto& [adapter, scale] : nb::cast<std::vector<std::pair<int, float>>>(value))
    uses.push_back({.adapter = adapter, .scale = scale});
  return uses;
}

}  // namespace

std::span<const Field<ModelParams>> model_fields() {
  using M = ModelParams;
  using P = PlacementParams;
  static constexpr std::array kFields = {
      field<&M::n_threads>("n_threads"),
      inner<&M::placement, &P::n_layers>("n_gpu_layers"),
      inner<&M::placement, &P::devices>("devices"),
      inner<&M::placement, &P::shares>("tensor_split"),
      inner<&M::placement, &P::split_rows>("split_rows"),
      inner<&M::placement, &P::experts_on_cpu>("cpu_moe"),
      field<&M::n_cpu_moe>("n_cpu_moe"),
      Field<M>{"pins",
               [](M& params, nb::handle value) {
                 for (auto& [pattern, device] :
                      nb::cast<std::vector<std::pair<std::string, std::string>>>(value))
                   params.placement.pins.push_back({.pattern = pattern, .device = device});
               }},
      inner<&M::placement, &P::fit>("fit"),
      Field<M>{"fit_margin",
               [](M& params, nb::handle value) {
                 if (!nb::isinstance<nb::dict>(value)) {
                   params.placement.margins.push_back({.bytes = nb::cast<std::uint64_t>(value)});
                   return;
                 }
                 for (const auto& [device, bytes] : nb::cast<std::map<std::string, std::uint64_t>>(value))
                   params.placement.margins.push_back({.device = device, .bytes = bytes});
               }},
      inner<&M::placement, &P::n_ctx_min>("n_ctx_min"),
      Field<M>{"k_type",
               [](M& params, nb::handle value) { params.placement.k_type = cache_type("k_type", value); }},
      Field<M>{"v_type",
               [](M& params, nb::handle value) { params.placement.v_type = cache_type("v_type", value); }},
      inner<&M::placement, &P::n_ctx>("n_ctx"),
      inner<&M::placement, &P::n_sequences>("n_sequences"),
      inner<&M::placement, &P::n_ubatch>("n_ubatch"),
      inner<&M::placement, &P::n_source>("n_source"),
      field<&M::repack>("repack"),
      field<&M::pack_cache>("pack_cache"),
      field<&M::pack_cache_bytes>("pack_cache_bytes"),
      field<&M::pre_tokenizer>("pre_tokenizer"),
      field<&M::chat_template>("chat_template"),
      Field<M>{"adapters",
               [](M& params, nb::handle value) {
                 for (const auto& path : nb::cast<std::vector<std::filesystem::path>>(value))
                   params.adapters.push_back({.path = path});
               }},
      Field<M>{"control_vectors",
               [](M& params, nb::handle value) {
                 for (const auto& [path, scale] :
                      nb::cast<std::vector<std::pair<std::filesystem::path, float>>>(value))
                   params.control_vectors.push_back({.path = path, .scale = scale});
               }},
      field<&M::first_control_layer>("first_control_layer"),
      field<&M::last_control_layer>("last_control_layer"),
  };
  return kFields;
}

std::span<const Field<ContextParams>> context_fields() {
  using C = ContextParams;
  static constexpr std::array kFields = {
      field<&C::n_ctx>("n_ctx"),
      field<&C::n_sequences>("n_sequences"),
      field<&C::n_ubatch>("n_ubatch"),
      field<&C::n_source>("n_source"),
      field<&C::n_outputs>("n_outputs"),
      field<&C::n_threads>("n_threads"),
      field<&C::n_best>("n_best"),
      Field<C>{"k_type", [](C& params, nb::handle value) { params.k_type = cache_type("k_type", value); }},
      Field<C>{"v_type", [](C& params, nb::handle value) { params.v_type = cache_type("v_type", value); }},
      field<&C::rotate_cache>("rotate_cache"),
      field<&C::window_rewind>("window_rewind"),
      field<&C::state_rewind>("state_rewind"),
      Field<C>{"use_adapters", [](C& params, nb::handle value) { params.adapters = adapter_uses(value); }},
  };
  return kFields;
}

std::span<const Field<ServiceParams>> service_fields() {
  using S = ServiceParams;
  using B = BatcherParams;
  static constexpr std::array kFields = {
      inner<&S::batcher, &B::n_running>("n_running"),
      inner<&S::batcher, &B::n_step_tokens>("n_step_tokens"),
      inner<&S::batcher, &B::max_step_ms>("max_step_ms"),
      inner<&S::batcher, &B::max_pause_ms>("max_pause_ms"),
      inner<&S::batcher, &B::reuse_prefixes>("reuse_prefixes"),
      inner<&S::batcher, &B::n_snapshots>("n_snapshots"),
      inner<&S::batcher, &B::snapshot_bytes>("snapshot_bytes"),
      of_tiers<&CacheTiers::ram_bytes>("cache_ram_bytes"),
      of_tiers<&CacheTiers::disk>("cache_disk"),
      of_tiers<&CacheTiers::disk_bytes>("cache_disk_bytes"),
      Field<S>{"speculation",
               [](S& params, nb::handle value) {
                 params.batcher.speculation = one_of<Speculation>("speculation", value,
                                                                  {{"none", Speculation::kNone},
                                                                   {"ngram", Speculation::kNgram},
                                                                   {"model", Speculation::kModel}});
               }},
      inner<&S::batcher, &B::n_draft>("n_draft"),
      inner<&S::batcher, &B::n_draft_branches>("n_draft_branches"),
      inner<&S::batcher, &B::adapt_drafts>("adapt_drafts"),
      Field<S>{"n_waiting",
               [](S& params, nb::handle value) { params.batcher.limits.n_waiting = nb::cast<int>(value); }},
      field<&S::n_unread>("n_unread"),
  };
  return kFields;
}

std::span<const Field<EmbedderParams>> embedder_fields() {
  using E = EmbedderParams;
  static constexpr std::array kFields = {
      field<&E::n_tokens>("n_tokens"),
      field<&E::n_threads>("n_threads"),
      Field<E>{"use_adapters", [](E& params, nb::handle value) { params.adapters = adapter_uses(value); }},
  };
  return kFields;
}

std::span<const Field<SamplerParams>> sampler_fields() {
  using S = SamplerParams;
  static constexpr std::array kFields = {
      field<&S::temperature>("temperature"),
      field<&S::top_k>("top_k"),
      field<&S::top_p>("top_p"),
      field<&S::min_p>("min_p"),
      field<&S::seed>("seed"),
      field<&S::repetition_penalty>("repetition_penalty"),
      field<&S::frequency_penalty>("frequency_penalty"),
      field<&S::presence_penalty>("presence_penalty"),
      field<&S::penalty_last_n>("penalty_last_n"),
      field<&S::typical_p>("typical_p"),
      field<&S::top_n_sigma>("top_n_sigma"),
      field<&S::xtc_probability>("xtc_probability"),
      field<&S::xtc_threshold>("xtc_threshold"),
      field<&S::dynamic_temperature_range>("dynamic_temperature_range"),
      field<&S::dynamic_temperature_exponent>("dynamic_temperature_exponent"),
      field<&S::mirostat>("mirostat"),
      field<&S::mirostat_tau>("mirostat_tau"),
      field<&S::mirostat_eta>("mirostat_eta"),
      field<&S::dry_multiplier>("dry_multiplier"),
      field<&S::dry_base>("dry_base"),
      field<&S::dry_allowed_length>("dry_allowed_length"),
      field<&S::dry_penalty_last_n>("dry_penalty_last_n"),
      Field<S>{"dry_breakers",
               [](S& params, nb::handle value) {
                 params.dry_breakers = nb::cast<std::vector<std::string>>(value);
               }},
      Field<S>{"logit_bias",
               [](S& params, nb::handle value) {
                 for (const auto& [token, bias] : nb::cast<std::map<Token, float>>(value))
                   params.logit_bias.emplace_back(token, bias);
               }},
      Field<S>{"samplers",
               [](S& params, nb::handle value) {
                 params.steps = parse_sampler_steps(nb::cast<std::string>(value));
               }},
  };
  return kFields;
}

std::span<const Field<RequestOptions>> request_fields() {
  using Q = RequestOptions;
  using R = RequestParams;
  static constexpr std::array kFields = {
      inner<&Q::params, &R::n_predict>("max_tokens"),
      inner<&Q::params, &R::n_min>("min_tokens"),
      inner<&Q::params, &R::ignore_end>("ignore_end"),
      inner<&Q::params, &R::special>("special"),
      Field<Q>{"stop",
               [](Q& request, nb::handle value) {
                 if (nb::isinstance<nb::str>(value))
                   request.params.stop = {nb::cast<std::string>(value)};
                 else
                   request.params.stop = nb::cast<std::vector<std::string>>(value);
               }},
      field<&Q::shows_stops>("include_stop_str_in_output"),
      Field<Q>{"stop_token_ids",
               [](Q& request, nb::handle value) {
                 request.params.stop_tokens = nb::cast<std::vector<Token>>(value);
               }},
      Field<Q>{"banned_strings",
               [](Q& request, nb::handle value) {
                 request.params.banned_strings = nb::cast<std::vector<std::string>>(value);
               }},
      Field<Q>{"bad_words",
               [](Q& request, nb::handle value) {
                 request.bad_words = nb::cast<std::vector<std::string>>(value);
               }},
      Field<Q>{"allowed_token_ids",
               [](Q& request, nb::handle value) {
                 request.allowed = nb::cast<std::vector<Token>>(value);
                 if (request.allowed.empty())
                   refuse("allowed_token_ids is empty: no token could be generated; leave it out");
               }},
      inner<&Q::params, &R::n_logprobs>("logprobs"),
      inner<&Q::params, &R::prompt_logprobs>("prompt_logprobs"),
      inner<&Q::params, &R::reuse_prefix>("reuse_prefix"),
      Field<Q>{"snapshot_at",
               [](Q& request, nb::handle value) {
                 request.params.snapshot_at = nb::cast<std::vector<int>>(value);
               }},
      inner<&Q::params, &R::priority>("priority"),
      seconds<&R::queue_timeout_ms>("queue_timeout"),
      seconds<&R::first_token_timeout_ms>("first_token_timeout"),
      seconds<&R::timeout_ms>("timeout"),
      inner<&Q::params, &R::context_shift>("context_shift"),
      inner<&Q::params, &R::n_keep>("n_keep"),
      inner<&Q::params, &R::speculate>("speculate"),
      Field<Q>{"use_adapters",
               [](Q& request, nb::handle value) { request.params.adapters = adapter_uses(value); }},
  };
  return kFields;
}

}  // namespace weft::python
