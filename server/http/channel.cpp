#include "http/channel.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/to_size.h"

namespace weft::server {
namespace {

/// The first byte of TLS: a record of the handshake.
constexpr char kHandshakeRecord = 0x16;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

int descriptor_of(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(::BIO_get_data(bio))); }

int read_socket(BIO* bio, char* bytes, int size) {
  ::BIO_clear_retry_flags(bio);
  const ssize_t n = ::recv(descriptor_of(bio), bytes, to_size(size), 0);
  if (n < 0 && would_block(errno)) ::BIO_set_retry_read(bio);
  if (n == 0) ::BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(n);
}

int write_socket(BIO* bio, const char* bytes, int size) {
  ::BIO_clear_retry_flags(bio);
  const ssize_t n = ::send(descriptor_of(bio), bytes, to_size(size), MSG_NOSIGNAL);
  if (n < 0 && would_block(errno)) ::BIO_set_retry_write(bio);
  return static_cast<int>(n);
}

long control_socket(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return ::BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/// OpenSSL's own BIO of sockets raises SIGPIPE where the client has gone.
const BIO_METHOD* quiet_socket() {
  static const std::unique_ptr<BIO_METHOD, decltype(&::BIO_meth_free)> method = [] {
    std::unique_ptr<BIO_METHOD, decltype(&::BIO_meth_free)> made(
        ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket"), &::BIO_meth_free);
    if (made == nullptr) throw std::bad_alloc();
    ::BIO_meth_set_read(made.get(), &read_socket);
    ::BIO_meth_set_write(made.get(), &write_socket);
    ::BIO_meth_set_ctrl(made.get(), &control_socket);
    return made;
  }();
  return method.get();
}

ssl_st* make_session(const TlsIdentity* identity, int descriptor) {
  if (identity == nullptr) return nullptr;
  ssl_st* const session = ::SSL_new(identity->context().get());
  BIO* const bio = ::BIO_new(quiet_socket());
  if (session == nullptr || bio == nullptr) {
    ::SSL_free(session);
    ::BIO_free(bio);
    throw std::bad_alloc();
  }
  ::BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)));
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(session, bio, bio);
  ::SSL_set_accept_state(session);
  return session;
}

int size_of(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, INT_MAX)); }

}  // namespace

Channel::Channel(Socket socket, const TlsIdentity* tls)
    : socket_(std::move(socket)), tls_(make_session(tls, socket_.native_handle()), &::SSL_free) {}

Channel::Handshake Channel::handshake(std::string& reason) {
  if (!socket_.is_open()) return Handshake::kFailed;
  if (::SSL_in_before(tls_.get()) != 0) {
    char first = 0;
    const ssize_t n = ::recv(socket_.native_handle(), &first, 1, MSG_PEEK);
    if (n < 0 && would_block(errno)) return Handshake::kReads;
    if (n <= 0) return Handshake::kFailed;
    if (first != kHandshakeRecord) {
      tls_.reset();
      return Handshake::kPlain;
    }
  }
  ::ERR_clear_error();
  const int result = ::SSL_do_handshake(tls_.get());
  if (result == 1) return Handshake::kDone;
  switch (::SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Handshake::kReads;
    case SSL_ERROR_WANT_WRITE:
      return Handshake::kWrites;
    case SSL_ERROR_SSL:
      if (const char* const text = ::ERR_reason_error_string(::ERR_peek_error());
          text != nullptr && ERR_GET_REASON(::ERR_peek_error()) != SSL_R_UNEXPECTED_EOF_WHILE_READING)
        reason = text;
      break;
    default:
      break;
  }
  ::ERR_clear_error();
  return Handshake::kFailed;
}

error_code Channel::error_of(int result, Socket::wait_type& wait) const {
  const int kind = ::SSL_get_error(tls_.get(), result);
  ::ERR_clear_error();
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
    wait = kind == SSL_ERROR_WANT_READ ? Socket::wait_read : Socket::wait_write;
    return asio::error::would_block;
  }
  if (kind == SSL_ERROR_ZERO_RETURN) return asio::error::eof;
  return asio::error::connection_reset;
}

std::size_t Channel::read_some(const asio::mutable_buffer& buffer, error_code& error) {
  if (tls_ == nullptr) return socket_.read_some(buffer, error);
  // A call returns a record at most.
  std::size_t size = 0;
  error = {};
  read_wait_ = Socket::wait_read;
  while (size < buffer.size()) {
    ::ERR_clear_error();
    const int n =
        ::SSL_read(tls_.get(), static_cast<char*>(buffer.data()) + size, size_of(buffer.size() - size));
    if (n <= 0) {
      const error_code problem = error_of(n, read_wait_);
      if (size == 0) error = problem;
      break;
    }
    size += to_size(n);
  }
  return size;
}

std::size_t Channel::write_some(const asio::const_buffer& buffer, error_code& error) {
  if (tls_ == nullptr) return socket_.write_some(buffer, error);
  std::size_t size = 0;
  error = {};
  write_wait_ = Socket::wait_write;
  while (size < buffer.size()) {
    ::ERR_clear_error();
    const int n = ::SSL_write(tls_.get(), static_cast<const char*>(buffer.data()) + size,
                              size_of(buffer.size() - size));
    if (n <= 0) {
      const error_code problem = error_of(n, write_wait_);
      if (size == 0) error = problem;
      break;
    }
    size += to_size(n);
  }
  return size;
}

bool Channel::has_read() const {
  return tls_ != nullptr &&
         (::SSL_pending(tls_.get()) > 0 || (::SSL_get_shutdown(tls_.get()) & SSL_RECEIVED_SHUTDOWN) != 0);
}

void Channel::end_writing() {
  if (tls_ != nullptr && ::SSL_is_init_finished(tls_.get()) != 0) {
    ::ERR_clear_error();
    ::SSL_shutdown(tls_.get());
    ::ERR_clear_error();
  }
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

void Channel::close() {
  tls_.reset();
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace weft::server
