// Gemma 3: a SigLIP encoder over the whole image, whose patches are averaged to 256 rows.
#include "vision/family.h"
#include "vision/resize.h"

namespace weft::vision {
namespace {

constexpr std::string_view kGemma3TextModels[] = {"gemma3"};

Layout lay_out_gemma3(const HParams& h, const Image& image) {
  Layout layout;
  layout.tiles.push_back(resize(image, h.image_size, h.image_size, Filter::kBilinear));
  layout.pieces = {{"\n\n<start_of_image>", 0}, {"", h.max_rows()}, {"<end_of_image>\n\n", 0}};
  return layout;
}

Value project_gemma3(EncoderBuilder& b, Value x) {
  const HParams& h = b.hparams();
  const Value squares = reshape(x, {b.n_rows(), std::int64_t{h.merge} * h.merge, h.width});
  const Value pooled = rms_norm(mean(squares, {1}), b.weight("mm.soft_emb_norm.weight", {h.width}), h.eps);
  return linear(pooled, b.turned_weight("mm.input_projection.weight", h.n_embd, h.width));
}

}  // namespace

constinit const Family kGemma3 = {.projector = "gemma3",
                                  .text_models = kGemma3TextModels,
                                  .both_ways = true,
                                  .merge = 4,
                                  .keeps_shape = false,
                                  .encoder = {},
                                  .lay_out = lay_out_gemma3,
                                  .project = project_gemma3};

}  // namespace weft::vision
