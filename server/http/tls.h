#pragma once
// The certificate and private key by which a server proves its name. OpenSSL: for the files of this folder.
#include <memory>
#include <mutex>
#include <string>

struct ssl_ctx_st;

namespace weft::server {

/// TLS 1.2 and later. Any number of threads.
class TlsIdentity {
 public:
  /// Files in PEM form; the certificate's file holds its chain as well. Throws Error kIo or kInvalidArgument,
  /// which names the file.
  TlsIdentity(std::string certificate_file, std::string key_file);

  /// Reads both files again, for later connections. Throws like the constructor: the old ones stay then.
  void reload();
  /// Why clients reject the certificate by its dates; empty where they do not.
  std::string date_problem() const;
  /// As connections that begin now use it.
  std::shared_ptr<ssl_ctx_st> context() const;

 private:
  const std::string certificate_file_, key_file_;
  mutable std::mutex mutex_;
  std::shared_ptr<ssl_ctx_st> context_;
};

}  // namespace weft::server
