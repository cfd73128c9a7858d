#include "wav.h"

#include <weft/error.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "bytes.h"

namespace whisper {
namespace {

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr std::uint16_t kPcm = 1, kExtensible = 0xfffe;

}  // namespace

std::vector<float> read_wav(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  ByteReader reader(bytes, path.string());
  const bool is_riff = reader.size() >= 12 && text(reader.take(4)) == "RIFF";
  if (!is_riff || text(reader.take(8)).substr(4) != "WAVE") reader.fail("is not a WAV file");
  bool has_format = false;
  while (reader.size() >= 8) {
    const std::string chunk = text(reader.take(4));
    const auto size = reader.number<std::uint32_t>();
    if (chunk == "data") {
      if (!has_format) reader.fail("has samples before their format");
      // A program that writes into a pipe does not know the size; the available bytes count.
      const auto data = reader.take(std::min<std::size_t>(size, reader.size()));
      std::vector<float> samples(data.size() / sizeof(std::int16_t));
      ByteReader values(data, path.string());
      for (float& sample : samples) sample = static_cast<float>(values.number<std::int16_t>()) / 32768.0f;
      if (samples.empty()) reader.fail("has no samples");
      return samples;
    }
    ByteReader body(reader.take(size), path.string());
    if (size % 2 == 1 && reader.size() > 0) reader.take(1);
    if (chunk != "fmt ") continue;
    auto format = body.number<std::uint16_t>();
    const auto channels = body.number<std::uint16_t>();
    const auto rate = body.number<std::uint32_t>();
    body.take(6);
    const auto bits = body.number<std::uint16_t>();
    if (format == kExtensible) {
      body.take(8);
      format = body.number<std::uint16_t>();
    }
    if (format != kPcm || channels != 1 || bits != 16 || rate != kSampleRate)
      throw weft::Error(weft::ErrorCode::kUnsupported,
                        path.string() + ": has format " + std::to_string(format) + ", " +
                            std::to_string(channels) + " channels, " + std::to_string(bits) + " bits, " +
                            std::to_string(rate) +
                            " Hz; needed are PCM (1), 1 channel, 16 bits, 16000 Hz: ffmpeg -i IN -ac 1 -ar "
                            "16000 -c:a pcm_s16le OUT.wav");
    has_format = true;
  }
  reader.fail("has no samples");
}

}  // namespace whisper
