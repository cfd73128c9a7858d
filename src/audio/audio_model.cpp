#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <utility>

#include "audio/encoder.h"
#include "audio/spectrogram.h"
#include "base/to_size.h"
#include "encoders/content_cache.h"
#include "encoders/fit.h"
#include "encoders/media_ids.h"
#include "weft/audio.h"
#include "weft/error.h"
#include "weft/plan.h"

namespace weft {
namespace {

gguf::File open_checked(const std::filesystem::path& path) {
  gguf::File file = gguf::File::open(path);
  if (!encoders::has_encoder(file, "audio"))
    throw Error(ErrorCode::kUnsupported, path.string() +
                                             " has no audio encoder; give the model's mmproj file, which "
                                             "llama.cpp's converter writes with --mmproj");
  return file;
}

Devices devices_of(const AudioParams& params) {
  return params.registry ? open_devices(*params.registry, params.devices) : open_devices(params.devices);
}

}  // namespace

struct AudioModel::Impl {
  struct Built {
    Graph graph;
    std::vector<encoders::TransformerBuilder::OwnWeight> own;
  };
  static Built build(const WeightFile& weights, const audio::HParams& hparams, const audio::Family& family) {
    constexpr encoders::LayerKind kWhisper = {.k_bias = false};
    Built built;
    encoders::TransformerBuilder builder(built.graph, weights, hparams, kWhisper);
    encoders::build_of_file([&] {
      built.graph.output("embeddings", audio::encode(builder, hparams, family).named("embeddings"));
    });
    builder.check_all_used({"a.", "mm.a."}, {});
    built.own = builder.take_own_weights();
    return built;
  }

  Impl(const std::filesystem::path& path, const AudioParams& params)
      : Impl(open_checked(path), WeightFile(path), params, devices_of(params)) {}
  Impl(const gguf::File& file, const WeightFile& weights, const AudioParams& params, const Devices& devices)
      : family(audio::find_family(encoders::projector_of(file, "audio"))),
        hparams(audio::read_hparams(file, weights, family)),
        built(build(weights, hparams, family)),
        plan(built.graph, devices, {.n_threads = params.n_threads}),
        spectrogram(hparams.n_mels, hparams.n_frames(), devices, {.n_threads = params.n_threads}),
        cache(params.cache_bytes) {
    plan.set_weights(weights);
    for (const auto& own : built.own) plan.set_weight(own.name, own.bytes);
    info = {.name = hparams.name,
            .projector = hparams.projector,
            .text_models = {family.text_models.begin(), family.text_models.end()},
            .n_embd = hparams.n_embd,
            .n_mels = hparams.n_mels,
            .n_layers = hparams.n_layers,
            .max_rows = hparams.n_rows(),
            .part_seconds = static_cast<double>(part_samples()) / Audio::kSampleRate};
  }

  std::size_t part_samples() const { return to_size(hparams.n_frames()) * audio::kHop; }

  /// Rows of a part, at most part_samples.
  std::vector<float> compute(std::span<const float> samples) {
    const std::vector<float> mels = spectrogram.compute(samples);
    const auto n_all = to_size(hparams.n_positions);
    std::size_t n_seen = n_all;
    if (!family.sees_silence) {
      const std::size_t n_frames = (samples.size() + audio::kHop - 1) / audio::kHop;
      const std::size_t least = hparams.whole_stacks ? to_size(hparams.stacked) : 1;
      n_seen = std::clamp<std::size_t>((n_frames + 1) / 2, least, n_all);
    }
    const std::vector<std::int32_t> begins(n_all, 0), ends(n_all, static_cast<std::int32_t>(n_seen));
    std::vector<float> heard(n_all, 1.0f);
    std::fill(heard.begin() + static_cast<std::ptrdiff_t>(n_seen), heard.end(), 0.0f);
    std::vector<Plan::InputData> inputs = {{"mels", mels}, {"begins", begins}, {"ends", ends}};
    if (!hparams.whole_stacks) inputs.push_back({"heard", heard});
    plan.run({}, inputs);
    std::vector<float> rows = plan.read("embeddings");
    rows.resize(to_size(hparams.n_rows(static_cast<int>(n_seen))) * to_size(hparams.n_embd));
    return rows;
  }

  std::shared_ptr<EncodedMedia> encode(std::span<const float> samples, const std::function<bool()>& goes_on) {
    auto encoded = std::make_shared<EncodedMedia>();
    encoded->n_embd = hparams.n_embd;
    encoded->pieces.push_back({std::string(family.before), 0});
    for (std::size_t at = 0; at < samples.size(); at += part_samples()) {
      if (goes_on && !goes_on()) throw Error(ErrorCode::kCancelled, "the audio encoding was cancelled");
      const std::vector<float> rows =
          compute(samples.subspan(at, std::min(part_samples(), samples.size() - at)));
      encoded->pieces.push_back({"", static_cast<int>(rows.size()) / hparams.n_embd});
      encoded->rows.insert(encoded->rows.end(), rows.begin(), rows.end());
    }
    encoded->pieces.push_back({std::string(family.behind), 0});
    std::erase_if(encoded->pieces, [](const auto& piece) { return piece.text.empty() && piece.n_rows == 0; });
    return encoded;
  }

  const audio::Family& family;
  const audio::HParams hparams;
  Built built;
  AudioInfo info;

  std::mutex mutex;  // Of all below.
  Plan plan;
  audio::Spectrogram spectrogram;
  encoders::ContentCache cache;
  std::int64_t n_computed = 0, n_found = 0;
};

AudioModel::AudioModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AudioModel::~AudioModel() = default;

std::shared_ptr<const AudioModel> AudioModel::load(const std::filesystem::path& path,
                                                   const AudioParams& params) {
  return std::shared_ptr<const AudioModel>(new AudioModel(std::make_unique<Impl>(path, params)));
}

const AudioInfo& AudioModel::info() const { return impl_->info; }

void AudioModel::check_fits(std::string_view architecture, int n_embd_input) const {
  const AudioInfo& info = impl_->info;
  encoders::check_fits({"audio", info.name, info.projector, info.text_models, info.n_embd}, architecture,
                       n_embd_input);
}

std::int64_t AudioModel::n_computed() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->n_computed;
}

std::int64_t AudioModel::n_found() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->n_found;
}

std::shared_ptr<const EncodedMedia> AudioModel::encode(const Audio& sound,
                                                       const std::function<bool()>& goes_on) const {
  const std::vector<float>& samples = sound.samples;
  if (samples.empty() || std::ssize(samples) > Audio::kMaxSamples ||
      !std::all_of(samples.begin(), samples.end(), [](float x) { return std::isfinite(x); }))
    throw Error(ErrorCode::kInvalidArgument,
                "an audio clip must have 1 to " + std::to_string(Audio::kMaxSamples) +
                    " finite samples; this one has " + std::to_string(samples.size()));
  const auto bytes = std::as_bytes(std::span(samples));
  const std::scoped_lock lock(impl_->mutex);
  if (std::shared_ptr<const EncodedMedia> found = impl_->cache.find(bytes)) {
    ++impl_->n_found;
    return found;
  }
  std::shared_ptr<EncodedMedia> encoded = impl_->encode(samples, goes_on);
  const auto n_parts = static_cast<std::int32_t>(std::count_if(
      encoded->pieces.begin(), encoded->pieces.end(), [](const auto& piece) { return piece.n_rows > 0; }));
  encoded->id = encoders::take_media_ids(n_parts);
  ++impl_->n_computed;
  impl_->cache.add({bytes.begin(), bytes.end()}, encoded);
  return encoded;
}

}  // namespace weft
