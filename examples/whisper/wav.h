#pragma once
#include <filesystem>
#include <vector>

namespace whisper {

inline constexpr int kSampleRate = 16000;

/// The samples of a WAV file, -1 to 1. The file is an untrusted input. Throws weft::Error kNotFound, kIo,
/// kInvalidFile, and kUnsupported that says how to convert what is not 16 kHz, mono, 16 bits a sample.
std::vector<float> read_wav(const std::filesystem::path& path);

}  // namespace whisper
