#pragma once
// Audio: files to samples, and samples to embeddings that replace tokens in a prompt. An audio model is an
// encoder of an mmproj file, as llama.cpp's converter writes it.
//
//   auto audio = weft::AudioModel::load("mmproj.gguf");
//   auto sound = audio->encode(weft::read_sound(bytes));
//   ... place_media (media.h), as with images ...
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

/// Reads WAV, FLAC, Ogg (Vorbis, Opus), AIFF and, with libsndfile 1.1 or later, MP3. Averages channels and
/// resamples to kSampleRate. The input is untrusted. Throws Error kInvalidFile for a damaged file and for one
/// without samples. Throws kUnsupported for other formats, with advice how to convert them, and for files
/// that are too long (kMaxSamples).
Sound read_sound(std::span<const std::byte> bytes);
/// The same for a file on disk. Throws also kNotFound and kIo.
Sound read_sound_file(const std::filesystem::path& path);

struct AudioParams {
  std::vector<std::string> devices = {};  ///< As find_devices takes them. Empty: the CPU and all GPUs.
  int n_threads = 0;                      ///< Host threads. 0: the number of cores.
  /// The most bytes of encoded audio that are cached: cached audio is not computed again.
  std::size_t cache_bytes = std::size_t{64} << 20;
  std::shared_ptr<const Registry> registry = nullptr;  ///< Null: find_backends().
};

struct AudioInfo {
  std::string name = {};
  std::string projector = {};  ///< clip.projector_type, "voxtral".
  std::vector<std::string> text_models =
      {};          ///< Families of language models (ModelInfo::architecture) that it is for.
  int n_embd = 0;  ///< Size of a row: n_embd_input of its language models.
  int n_mels = 0;
  int n_layers = 0;
  int max_rows = 0;           ///< The most rows of a part.
  double part_seconds = 0.0;  ///< Seconds of audio in a part.
};

/// Immutable after loading, and shared by threads: encode computes one at a time.
class AudioModel {
 public:
  /// Throws Error kInvalidFile with the name of the wrong key or tensor, and kUnsupported for a file without
  /// an audio encoder and for an unknown projector. Also kNotFound, kIo, and errors of devices.
  static std::shared_ptr<const AudioModel> load(const std::filesystem::path& path,
                                                const AudioParams& params = {});
  ~AudioModel();

  const AudioInfo& info() const;
  /// Throws Error kInvalidArgument unless it fits a language model of this family and input size
  /// (ModelInfo::architecture, ModelInfo::n_embd_input).
  void check_fits(std::string_view architecture, int n_embd_input) const;
  /// Encodes audio: the same samples give the same rows, bit by bit. The calling thread calls `goes_on`
  /// before each part; false: Error kCancelled. Throws Error kInvalidArgument for audio without samples or
  /// with one that is not finite, and errors of devices.
  std::shared_ptr<const EncodedMedia> encode(const Sound& sound,
                                             const std::function<bool()>& goes_on = {}) const;
  /// The number of inputs that encode has computed so far, and found in its cache.
  std::int64_t n_computed() const;
  std::int64_t n_found() const;

 private:
  struct Impl;
  explicit AudioModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
