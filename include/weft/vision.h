#pragma once
// Images: reads files into pixels, and encodes pixels into embeddings that replace tokens of a prompt. The
// encoder is in an mmproj file, as llama.cpp's converter writes it.
//
//   auto encoder = weft::VisionModel::load("mmproj.gguf");
//   std::shared_ptr<const weft::EncodedMedia> media = encoder->encode(weft::read_image_file("a.png"));
//   auto prompt = weft::place_media(model->tokenizer(), pieces, {&media, 1}, mark);  // See weft/media.h.
//
// Pass prompt.tokens and prompt.parts to generate() or Batcher::submit.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/device.h"
#include "weft/media.h"

#pragma GCC visibility push(default)

namespace weft {

/// Pixels, row by row from the top left, three bytes each: red, green, blue.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb = {};
};

inline constexpr int kMaxImageSide = 16384;
inline constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 26;

/// Reads a PNG or JPEG file, rotates it by its EXIF data, and puts transparent pixels on white. The bytes are
/// untrusted: sizes are checked before memory is allocated. Throws Error kInvalidFile for a damaged or
/// truncated file, and kUnsupported for another format and beyond kMaxImageSide or kMaxImagePixels.
Image read_image(std::span<const std::byte> bytes);
/// The same for a file on disk. Throws also kNotFound and kIo.
Image read_image_file(const std::filesystem::path& path);

struct VisionParams {
  /// Device names, as for open_devices(). Empty: the CPU and all GPUs.
  std::vector<std::string> devices = {};
  int n_threads = 0;  ///< Host threads. 0: the number of cores.
  /// The most bytes of results that are cached, so that a repeated image is not encoded again.
  std::size_t cache_bytes = std::size_t{256} << 20;
  std::shared_ptr<const Registry> registry = nullptr;  ///< Null: load_backends().
};

struct VisionInfo {
  std::string name = {};
  std::string projector = {};  ///< clip.projector_type, "gemma3".
  /// The language models that it fits, by ModelInfo::architecture.
  std::vector<std::string> text_models = {};
  int n_embd = 0;      ///< Size of an embedding: n_embd_input of its language models.
  int image_size = 0;  ///< The training size of images: pixels per side.
  int patch_size = 0;
  int n_layers = 0;
  int max_rows = 0;  ///< The most embeddings of an EmbeddedPart (weft/embedded_part.h).
  /// Whether an image's embeddings attend to each other in both directions in the language model.
  bool both_ways = false;
};

/// Immutable after loading. Threads may share it; encode() calls run one after another.
class VisionModel {
 public:
  /// Loads the image encoder of an mmproj file. Throws Error kInvalidFile with the name of the wrong key or
  /// tensor, kUnsupported for an unknown projector, kNotFound, kIo, and errors of devices.
  static std::shared_ptr<const VisionModel> load(const std::filesystem::path& path,
                                                 const VisionParams& params = {});
  ~VisionModel();

  const VisionInfo& info() const;
  /// Throws Error kInvalidArgument unless it fits the language model, given by ModelInfo::architecture and
  /// ModelInfo::n_embd_input.
  void check_fits(std::string_view architecture, int n_embd_input) const;
  /// Encodes an image. Equal pixels give bit-identical embeddings. The calling thread calls `goes_on` before
  /// each part of a large image; returning false cancels (Error kCancelled). Throws Error kInvalidArgument
  /// for an image without pixels and if the size of `rgb` is not 3 * width * height, and errors of devices.
  std::shared_ptr<const EncodedMedia> encode(const Image& image,
                                             const std::function<bool()>& goes_on = {}) const;
  /// Counts of encode() so far: images that it computed, and images that it found in its cache.
  std::int64_t n_computed() const;
  std::int64_t n_found() const;

 private:
  struct Impl;
  explicit VisionModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
