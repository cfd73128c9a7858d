#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "base/read_file.h"
#include "weft/audio.h"
#include "weft/error.h"

namespace weft {
namespace {

constexpr std::uint32_t kPcm = 1, kFloat = 3, kExtensible = 0xfffe;
constexpr std::uint32_t kMaxChannels = 64;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

[[noreturn]] void damaged(const std::string& why) {
  throw Error(ErrorCode::kInvalidFile, "the WAV file cannot be read: it " + why);
}

/// Numbers of a file, lowest byte first.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::size_t size() const { return rest_.size(); }
  std::span<const std::byte> take(std::size_t n) {
    if (n > rest_.size()) damaged("ends early");
    const auto part = rest_.first(n);
    rest_ = rest_.subspan(n);
    return part;
  }
  std::uint32_t number(std::size_t n_bytes) {
    std::uint32_t value = 0;
    unsigned shift = 0;
    for (const std::byte byte : take(n_bytes)) {
      value |= std::to_integer<std::uint32_t>(byte) << shift;
      shift += 8;
    }
    return value;
  }
  std::string text(std::size_t n) {
    const auto part = take(n);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

 private:
  std::span<const std::byte> rest_;
};

struct Format {
  std::uint32_t coding = 0, channels = 0, rate = 0, bits = 0;
  std::size_t sample_bytes() const { return bits / 8; }
};

Format read_format(Reader body) {
  Format format;
  format.coding = body.number(2);
  format.channels = body.number(2);
  format.rate = body.number(4);
  body.take(6);
  format.bits = body.number(2);
  if (format.coding == kExtensible) {
    body.take(8);
    format.coding = body.number(2);
  }
  const bool is_pcm = format.coding == kPcm &&
                      (format.bits == 8 || format.bits == 16 || format.bits == 24 || format.bits == 32);
  const bool is_float = format.coding == kFloat && format.bits == 32;
  if ((!is_pcm && !is_float) || format.channels < 1 || format.channels > kMaxChannels ||
      format.rate != Sound::kSampleRate)
    throw Error(
        ErrorCode::kUnsupported,
        "the WAV file has coding " + std::to_string(format.coding) + ", " + std::to_string(format.bits) +
            " bits, " + std::to_string(format.channels) + " channels and " + std::to_string(format.rate) +
            " samples a second; PCM (1) or floats (3) of 16000 are read: ffmpeg -i IN -ac 1 -ar 16000 "
            "-c:a pcm_s16le OUT.wav");
  return format;
}

float sample_of(Reader& reader, const Format& format) {
  const std::uint32_t raw = reader.number(format.sample_bytes());
  if (format.coding == kFloat) return std::bit_cast<float>(raw);
  if (format.bits == 8) return (static_cast<float>(raw) - 128.0f) / 128.0f;
  // The highest bit is the sign.
  const auto value = static_cast<std::int32_t>(raw << (32 - format.bits));
  return static_cast<float>(static_cast<double>(value) / 2147483648.0);
}

std::vector<float> read_samples(std::span<const std::byte> data, const Format& format) {
  const std::size_t frame = format.channels * format.sample_bytes();
  const std::size_t n = data.size() / frame;
  if (n == 0) damaged("has no samples");
  if (n > static_cast<std::size_t>(Sound::kMaxSamples))
    throw Error(ErrorCode::kUnsupported,
                "the WAV file has " + std::to_string(n / Sound::kSampleRate) + " seconds, at most " +
                    std::to_string(Sound::kMaxSamples / Sound::kSampleRate) + " are read; cut it");
  Reader reader(data);
  std::vector<float> samples(n);
  for (float& sample : samples) {
    for (std::uint32_t channel = 0; channel < format.channels; ++channel) sample += sample_of(reader, format);
    sample /= static_cast<float>(format.channels);
    if (!std::isfinite(sample)) damaged("has samples that are no numbers");
  }
  return samples;
}

}  // namespace

Sound read_wav(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  if (reader.size() < 12 || reader.text(4) != "RIFF" || reader.text(8).substr(4) != "WAVE")
    throw Error(ErrorCode::kUnsupported,
                "this is no WAV file; convert it: ffmpeg -i IN -ac 1 -ar 16000 -c:a pcm_s16le OUT.wav");
  Format format;
  while (reader.size() >= 8) {
    const std::string chunk = reader.text(4);
    const std::uint32_t size = reader.number(4);
    if (chunk == "data") {
      if (format.channels == 0) damaged("has samples before their format");
      // Who writes into a pipe does not know the size beforehand: what is there counts.
      return {read_samples(reader.take(std::min<std::size_t>(size, reader.size())), format)};
    }
    const auto body = reader.take(size);
    if (size % 2 == 1 && reader.size() > 0) reader.take(1);
    if (chunk == "fmt ") format = read_format(Reader(body));
  }
  damaged("has no samples");
}

Sound read_wav_file(const std::filesystem::path& path) {
  return read_wav(base::read_file(path, kMaxFileBytes));
}

}  // namespace weft
