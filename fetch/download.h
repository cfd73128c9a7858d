#pragma once
// One file from a server to the disk: in parts side by side, resumed where an earlier attempt ended, checked,
// and there whole or not at all.
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
/// What was done of a file, several times a second; false ends the download, which can be resumed.
using OnProgress = std::function<bool(Stage stage, std::int64_t n_bytes, std::int64_t size)>;

/// Puts the file at `path`, whose folders are made. While it is fetched it is called PATH.part, and
/// PATH.part.json says which of its parts are there: after an error the next call goes on with the others, if
/// the server's file is still the same; where that cannot be known (neither sum nor ETag) nothing is kept. A
/// file that is at `path` already stays if it has the size and the sum; else `before_replacing` is called,
/// and the new one takes its place. Throws Error: kIo for connections, a full disk, another process that
/// fetches the same (before the server is asked), a sum that is not right (then what came is removed);
/// kNotFound, kInvalidArgument, kCancelled; what `on_progress` throws.
void download(const RemoteFile& file, const std::filesystem::path& path, const DownloadParams& params,
              const OnProgress& on_progress, const std::function<void()>& before_replacing = {});

/// Removes what a download of `path` that did not end has left. Returns how many bytes it took. Throws Error
/// kIo, also where another process goes on with it.
std::int64_t discard_begun(const std::filesystem::path& path);

/// The sum of a file's bytes, as hexadecimal digits. Throws Error kIo, kNotFound, kCancelled.
std::string sha256_of(const std::filesystem::path& path, const OnProgress& on_progress);

}  // namespace weft::fetch
