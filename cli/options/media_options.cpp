#include "options/media_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "base/read_file.h"
#include "pull.h"
#include "weft/backend/registry.h"
#include "weft/error.h"

namespace weft::cli {

void add_mmproj_option(CLI::App& app, std::string& mmproj, const std::string& group) {
  app.add_option(
         "--mmproj", mmproj,
         "encoder of images and audio (GGUF); none: ignore the one that was downloaded with the model")
      ->type_name("FILE")
      ->group(group);
  app.add_flag_function(
         "--no-mmproj",
         [&mmproj](std::int64_t count) {
           if (count > 0) mmproj = kNoMmproj;
         },
         "the same as --mmproj none")
      ->group(group);
}

void add_image_option(CLI::App& app, std::vector<std::string>& images, const std::string& group) {
  add_repeated(app, "--image", images,
               "image to put before the prompt, PNG or JPEG; needs --mmproj; may be given again", "FILE")
      ->group(group);
}

void add_audio_option(CLI::App& app, std::vector<std::string>& sounds, const std::string& group) {
  add_repeated(app, "--audio", sounds,
               "audio to put before the prompt, WAV, FLAC, Ogg or MP3; needs --mmproj; may be given again",
               "FILE")
      ->group(group);
}

namespace {

MediaModels load_named(const std::filesystem::path& mmproj, const ModelOptions& options, const Model& model) {
  const PlacementParams placement = placement_params(options);
  std::vector<std::string> devices = placement.devices;
  const auto registry = find_all_backends();
  // Devices of this process only, as others may be lost.
  if (devices.empty()) devices = {"cpu"};
  if (placement.devices.empty() && placement.n_layers != 0)
    for (const DeviceInfo& gpu : registry->gpus())
      if (gpu.backend != "mpi") devices.push_back(gpu.name);
  const MediaKinds kinds = media_kinds(mmproj);
  MediaModels models;
  if (kinds.images) {
    models.vision =
        VisionModel::load(mmproj, {.devices = devices, .n_threads = options.n_threads, .registry = registry});
    models.vision->check_fits(model.info().architecture, model.info().n_embd_input);
  }
  if (kinds.audio) {
    models.audio =
        AudioModel::load(mmproj, {.devices = devices, .n_threads = options.n_threads, .registry = registry});
    models.audio->check_fits(model.info().architecture, model.info().n_embd_input);
  }
  return models;
}

}  // namespace

MediaModels load_media(const std::string& mmproj, const std::filesystem::path& file,
                       const ModelOptions& options, const Model& model, const Verbosity& talk) {
  if (mmproj == kNoMmproj) return {};
  if (!mmproj.empty()) return load_named(mmproj, options, model);
  const std::filesystem::path fetched = fetch::find_vision(file);
  if (fetched.empty()) return {};
  try {
    return load_named(fetched, options, model);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported && error.code() != ErrorCode::kInvalidArgument) throw;
    note(talk, fmt::format("weft: note: images and audio are not available: {}", error.what()));
    return {};
  }
}

MediaFile encode_media(const MediaModels& models, std::vector<std::byte> bytes, bool is_audio) {
  if (is_audio && models.audio == nullptr)
    throw Error(ErrorCode::kUnsupported, "audio needs the model's audio encoder; give it with --mmproj FILE");
  if (!is_audio && models.vision == nullptr)
    throw Error(ErrorCode::kUnsupported, "images need the model's image encoder; give it with --mmproj FILE");
  auto encoded =
      is_audio ? models.audio->encode(read_audio(bytes)) : models.vision->encode(read_image(bytes));
  return {is_audio, std::move(bytes), std::move(encoded)};
}

MediaFile read_media(const MediaModels& models, const std::string& file, bool is_audio) {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;
  std::vector<std::byte> bytes = base::read_file(file, kMaxBytes);
  try {
    return encode_media(models, std::move(bytes), is_audio);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", file, error.what()));
  }
}

std::vector<MediaFile> read_media_files(const MediaModels& models, const std::vector<std::string>& images,
                                        const std::vector<std::string>& sounds) {
  if (!images.empty() && models.vision == nullptr)
    throw UsageError("--image: the model needs its image encoder; give it with --mmproj FILE");
  if (!sounds.empty() && models.audio == nullptr)
    throw UsageError("--audio: the model needs its audio encoder; give it with --mmproj FILE");
  std::vector<MediaFile> media;
  for (const std::string& file : images) media.push_back(read_media(models, file, false));
  for (const std::string& file : sounds) media.push_back(read_media(models, file, true));
  return media;
}

}  // namespace weft::cli
