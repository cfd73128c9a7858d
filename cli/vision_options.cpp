#include "vision_options.h"

#include <fmt/format.h>

#include "weft/error.h"

namespace weft::cli {

void add_mmproj_option(CLI::App& app, std::string& mmproj, const std::string& group) {
  app.add_option("--mmproj", mmproj, "the model's vision file (mmproj, GGUF), to read pictures")
      ->type_name("FILE")
      ->group(group);
}

void add_image_option(CLI::App& app, std::vector<std::string>& images, const std::string& group) {
  app.add_option("--image", images,
                 "a picture in front of the text, PNG or JPEG; with --mmproj; may be given again")
      ->type_name("FILE")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false)
      ->group(group);
}

std::shared_ptr<const VisionModel> load_vision(const std::string& mmproj, const ModelOptions& options,
                                               const Model& model) {
  if (mmproj.empty()) return nullptr;
  const PlacementParams placement = placement_params(options);
  VisionParams params{
      .devices = placement.devices, .n_threads = options.n_threads, .registry = find_all_backends()};
  if (params.devices.empty() && placement.n_layers == 0) params.devices = {"cpu"};
  std::shared_ptr<const VisionModel> vision = VisionModel::load(mmproj, params);
  vision->check_fits(model.info().architecture, model.info().n_embd_input);
  return vision;
}

std::vector<std::shared_ptr<const EncodedImage>> encode_files(const VisionModel* vision,
                                                              const std::vector<std::string>& files) {
  if (!files.empty() && vision == nullptr)
    throw UsageError("pictures need the model's vision file: give it with --mmproj FILE");
  std::vector<std::shared_ptr<const EncodedImage>> images;
  for (const std::string& file : files) images.push_back(vision->encode(read_image_file(file)));
  return images;
}

}  // namespace weft::cli
