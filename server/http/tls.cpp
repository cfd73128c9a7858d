#include "http/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "weft/error.h"

namespace weft::server {
namespace {

using TlsContext = std::shared_ptr<ssl_ctx_st>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;
using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

/// For TLS 1.2: keys of one connection alone, and encryption that authenticates. TLS 1.3 has no others.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::kInvalidArgument, message); }

/// The newest of OpenSSL's errors; empties its queue.
std::string openssl_reason() {
  const char* const text = ::ERR_reason_error_string(::ERR_peek_last_error());
  ::ERR_clear_error();
  return text != nullptr ? text : "unknown error";
}

File open_file(const std::string& path, const char* what) {
  File file(std::fopen(path.c_str(), "re"), &std::fclose);
  if (file == nullptr)
    throw Error(ErrorCode::kIo,
                std::string("cannot read the ") + what + " '" + path + "': " + std::strerror(errno));
  return file;
}

bool is_about_form() { return ERR_GET_REASON(::ERR_peek_last_error()) == ERR_R_PEM_LIB; }

void use_certificate(SSL_CTX* context, const std::string& path) {
  (void)open_file(path, "certificate");
  if (::SSL_CTX_use_certificate_chain_file(context, path.c_str()) == 1) return;
  if (is_about_form()) {
    ::ERR_clear_error();
    refuse("'" + path + "' has no certificate in PEM form (-----BEGIN CERTIFICATE-----)");
  }
  refuse("the certificate '" + path + "' cannot be used: " + openssl_reason());
}

/// Called where the key is encrypted.
int note_encryption(char*, int, int, void* encrypted) {
  *static_cast<bool*>(encrypted) = true;
  return -1;
}

Key read_key(const std::string& path) {
  const File file = open_file(path, "private key");
  bool encrypted = false;
  Key key(::PEM_read_PrivateKey(file.get(), nullptr, &note_encryption, &encrypted), &::EVP_PKEY_free);
  if (key != nullptr) return key;
  ::ERR_clear_error();
  if (encrypted)
    refuse("the private key '" + path + "' is encrypted; write it without a password: openssl pkey -in '" +
           path + "' -out server.key");
  refuse("'" + path + "' has no private key in PEM form (-----BEGIN PRIVATE KEY-----)");
}

/// Other protocols than HTTP/1.1 are refused within the handshake, so that no client waits for HTTP/2.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                    const unsigned char* offered, unsigned offered_size, void*) {
  constexpr std::string_view kProtocols = "\x08http/1.1\x08http/1.0";
  unsigned char* found = nullptr;
  const int result =
      ::SSL_select_next_proto(&found, chosen_size, reinterpret_cast<const unsigned char*>(kProtocols.data()),
                              static_cast<unsigned>(kProtocols.size()), offered, offered_size);
  if (result != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

TlsContext make_context(const std::string& certificate_file, const std::string& key_file) {
  ::ERR_clear_error();
  TlsContext context(::SSL_CTX_new(::TLS_server_method()), &::SSL_CTX_free);
  if (context == nullptr || ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1 ||
      ::SSL_CTX_set_cipher_list(context.get(), kCiphers) != 1)
    throw Error(ErrorCode::kUnsupported, "OpenSSL cannot set up TLS: " + openssl_reason());
  ::SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Writes continue where the socket took a part. Idle connections hold no buffers, and sessions are kept by
  // clients (tickets).
  ::SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                        SSL_MODE_RELEASE_BUFFERS);
  ::SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_alpn_select_cb(context.get(), &choose_protocol, nullptr);
  use_certificate(context.get(), certificate_file);
  const Key key = read_key(key_file);
  if (::X509_check_private_key(::SSL_CTX_get0_certificate(context.get()), key.get()) != 1) {
    ::ERR_clear_error();
    refuse("the private key '" + key_file + "' does not match the certificate '" + certificate_file + "'");
  }
  if (::SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1)
    refuse("the private key '" + key_file + "' cannot be used: " + openssl_reason());
  return context;
}

}  // namespace

TlsIdentity::TlsIdentity(std::string certificate_file, std::string key_file)
    : certificate_file_(std::move(certificate_file)),
      key_file_(std::move(key_file)),
      context_(make_context(certificate_file_, key_file_)) {}

void TlsIdentity::reload() {
  TlsContext context = make_context(certificate_file_, key_file_);
  const std::lock_guard lock(mutex_);
  context_.swap(context);
}

std::string TlsIdentity::date_problem() const {
  const TlsContext now = context();
  const X509* const certificate = ::SSL_CTX_get0_certificate(now.get());
  if (::X509_cmp_current_time(::X509_get0_notAfter(certificate)) < 0)
    return "the certificate '" + certificate_file_ + "' has expired";
  if (::X509_cmp_current_time(::X509_get0_notBefore(certificate)) > 0)
    return "the certificate '" + certificate_file_ + "' is not valid yet; check this machine's clock";
  return {};
}

std::shared_ptr<ssl_ctx_st> TlsIdentity::context() const {
  const std::lock_guard lock(mutex_);
  return context_;
}

}  // namespace weft::server
