#pragma once
// Options for images and audio.
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "options/options.h"
#include "weft/audio.h"
#include "weft/vision.h"

namespace weft::cli {

/// The value of --mmproj for no encoder.
inline constexpr std::string_view kNoMmproj = "none";

void add_mmproj_option(CLI::App& app, std::string& mmproj, const std::string& group);
void add_image_option(CLI::App& app, std::vector<std::string>& images, const std::string& group);
void add_audio_option(CLI::App& app, std::vector<std::string>& sounds, const std::string& group);

/// A model's encoders; null if it does not read images or audio.
struct MediaModels {
  std::shared_ptr<const VisionModel> vision = nullptr;
  std::shared_ptr<const AudioModel> audio = nullptr;
};
/// Loads the encoders from the file `mmproj`, or from the file downloaded with the model. A downloaded file
/// that weft cannot read only causes a note. Throws Error, also if the encoder's rows do not fit this model.
MediaModels load_media(const std::string& mmproj, const std::filesystem::path& file,
                       const ModelOptions& options, const Model& model, const Verbosity& talk);

/// An image or audio clip: the file's bytes, to be saved with a conversation, and the encoded rows.
struct MediaFile {
  bool is_audio = false;
  std::vector<std::byte> bytes = {};
  std::shared_ptr<const EncodedMedia> encoded = nullptr;
};
/// Throws Error kUnsupported without an encoder, kInvalidFile for an invalid file.
MediaFile encode_media(const MediaModels& models, std::vector<std::byte> bytes, bool is_audio);
/// The same for a file on disk. Throws also kNotFound and kIo.
MediaFile read_media(const MediaModels& models, const std::string& file, bool is_audio);

/// Reads and encodes files: images, then audio. Throws UsageError without an encoder for them.
std::vector<MediaFile> read_media_files(const MediaModels& models, const std::vector<std::string>& images,
                                        const std::vector<std::string>& sounds);

}  // namespace weft::cli
