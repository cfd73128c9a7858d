#include <samplerate.h>
#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "base/read_file.h"
#include "base/to_size.h"
#include "weft/audio.h"
#include "weft/error.h"

namespace weft {
namespace {

constexpr int kMaxChannels = 64;
constexpr int kLowestRate = 1000, kHighestRate = 768000;
constexpr float kLoudest = 1e6f;                // Programs that forget to scale give some 2^15.
constexpr std::size_t kBlockSamples = 1 << 16;  // Samples of all channels that are read at a time.
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;
constexpr int kMpeg = 0x230000;  // SF_FORMAT_MPEG, which libsndfile has from 1.1 on.

[[noreturn]] void damaged(const std::string& why) {
  throw Error(ErrorCode::kInvalidFile, "the audio file cannot be read: it " + why);
}

std::string reason(int error) { return "is damaged: " + std::string(sf_error_number(error)); }

/// A file in memory, as libsndfile reads it.
struct Bytes {
  std::span<const std::byte> data;
  sf_count_t at = 0;

  static Bytes& of(void* user) { return *static_cast<Bytes*>(user); }
  sf_count_t size() const { return static_cast<sf_count_t>(data.size()); }
};

SF_VIRTUAL_IO io_of_bytes() {
  SF_VIRTUAL_IO io{};
  io.get_filelen = [](void* user) { return Bytes::of(user).size(); };
  io.seek = [](sf_count_t offset, int whence, void* user) {
    Bytes& bytes = Bytes::of(user);
    const sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? bytes.at : bytes.size();
    // In a damaged file the offset may have any value.
    const sf_count_t room = bytes.size() - from;
    bytes.at = from + std::clamp<sf_count_t>(offset, -from, room);
    return bytes.at;
  };
  io.read = [](void* to, sf_count_t n, void* user) {
    Bytes& bytes = Bytes::of(user);
    n = std::clamp<sf_count_t>(n, 0, bytes.size() - bytes.at);
    if (n > 0) std::memcpy(to, bytes.data.data() + bytes.at, to_size(n));
    bytes.at += n;
    return n;
  };
  io.write = [](const void*, sf_count_t, void*) -> sf_count_t { return 0; };
  io.tell = [](void* user) { return Bytes::of(user).at; };
  return io;
}

/// The library also reads dozens of old formats, which weft does not test.
bool is_read(int format) {
  const int form = format & SF_FORMAT_TYPEMASK;
  return form == SF_FORMAT_WAV || form == SF_FORMAT_WAVEX || form == SF_FORMAT_RF64 ||
         form == SF_FORMAT_AIFF || form == SF_FORMAT_FLAC || form == SF_FORMAT_OGG || form == kMpeg;
}

using File = std::unique_ptr<SNDFILE, decltype(&sf_close)>;
using Converter = std::unique_ptr<SRC_STATE, decltype(&src_delete)>;

/// Converts samples of one channel from a file's rate to the rate of Audio.
class Resampler {
 public:
  explicit Resampler(int rate)
      : ratio_(static_cast<double>(Audio::kSampleRate) / rate), converter_(nullptr, src_delete) {
    if (rate == Audio::kSampleRate) return;
    int error = 0;
    converter_.reset(src_new(SRC_SINC_MEDIUM_QUALITY, 1, &error));
    if (converter_ == nullptr) throw Error(ErrorCode::kOutOfMemory, src_strerror(error));
  }

  void add(std::span<const float> samples, bool last) {
    if (converter_ == nullptr) {
      append(samples);
      return;
    }
    do {
      SRC_DATA data{};
      data.data_in =
          samples.empty() ? &nothing_ : samples.data();  // Without an address the end would be lost.
      data.input_frames = static_cast<long>(samples.size());
      data.data_out = block_.data();
      data.output_frames = static_cast<long>(block_.size());
      data.src_ratio = ratio_;
      data.end_of_input = last ? 1 : 0;
      if (const int error = src_process(converter_.get(), &data); error != 0) damaged(src_strerror(error));
      samples = samples.subspan(to_size(data.input_frames_used));
      append(std::span(block_).first(to_size(data.output_frames_gen)));
      if (data.output_frames_gen == 0 && data.input_frames_used == 0) break;
    } while (!samples.empty() || last);
  }
  Audio take() { return {std::move(samples_)}; }

