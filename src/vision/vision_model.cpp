#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "base/to_size.h"
#include "encoders/content_cache.h"
#include "encoders/fit.h"
#include "encoders/media_ids.h"
#include "vision/encoder_graph.h"
#include "vision/family.h"
#include "vision/patches.h"
#include "weft/error.h"
#include "weft/plan.h"
#include "weft/vision.h"

namespace weft {
namespace {

gguf::File open_checked(const std::filesystem::path& path) {
  gguf::File file = gguf::File::open(path);
  if (!encoders::has_encoder(file, "vision"))
    throw Error(ErrorCode::kUnsupported,
                path.string() +
                    " has no vision encoder; give the model's mmproj file, which llama.cpp's "
                    "converter writes with --mmproj");
  return file;
}

/// The bytes that identify an image: the tiles after their sizes, then the layout of the prompt's pieces.
std::vector<std::byte> content_of(const vision::Layout& layout) {
  std::vector<std::byte> content;
  const auto add = [&](auto values) {
    const auto bytes = std::as_bytes(values);
    content.insert(content.end(), bytes.begin(), bytes.end());
  };
  for (const Image& tile : layout.tiles) {
    const std::array size = {tile.width, tile.height};
    add(std::span(size));
    add(std::span(tile.rgb));
  }
  for (const EncodedMedia::Piece& piece : layout.pieces) {
    const std::array size = {piece.n_rows, piece.grid_width, static_cast<int>(piece.text.size())};
    add(std::span(size));
    add(std::span(piece.text));
  }
  return content;
}

Devices devices_of(const VisionParams& params) {
  return params.registry ? open_devices(*params.registry, params.devices) : open_devices(params.devices);
}

}  // namespace

struct VisionModel::Impl {
  struct Built {
    Graph graph;
    std::vector<encoders::TransformerBuilder::OwnWeight> own;
  };
  static Built build(const WeightFile& weights, const vision::HParams& hparams,
                     const vision::Family& family) {
    Built built;
    vision::EncoderBuilder builder(built.graph, weights, hparams, family.encoder);
    encoders::build_of_file([&] {
      const Value rows = builder.encode();
      built.graph.output("embeddings", family.project(builder, rows).named("embeddings"));
    });
    // The language model has its own rows for Pixtral's marks.
    builder.check_all_used({"v.", "mm."}, {"mm.a.", "v.token_embd."});
    built.own = builder.take_own_weights();
    return built;
  }

  Impl(const std::filesystem::path& path, const VisionParams& params)
      : Impl(open_checked(path), WeightFile(path), params) {}
  Impl(const gguf::File& file, const WeightFile& weights, const VisionParams& params)
      : family(vision::find_family(encoders::projector_of(file, "vision"))),
        hparams(vision::read_hparams(file, family.merge, family.keeps_shape)),
        built(build(weights, hparams, family)),
        plan(built.graph, devices_of(params), {.n_threads = params.n_threads}),
        cache(params.cache_bytes) {
    plan.set_weights(weights);
    for (const auto& own : built.own) plan.set_weight(own.name, own.bytes);
    info = {.name = hparams.name,
            .projector = hparams.projector,
            .text_models = {family.text_models.begin(), family.text_models.end()},
            .n_embd = hparams.n_embd_row(),
            .image_size = hparams.image_size,
            .patch_size = hparams.patch_size,
            .n_layers = hparams.n_layers,
            .max_rows = hparams.max_rows(),
            .both_ways = family.both_ways};
  }

  void compute(const Image& tile, std::vector<float>& rows) {
    const vision::Patches patches = vision::cut_into_patches(hparams, tile);
    const auto n = static_cast<std::int64_t>(patches.positions.size());
    const Plan::SymbolValue n_rows[] = {{"n_rows", n / (hparams.merge * hparams.merge)}};
    plan.run(n_rows, vision::inputs_of(patches, built.graph));
    const std::vector<float> some = plan.read("embeddings");
    const auto width = to_size(hparams.n_embd_row());
    const std::size_t first = rows.size();
    rows.resize(first + some.size());
    for (std::size_t i = 0; i < patches.row_places.size(); ++i)
      std::copy_n(some.data() + i * width, width,
                  rows.data() + first + to_size(patches.row_places[i]) * width);
  }

  const vision::Family& family;
  const vision::HParams hparams;
  Built built;
  VisionInfo info;

  std::mutex mutex;  // Of all below.
  Plan plan;
  encoders::ContentCache cache;
  std::int64_t n_computed = 0, n_found = 0;
};

VisionModel::VisionModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
VisionModel::~VisionModel() = default;

std::shared_ptr<const VisionModel> VisionModel::load(const std::filesystem::path& path,
                                                     const VisionParams& params) {
  return std::shared_ptr<const VisionModel>(new VisionModel(std::make_unique<Impl>(path, params)));
}

const VisionInfo& VisionModel::info() const { return impl_->info; }

void VisionModel::check_fits(std::string_view architecture, int n_embd_input) const {
  const VisionInfo& info = impl_->info;
  encoders::check_fits({"vision", info.name, info.projector, info.text_models, info.n_embd}, architecture,
                       n_embd_input);
}

std::int64_t VisionModel::n_computed() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->n_computed;
}

std::int64_t VisionModel::n_found() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->n_found;
}

std::shared_ptr<const EncodedMedia> VisionModel::encode(const Image& image,
                                                        const std::function<bool()>& goes_on) const {
  if (image.width < 1 || image.height < 1 || image.width > kMaxImageSide || image.height > kMaxImageSide ||
      image.rgb.size() != 3 * to_size(image.width) * to_size(image.height))
    throw Error(ErrorCode::kInvalidArgument, "an image of " + std::to_string(image.width) + " x " +
                                                 std::to_string(image.height) + " pixels has " +
                                                 std::to_string(image.rgb.size()) +
                                                 " bytes; expected are three per pixel, and sides of 1 to " +
                                                 std::to_string(kMaxImageSide));
  vision::Layout layout = impl_->family.lay_out(impl_->hparams, image);
  std::vector<std::byte> content = content_of(layout);
  const std::scoped_lock lock(impl_->mutex);
  if (std::shared_ptr<const EncodedMedia> found = impl_->cache.find(content)) {
    ++impl_->n_found;
    return found;
  }
  const auto n_parts = static_cast<std::int32_t>(std::count_if(
      layout.pieces.begin(), layout.pieces.end(), [](const auto& piece) { return piece.n_rows > 0; }));
  auto encoded = std::make_shared<EncodedMedia>();
  for (const Image& tile : layout.tiles) {
    if (goes_on && !goes_on()) throw Error(ErrorCode::kCancelled, "the image encoding was cancelled");
    impl_->compute(tile, encoded->rows);
  }
  encoded->pieces = std::move(layout.pieces);
  encoded->n_embd = impl_->info.n_embd;
  encoded->both_ways = impl_->family.both_ways;
  encoded->id = encoders::take_media_ids(n_parts);
  ++impl_->n_computed;
  impl_->cache.add(std::move(content), encoded);
  return encoded;
}

}  // namespace weft
