#pragma once
// Audio: reads files into samples, and encodes samples into embeddings that replace tokens of a prompt. The
// encoder is in an mmproj file, as llama.cpp's converter writes it.
//
//   auto encoder = weft::AudioModel::load("mmproj.gguf");
//   std::shared_ptr<const weft::EncodedMedia> media = encoder->encode(weft::read_audio_file("a.wav"));
//   auto prompt = weft::place_media(model->tokenizer(), pieces, {&media, 1}, mark);  // See weft/media.h.
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

/// Samples of one channel, from -1 to 1, at kSampleRate per second.
struct Audio {
  static constexpr int kSampleRate = 16000;
  static constexpr std::int64_t kMaxSamples = std::int64_t{kSampleRate} * 60 * 60;
  std::vector<float> samples = {};
};

/// Reads WAV, FLAC, Ogg (Vorbis, Opus), AIFF and, with libsndfile 1.1 or later, MP3. Channels are averaged
/// and resampled to kSampleRate. The bytes are untrusted. Throws Error kInvalidFile for a damaged file and
/// for one without samples. Throws kUnsupported for files longer than kMaxSamples and for other formats; the
/// message says how to convert them. `goes_on` is called every few thousand samples: false ends it with Error
/// kCancelled.
Audio read_audio(std::span<const std::byte> bytes, const std::function<bool()>& goes_on = nullptr);
/// The same for a file on disk. Throws also kNotFound and kIo.
Audio read_audio_file(const std::filesystem::path& path);

using Sound [[deprecated("use Audio")]] = Audio;
[[deprecated("use read_audio")]] inline Audio read_sound(std::span<const std::byte> bytes,
                                                         const std::function<bool()>& goes_on = nullptr) {
  return read_audio(bytes, goes_on);
}
[[deprecated("use read_audio_file")]] inline Audio read_sound_file(const std::filesystem::path& path) {
  return read_audio_file(path);
}

struct AudioParams {
  /// Device names, as for open_devices(). Empty: the CPU and all GPUs.
  std::vector<std::string> devices = {};
  int n_threads = 0;  ///< Host threads. 0: the number of cores.
  /// The most bytes of results that are cached, so that repeated audio is not encoded again.
  std::size_t cache_bytes = std::size_t{64} << 20;
  std::shared_ptr<const Registry> registry = nullptr;  ///< Null: load_backends().
};

struct AudioInfo {
  std::string name = {};
  std::string projector = {};  ///< clip.projector_type, "voxtral".
  /// The language models that it fits, by ModelInfo::architecture.
  std::vector<std::string> text_models = {};
  int n_embd = 0;  ///< Size of an embedding: n_embd_input of its language models.
  int n_mels = 0;
  int n_layers = 0;
  int max_rows = 0;           ///< The most embeddings of a part.
  double part_seconds = 0.0;  ///< Long audio is encoded in parts of this many seconds.
};

/// Immutable after loading. Threads may share it; encode() calls run one after another.
class AudioModel {
 public:
  /// Loads the audio encoder of an mmproj file. Throws Error kInvalidFile with the name of the wrong key or
  /// tensor, and kUnsupported for a file without an audio encoder and for an unknown projector. Also
  /// kNotFound, kIo, and errors of devices.
  static std::shared_ptr<const AudioModel> load(const std::filesystem::path& path,
                                                const AudioParams& params = {});
  ~AudioModel();

  const AudioInfo& info() const;
  /// Throws Error kInvalidArgument unless it fits the language model, given by ModelInfo::architecture and
  /// ModelInfo::n_embd_input.
  void check_fits(std::string_view architecture, int n_embd_input) const;
  /// Encodes audio. Equal samples give bit-identical embeddings. The calling thread calls `goes_on` before
  /// each part; returning false cancels (Error kCancelled). Throws Error kInvalidArgument for audio without
  /// samples or with NaN or infinity, and errors of devices.
  std::shared_ptr<const EncodedMedia> encode(const Audio& sound,
                                             const std::function<bool()>& goes_on = {}) const;
  /// Counts of encode() so far: inputs that it computed, and inputs that it found in its cache.
  std::int64_t n_computed() const;
  std::int64_t n_found() const;

 private:
  struct Impl;
  explicit AudioModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
