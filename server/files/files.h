#pragma once
// The server's folder of files (--files): uploads, stored files and batches.
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "files/batches.h"
#include "files/file_store.h"
#include "files/upload.h"
#include "workers.h"

namespace weft::server {

/// Any number of threads.
class Files {
 public:
  /// Throws Error kIo as FileStore does.
  Files(const FilesSetup& setup, FileNotes note)
      : store(setup, note), batches(store, note), disk(std::make_unique<Workers>(1, kMostWaiting)) {}

  /// The sink of an upload; null if its Content-Type has no form. `owner`: the name of its key.
  std::shared_ptr<BodySink> sink(std::string_view content_type, std::string owner);
  /// Ends the batches' work for now, and then all work.
  void stop();

  /// Held while a file becomes the input of a batch, and while one is deleted.
  std::mutex inputs;
  FileStore store;
  Batches batches;
  /// Reads and writes files of clients: nothing else waits for the disk.
  std::unique_ptr<Workers> disk;

 private:
  static constexpr std::size_t kMostWaiting = 4096;
};

}  // namespace weft::server
