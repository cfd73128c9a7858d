#pragma once
// The bytes of a connection, with or without TLS. Nothing here blocks. Where an operation needs the socket to
// be ready it returns would_block, and the caller waits. Boost and OpenSSL: for the
// server's own files.
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <memory>
#include <string>

#include "http/tls.h"

struct ssl_st;

namespace weft::server {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::generic::stream_protocol;
using Socket = Protocol::socket;

class Channel {
 public:
  /// Plain where `tls` is null; with it, handshake() comes first. The socket is non-blocking.
  Channel(Socket socket, const TlsIdentity* tls);

  /// Closed by close() alone: TLS uses the socket's descriptor.
  Socket& socket() { return socket_; }
  bool is_secure() const { return tls_ != nullptr; }

  enum class Handshake {
    kDone,
    kReads,   ///< Continues once the socket can be read.
    kWrites,  ///< Continues once the socket can be written.
    kPlain,   ///< The client speaks no TLS. The channel is plain from now on.
    kFailed,
  };
  /// `reason` is set with kFailed, and empty where the client has just gone.
  Handshake handshake(std::string& reason);

  /// At least a byte, or an error: would_block to wait for read_wait(), eof where the client closed its side.
  /// A TLS connection that is cut without TLS's own end is reset.
  std::size_t read_some(const asio::mutable_buffer& buffer, error_code& error);
  /// After would_block, which waits for write_wait(), the same bytes must be given again.
  std::size_t write_some(const asio::const_buffer& buffer, error_code& error);
  /// What the socket must be ready for before the next call: TLS may have to write in order to read.
  Socket::wait_type read_wait() const { return read_wait_; }
  Socket::wait_type write_wait() const { return write_wait_; }
  /// read_some() has bytes or the end at once, although the socket has nothing.
  bool has_read() const;
  /// Nothing more is written.
  void end_writing();
  /// Closes the socket. Later calls fail: the system may give its descriptor to another connection.
  void close();

 private:
  error_code error_of(int result, Socket::wait_type& wait) const;

  Socket socket_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> tls_;
  Socket::wait_type read_wait_ = Socket::wait_read, write_wait_ = Socket::wait_write;
};

}  // namespace weft::server
