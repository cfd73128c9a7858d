#pragma once
// Downloads one file in parallel parts. Resumes an earlier attempt, verifies the file, and moves it into
// place only when it is complete.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "http.h"

namespace weft::fetch {

struct RemoteFile {
  std::string path = {};  ///< Of the file in its repository; is_plain_path.
  Request request = {};
  std::int64_t size = -1;   ///< -1: not known.
  std::string sha256 = {};  ///< Of 64 hexadecimal digits; empty: not known.
};

struct DownloadParams {
  int n_connections = 4;
  RetryParams retry = {};
};

enum class Stage : std::uint8_t { kGetting, kChecking };
/// Progress of a file, several times a second; false ends the download, which can be resumed.
using OnProgress = std::function<bool(Stage stage, std::int64_t n_bytes, std::int64_t size)>;

/// Downloads the file to `path` and makes its folders. Until it is complete, it is PATH.part, and
/// PATH.part.json lists the parts that are there. After an error the next call downloads the other parts, if
/// the server's file is unchanged. If that cannot be known (neither checksum nor ETag), nothing is kept. An
/// existing file stays if its size and checksum match. Otherwise `before_replacing` is called and the new
/// file replaces it. Throws Error kIo for connection errors, a full disk, a wrong checksum (the download is
/// then removed), and if another process downloads the same file (checked before the server is asked). Also
/// kNotFound, kInvalidArgument, kCancelled, and any exception of `on_progress`.
void download(const RemoteFile& file, const std::filesystem::path& path, const DownloadParams& params,
              const OnProgress& on_progress, const std::function<void()>& before_replacing = {});

/// Removes the remains of an unfinished download of `path`. Returns their size in bytes. Throws Error kIo,
/// also if another process is downloading the file.
std::int64_t discard_begun(const std::filesystem::path& path);

/// The SHA-256 of a file, as hexadecimal digits. Throws Error kIo, kNotFound, kCancelled.
std::string sha256_of(const std::filesystem::path& path, const OnProgress& on_progress);

}  // namespace weft::fetch
