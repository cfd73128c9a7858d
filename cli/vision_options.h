#pragma once
// Options of what reads pictures, and what they become.
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "weft/vision.h"

namespace weft::cli {

void add_mmproj_option(CLI::App& app, std::string& mmproj, const std::string& group);
void add_image_option(CLI::App& app, std::vector<std::string>& images, const std::string& group);

/// Null where no file is named. Throws Error, also where its rows are none of this model.
std::shared_ptr<const VisionModel> load_vision(const std::string& mmproj, const ModelOptions& options,
                                               const Model& model);

/// The pictures of files. Throws UsageError without a vision model.
std::vector<std::shared_ptr<const EncodedImage>> encode_files(const VisionModel* vision,
                                                              const std::vector<std::string>& files);

}  // namespace weft::cli
