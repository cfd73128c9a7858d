#pragma once
// Sound: files to samples, and samples to rows that stand in a prompt between tokens. An audio model is an
// encoder of an mmproj file, as llama.cpp's converter writes it.
//
//   auto audio = weft::AudioModel::load("mmproj.gguf");
//   auto sound = audio->encode(weft::read_sound(bytes));
//   ... place_media (media.h), as with pictures ...
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

/// One channel, from -1 to 1, kSampleRate samples a second.
struct Sound {
  static constexpr int kSampleRate = 16000;
  static constexpr std::int64_t kMaxSamples = std::int64_t{kSampleRate} * 60 * 60;
  std::vector<float> samples = {};
};

/// Reads WAV, FLAC, Ogg (Vorbis, Opus), AIFF and, where libsndfile is 1.1 or later, MP3; channels are
/// averaged, other rates become kSampleRate. The input is untrusted. Throws Error kInvalidFile for a damaged
/// file, or one without samples; kUnsupported that says how to convert what is none of these, or is too long
/// (kMaxSamples).
Sound read_sound(std::span<const std::byte> bytes);
/// The same of a file of the disk. Throws also kNotFound and kIo.
Sound read_sound_file(const std::filesystem::path& path);

struct AudioParams {
  std::vector<std::string> devices = {};  ///< As find_devices takes them. Empty: the CPU and all GPUs.
  int n_threads = 0;                      ///< Of the host. 0: as many as there are cores.
  /// Sounds are kept with their rows, up to so many bytes: one that comes again is not computed again.
  std::size_t cache_bytes = std::size_t{64} << 20;
  std::shared_ptr<const Registry> registry = nullptr;  ///< Null: find_backends().
};

struct AudioInfo {
  std::string name = {};
  std::string projector = {};  ///< clip.projector_type, "voxtral".
  std::vector<std::string> text_models =
      {};          ///< Families of text models (ModelInfo::architecture) that it is for.
  int n_embd = 0;  ///< Of a row: that of the text models which it goes with.
  int n_mels = 0;
  int n_layers = 0;
  int max_rows = 0;           ///< Of one part.
  double part_seconds = 0.0;  ///< Of sound that become one part.
};

/// Immutable after loading, and shared by threads: encode computes one sound at a time.
class AudioModel {
 public:
  /// Throws Error kInvalidFile that names the key or tensor which is wrong, kUnsupported for a file without
  /// an audio encoder and for a projector that weft does not know, kNotFound, kIo, and what devices throw.
  static std::shared_ptr<const AudioModel> load(const std::filesystem::path& path,
                                                const AudioParams& params = {});
  ~AudioModel();

  const AudioInfo& info() const;
  /// Throws Error kInvalidArgument where it is not for such a text model: its family, and what it reads
  /// (ModelInfo::architecture, ModelInfo::n_embd_input).
  void check_fits(std::string_view architecture, int n_embd_input) const;
  /// The same rows, bit by bit, for the same samples. `goes_on` is asked before each part that is computed,
  /// by the calling thread; false: Error kCancelled. Throws Error kInvalidArgument for a sound without
  /// samples, or with one that is not finite, and what devices throw.
  std::shared_ptr<const EncodedMedia> encode(const Sound& sound,
                                             const std::function<bool()>& goes_on = {}) const;
  /// Sounds that encode has computed so far, and that it had kept.
  std::int64_t n_computed() const;
  std::int64_t n_found() const;

 private:
  struct Impl;
  explicit AudioModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
