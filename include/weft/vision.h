#pragma once
// Pictures: files to pixels, and pixels to rows that stand in a prompt between tokens. A vision model is a
// file of its own beside the text model's ("mmproj", as llama.cpp's converter writes it).
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

/// A picture's pixels, row by row from the top left; three bytes each: red, green, blue.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb = {};
};

inline constexpr int kMaxImageSide = 16384;
inline constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 26;

/// Reads a PNG or JPEG file, turned as its EXIF data say; what is transparent is white behind. The input is
/// untrusted: sizes are checked before memory is taken (kMaxImageSide, kMaxImagePixels). Throws Error
/// kInvalidFile for a damaged or cut file, kUnsupported for another format and for a picture that is too
/// large.
Image read_image(std::span<const std::byte> bytes);
/// The same of a file of the disk. Throws also kNotFound and kIo.
Image read_image_file(const std::filesystem::path& path);

struct VisionParams {
  std::vector<std::string> devices = {};  ///< As find_devices takes them. Empty: the CPU and all GPUs.
  int n_threads = 0;                      ///< Of the host. 0: as many as there are cores.
  /// Pictures are kept with their rows, up to so many bytes: one that comes again is not computed again.
  std::size_t cache_bytes = std::size_t{256} << 20;
  std::shared_ptr<const Registry> registry = nullptr;  ///< Null: find_backends().
};

struct VisionInfo {
  std::string name = {};
  std::string projector = {};  ///< clip.projector_type, "gemma3".
  std::vector<std::string> text_models =
      {};              ///< Families of text models (ModelInfo::architecture) that it is for.
  int n_embd = 0;      ///< Of a row: that of the text models which it goes with.
  int image_size = 0;  ///< Pixels of a side that the encoder was trained for.
  int patch_size = 0;
  int n_layers = 0;
  int max_rows = 0;        ///< Of one part.
  bool both_ways = false;  ///< The text model reads a picture's rows both ways.
};

/// Immutable after loading, and shared by threads: encode computes one picture at a time.
class VisionModel {
 public:
  /// Throws Error kInvalidFile that names the key or tensor which is wrong, kUnsupported for a projector that
  /// weft does not know, kNotFound, kIo, and what devices throw.
  static std::shared_ptr<const VisionModel> load(const std::filesystem::path& path,
                                                 const VisionParams& params = {});
  ~VisionModel();

  const VisionInfo& info() const;
  /// Throws Error kInvalidArgument where it is not for such a text model: its family, and what it reads
  /// (ModelInfo::architecture, ModelInfo::n_embd_input).
  void check_fits(std::string_view architecture, int n_embd_input) const;
  /// The same rows, bit by bit, for the same pixels. `goes_on` is asked before each part that is computed, by
  /// the calling thread; false: Error kCancelled. Throws Error kInvalidArgument for a picture without pixels
  /// or of another number of bytes than its size says, and what devices throw.
  std::shared_ptr<const EncodedMedia> encode(const Image& image,
                                             const std::function<bool()>& goes_on = {}) const;
  /// Pictures that encode has computed so far, and that it had kept.
  std::int64_t n_computed() const;
  std::int64_t n_found() const;

 private:
  struct Impl;
  explicit VisionModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