 private:
  void append(std::span<const float> samples) {
    if (samples_.size() + samples.size() > to_size(Audio::kMaxSamples))
      throw Error(ErrorCode::kUnsupported, "the audio is longer than the limit of " +
                                               std::to_string(Audio::kMaxSamples / Audio::kSampleRate) +
                                               " seconds; cut it");
    samples_.insert(samples_.end(), samples.begin(), samples.end());
  }

  double ratio_;
  Converter converter_;
  std::vector<float> block_ = std::vector<float>(kBlockSamples);
  std::vector<float> samples_;
  float nothing_ = 0.0f;
};

}  // namespace

Audio read_audio(std::span<const std::byte> bytes, const std::function<bool()>& goes_on) {
  Bytes input{.data = bytes};
  SF_VIRTUAL_IO io = io_of_bytes();
  SF_INFO info{};
  const File file(sf_open_virtual(&io, SFM_READ, &info, &input), sf_close);
  if (file == nullptr || !is_read(info.format))
    throw Error(ErrorCode::kUnsupported,
                "unknown audio format; known are WAV, FLAC, Ogg, AIFF, and MP3 with libsndfile 1.1 or later. "
                "To convert it: ffmpeg -i IN -ac 1 -ar 16000 OUT.wav");
  if (info.channels < 1 || info.channels > kMaxChannels || info.samplerate < kLowestRate ||
      info.samplerate > kHighestRate)
    throw Error(ErrorCode::kUnsupported,
                "the audio has " + std::to_string(info.channels) + " channels and " +
                    std::to_string(info.samplerate) + " samples per second; supported are 1 to " +
                    std::to_string(kMaxChannels) + " channels of " + std::to_string(kLowestRate) + " to " +
                    std::to_string(kHighestRate) + " samples per second");
  const auto n_channels = to_size(info.channels);
  const std::size_t n_frames = kBlockSamples / n_channels;
  std::vector<float> block(n_frames * n_channels), mono(n_frames);
  Resampler resampler(info.samplerate);
  sf_count_t n_read = 0;  // The number of frames in the header is untrusted.
  while (true) {
    if (goes_on && !goes_on()) throw Error(ErrorCode::kCancelled, "reading of the audio was cancelled");
    const sf_count_t n = sf_readf_float(file.get(), block.data(), static_cast<sf_count_t>(n_frames));
    if (n <= 0) break;
    n_read += n;
    for (std::size_t i = 0; i < to_size(n); ++i) {
      float sum = 0.0f;
      for (std::size_t c = 0; c < n_channels; ++c) sum += block[i * n_channels + c];
      mono[i] = sum / static_cast<float>(n_channels);
      if (!std::isfinite(mono[i])) damaged("has samples that are not numbers");
      if (std::abs(mono[i]) > kLoudest)
        damaged("has samples that are far too large; floats are from -1 to 1");
    }
    resampler.add(std::span(mono).first(to_size(n)), false);
  }
  // Decoders of compressed formats stop at damaged data as if it were the end.
  if (const int error = sf_error(file.get()); error != SF_ERR_NO_ERROR) damaged(reason(error));
  if (n_read == 0) damaged("has no samples");
  if ((info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC && n_read < info.frames)
    damaged("is truncated: it has " + std::to_string(n_read) + " of " + std::to_string(info.frames) +
            " samples");
  resampler.add({}, true);
  Audio sound = resampler.take();
  if (sound.samples.empty()) damaged("has no samples");
  return sound;
}

Audio read_audio_file(const std::filesystem::path& path) {
  return read_audio(base::read_file(path, kMaxFileBytes));
}

}  // namespace weft
