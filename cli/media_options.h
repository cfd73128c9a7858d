#pragma once
// Options of what reads pictures and sounds, and what they become.
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "weft/audio.h"
#include "weft/vision.h"

namespace weft::cli {

void add_mmproj_option(CLI::App& app, std::string& mmproj, const std::string& group);
void add_image_option(CLI::App& app, std::vector<std::string>& images, const std::string& group);
void add_audio_option(CLI::App& app, std::vector<std::string>& sounds, const std::string& group);

/// What a model has beside it; null where it reads no pictures, or no sounds.
struct MediaModels {
  std::shared_ptr<const VisionModel> vision = nullptr;
  std::shared_ptr<const AudioModel> audio = nullptr;
};
/// Of the file that is named, else of the one that was fetched with the model's `file`; one of these that
/// weft cannot read costs a note. Throws Error, also where its rows are none of this model.
MediaModels load_media(const std::string& mmproj, const std::filesystem::path& file,
                       const ModelOptions& options, const Model& model, const Talk& talk);

/// A picture or a sound: its file as it is, to be saved with a conversation, and what the model reads.
struct MediaFile {
  bool is_sound = false;
  std::vector<std::byte> bytes = {};
  std::shared_ptr<const EncodedMedia> encoded = nullptr;
};
/// Throws Error kUnsupported without a model for it, kInvalidFile for what is none.
MediaFile encode_media(const MediaModels& models, std::vector<std::byte> bytes, bool is_sound);
/// The same of a file of the disk. Throws also kNotFound and kIo.
MediaFile read_media(const MediaModels& models, const std::string& file, bool is_sound);

/// Those of files: pictures, then sounds. Throws UsageError without a model for them.
std::vector<MediaFile> read_media_files(const MediaModels& models, const std::vector<std::string>& images,
                                        const std::vector<std::string>& sounds);

}  // namespace weft::cli
