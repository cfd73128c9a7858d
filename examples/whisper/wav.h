#pragma once
#include <filesystem>
#include <vector>

namespace whisper {

inline constexpr int kSampleRate = 16000;

/// The samples of a WAV file, -1 to 1. The file is an untrusted input. Throws weft::Error kNotFound, kIo and
/// kInvalidFile. For anything but 16 kHz, mono, 16 bits a sample it throws kUnsupported, which says how to
/// convert.
std::vector<float> read_wav(const std::filesystem::path& path);

}  // namespace whisper
