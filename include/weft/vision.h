#pragma once
// Images: files to pixels, and pixels to embeddings that replace tokens in a prompt. A vision model is a file
// of its own for a language model ("mmproj", as llama.cpp's converter writes it).
//
//   auto vision = weft::VisionModel::load("mmproj.gguf");
//   auto picture = vision->encode(weft::read_image(bytes));
//   weft::PromptWithMedia prompt = weft::place_media(model->tokenizer(), pieces, {&picture, 1}, mark);
//   ... prompt.tokens and prompt.parts to generate() or a batcher ...
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

/// An image's pixels, row by row from the top left; three bytes each: red, green, blue.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb = {};
};

inline constexpr int kMaxImageSide = 16384;
inline constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 26;

/// Reads a PNG or JPEG file, rotated by its EXIF data, on a white background. The input is untrusted: sizes
/// are checked before memory is allocated (kMaxImageSide, kMaxImagePixels). Throws Error kInvalidFile for a
/// damaged or truncated file, kUnsupported for another format and for an image that is too large.
Image read_image(std::span<const std::byte> bytes);
/// The same for a file on disk. Throws also kNotFound and kIo.
Image read_image_file(const std::filesystem::path& path);

struct VisionParams {
  std::vector<std::string> devices = {};  ///< As find_devices takes them. Empty: the CPU and all GPUs.
  int n_threads = 0;                      ///< Host threads. 0: the number of cores.
  /// The most bytes of encoded images that are cached: a cached image is not computed again.
  std::size_t cache_bytes = std::size_t{256} << 20;
  std::shared_ptr<const Registry> registry = nullptr;  ///< Null: find_backends().
};

struct VisionInfo {
  std::string name = {};
  std::string projector = {};  ///< clip.projector_type, "gemma3".
  std::vector<std::string> text_models =
      {};              ///< Families of language models (ModelInfo::architecture) that it is for.
  int n_embd = 0;      ///< Size of a row: n_embd_input of its language models.
  int image_size = 0;  ///< Pixels of a side that the encoder was trained for.
  int patch_size = 0;
  int n_layers = 0;
  int max_rows = 0;        ///< The most rows of a part.
  bool both_ways = false;  ///< The language model uses bidirectional attention among the rows of an image.
};

/// Immutable after loading, and shared by threads: encode computes one image at a time.
class VisionModel {
 public:
  /// Throws Error kInvalidFile with the name of the wrong key or tensor, kUnsupported for an unknown
  /// projector, kNotFound, kIo, and errors of devices.
  static std::shared_ptr<const VisionModel> load(const std::filesystem::path& path,
                                                 const VisionParams& params = {});
  ~VisionModel();

  const VisionInfo& info() const;
  /// Throws Error kInvalidArgument unless it fits a language model of this family and input size
  /// (ModelInfo::architecture, ModelInfo::n_embd_input).
  void check_fits(std::string_view architecture, int n_embd_input) const;
  /// Encodes an image: the same pixels give the same rows, bit by bit. The calling thread calls `goes_on`
  /// before each part; false: Error kCancelled. Throws Error kInvalidArgument for an image without pixels or
  /// with another number of bytes than its size needs, and errors of devices.
  std::shared_ptr<const EncodedMedia> encode(const Image& image,
                                             const std::function<bool()>& goes_on = {}) const;
  /// The number of images that encode has computed so far, and found in its cache.
  std::int64_t n_computed() const;
  std::int64_t n_found() const;

 private:
  struct Impl;
  explicit VisionModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
