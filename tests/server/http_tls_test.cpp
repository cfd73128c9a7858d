// HTTPS: certificates, handshakes, and connections that end in odd ways.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "http/channel.h"
#include "http/tls.h"
#include "server/held_exchanges.h"
#include "server/raw_client.h"
#include "server/running_server.h"
#include "weft/error.h"

namespace weft::server {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

template <class T, void (*kFree)(T*)>
struct Free {
  void operator()(T* object) const { kFree(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509, X509_free>>;
using Bio = std::unique_ptr<BIO, Free<BIO, BIO_free_all>>;

std::string text_of(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

/// The files of a server called `name`, in a folder of their own.
class Files {
 public:
  Files() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft-tls-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder");
    folder_ = pattern;
  }
  ~Files() { std::filesystem::remove_all(folder_); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  /// A certificate that is valid for `days` from now, and its key.
  void make(const std::string& name, int days = 1, bool is_encrypted = false) const {
    const Key key(EVP_EC_gen("P-256"));
    const Certificate certificate(X509_new());
    X509_set_version(certificate.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), days < 0 ? -1000000 : 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), days * 86400L);
    X509_set_pubkey(certificate.get(), key.get());
    X509_NAME* const subject = X509_get_subject_name(certificate.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(certificate.get(), subject);
    X509_sign(certificate.get(), key.get(), EVP_sha256());
    const Bio pem(BIO_new(BIO_s_mem())), key_pem(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(pem.get(), certificate.get());
    std::string password = "secret";
    PEM_write_bio_PKCS8PrivateKey(key_pem.get(), key.get(), is_encrypted ? EVP_aes_128_cbc() : nullptr,
                                  is_encrypted ? password.data() : nullptr,
                                  is_encrypted ? static_cast<int>(password.size()) : 0, nullptr, nullptr);
    write(name + ".pem", text_of(pem.get()));
    write(name + ".key", text_of(key_pem.get()));
  }

 private:
  std::filesystem::path folder_;
};

/// A client that speaks TLS, and blocks.
class TlsClient {
 public:
  explicit TlsClient(std::uint16_t port, int most = TLS1_3_VERSION, const std::string& protocols = "")
      : context_(SSL_CTX_new(TLS_client_method())),
        socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return;
    SSL_CTX_set_max_proto_version(context_.get(), most);
    SSL_CTX_set_cipher_list(context_.get(), "ALL:@SECLEVEL=0");
    tls_.reset(SSL_new(context_.get()));
    if (!protocols.empty())
      SSL_set_alpn_protos(tls_.get(), reinterpret_cast<const unsigned char*>(protocols.data()),
                          static_cast<unsigned>(protocols.size()));
    SSL_set_fd(tls_.get(), socket_);
    is_secure_ = SSL_connect(tls_.get()) == 1;
    ERR_clear_error();
  }
  ~TlsClient() { close(); }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool is_secure() const { return is_secure_; }
  /// The name in the server's certificate.
  std::string server_name() const {
    const Certificate certificate(SSL_get1_peer_certificate(tls_.get()));
    std::array<char, 64> name{};
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name.data(),
                              static_cast<int>(name.size()));
    return name.data();
  }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(tls_.get(), &name, &size);
    return {reinterpret_cast<const char*>(name), size};
  }
  void send(std::string_view bytes) {
    std::size_t n = 0;
    if (!bytes.empty()) SSL_write_ex(tls_.get(), bytes.data(), bytes.size(), &n);
  }
  /// Reads until `bytes` bytes have come, or the end.
  std::string read(std::size_t bytes) {
    std::string text;
    std::array<char, 4096> block{};
    std::size_t n = 0;
    while (text.size() < bytes &&
           SSL_read_ex(tls_.get(), block.data(), std::min(block.size(), bytes - text.size()), &n) == 1)
      text.append(block.data(), n);
    ERR_clear_error();
    return text;
  }
  std::string read_all() { return read(std::string::npos); }
  /// Whether the server ended TLS before it closed.
  bool ended_properly() const { return (SSL_get_shutdown(tls_.get()) & SSL_RECEIVED_SHUTDOWN) != 0; }
  void end_sending() { SSL_shutdown(tls_.get()); }
  void end_socket() { ::shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

 private:
  std::unique_ptr<SSL_CTX, Free<SSL_CTX, SSL_CTX_free>> context_;
  std::unique_ptr<SSL, Free<SSL, SSL_free>> tls_;
  int socket_;
  bool is_secure_ = false;
};

/// A channel and the client at its other end, on one thread.
class ChannelPair {
 public:
  explicit ChannelPair(const TlsIdentity& identity, int most = TLS1_3_VERSION)
      : context_(SSL_CTX_new(TLS_client_method())) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::runtime_error("no sockets");
    client_socket = ends[1];
    channel = std::make_unique<Channel>(Socket(io_, Protocol(AF_UNIX, 0), ends[0]), &identity);
    SSL_CTX_set_max_proto_version(context_.get(), most);
    client.reset(SSL_new(context_.get()));
    SSL_set_fd(client.get(), client_socket);
    SSL_set_connect_state(client.get());
    SSL_do_handshake(client.get());
  }
  ~ChannelPair() { ::close(client_socket); }
  ChannelPair(const ChannelPair&) = delete;
  ChannelPair& operator=(const ChannelPair&) = delete;

  bool shake_hands() {
    std::string reason;
    for (int n_rounds = 0; n_rounds < 10; ++n_rounds) {
      const bool done = channel->handshake(reason) == Channel::Handshake::kDone;
      if (SSL_do_handshake(client.get()) == 1 && done) return true;
    }
    return false;
  }
  /// The bytes that the server reads at once, or the message of the error.
  std::string read() {
    std::array<char, 256> bytes{};
    error_code error;
    const std::size_t n = channel->read_some(asio::buffer(bytes), error);
    return error ? error.message() : std::string(bytes.data(), n);
  }
  /// Bytes of the network that the client has not read.
  std::size_t drain() {
    std::array<char, 4096> bytes{};
    std::size_t n_bytes = 0;
    for (ssize_t n = 0; (n = ::recv(client_socket, bytes.data(), bytes.size(), 0)) > 0;)
      n_bytes += static_cast<std::size_t>(n);
    return n_bytes;
  }

 private:
  boost::asio::io_context io_;
  std::unique_ptr<SSL_CTX, Free<SSL_CTX, SSL_CTX_free>> context_;

 public:
  int client_socket = -1;
  std::unique_ptr<Channel> channel;
  std::unique_ptr<SSL, Free<SSL, SSL_free>> client;
};

std::string close_after(const std::string& request) {
  std::string text = request;
  return text.insert(text.find("\r\n") + 2, "Connection: close\r\n");
}

class HttpTls : public testing::Test {
 protected:
  static void SetUpTestSuite() { std::signal(SIGPIPE, SIG_IGN); }  // Of the clients here.

  HttpTls() { files.make("one"); }

  std::shared_ptr<TlsIdentity> identity(const std::string& name = "one") const {
    return std::make_shared<TlsIdentity>(files.path(name + ".pem"), files.path(name + ".key"));
  }
  HttpParams params() const { return {.tls = identity()}; }
  std::string problem(const std::string& certificate, const std::string& key) const {
    try {
      TlsIdentity(files.path(certificate), files.path(key));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  Files files;
};

void echo_over_tls(const std::shared_ptr<Exchange>& exchange) {
  exchange->send({.body = exchange->request().scheme + " " + exchange->request().body});
}

TEST_F(HttpTls, ServesRequestsAndKeepsConnections) {
  RunningServer server(echo_over_tls, params());
  EXPECT_EQ(server->addresses().front(), "https://127.0.0.1:" + std::to_string(server.port()));
  for (const int most : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(server.port(), most);
    ASSERT_TRUE(client.is_secure());
    client.send(post("/", "first") + post("/", "second"));
    client.send(close_after(post("/", "third")));
    const std::string text = client.read_all();
    for (const char* body : {"https first", "https second", "https third"})
      EXPECT_THAT(text, HasSubstr(body));
    EXPECT_TRUE(client.ended_properly());
  }
  EXPECT_EQ(server->counts().n_requests, 6);
  EXPECT_EQ(server->counts().n_accepted, 2);
}

TEST_F(HttpTls, ReadsLargeBodiesAndStreams) {
  RunningServer server(
      [](const std::shared_ptr<Exchange>& exchange) {
        exchange->begin(200, "text/plain");
        exchange->write(exchange->request().body);
        exchange->end();
      },
      params());
  TlsClient client(server.port());
  std::string body(16 << 20, 'x');
  for (std::size_t i = 0; i < body.size(); i += 997) body[i] = static_cast<char>('a' + i % 26);
  std::thread sender([&] { client.send(close_after(post("/", body))); });
  sender.join();
  const std::string text = client.read_all();
  EXPECT_THAT(text.substr(0, 200), HasSubstr("Transfer-Encoding: chunked"));
  EXPECT_NE(text.find(body), text.npos);
  EXPECT_TRUE(text.ends_with("0\r\n\r\n"));
}

TEST_F(HttpTls, PlainHttpRequestsGetAnExplanation) {
  RunningServer server(echo_over_tls, params());
  for (const std::string& text : {get("/"), post("/x", "{}"), std::string("hello\r\n")}) {
    RawClient client(server.port());
    client.send(text);
    const auto answer = client.read_response();
    EXPECT_EQ(answer.status, 400);
    EXPECT_THAT(answer.body, HasSubstr("https://"));
    EXPECT_TRUE(client.at_end());
  }
  EXPECT_EQ(server->counts().n_requests, 0);
}

TEST_F(HttpTls, OldVersionsAndOtherProtocolsAreRefused) {
  std::atomic<int> n_refused = 0;
  HttpParams with_log = params();
  with_log.on_refused = [&](const RefusedRequest& refused) {
    n_refused += refused.reason.starts_with("the TLS handshake failed") ? 1 : 0;
  };
  RunningServer server(echo_over_tls, with_log);
  EXPECT_FALSE(TlsClient(server.port(), TLS1_1_VERSION).is_secure());
  EXPECT_FALSE(TlsClient(server.port(), TLS1_3_VERSION, "\x02h2").is_secure());
  EXPECT_TRUE(eventually([&] { return n_refused == 2; }));
  EXPECT_EQ(TlsClient(server.port(), TLS1_3_VERSION, "\x02h2\x08http/1.1").protocol(), "http/1.1");
}

TEST_F(HttpTls, HandshakesAreBoundedInTimeAndNumber) {
  HttpParams few = params();
  few.n_connections = 2;
  few.first_timeout = seconds(0);
  RunningServer server(echo_over_tls, few);
  RawClient silent(server.port()), half(server.port());
  half.send(std::string("\x16\x03\x01\x02\x00\x01", 6));
  EXPECT_TRUE(silent.at_end());
  EXPECT_TRUE(half.at_end());
  EXPECT_TRUE(eventually([&] { return server->counts().n_open == 0; }));
}

TEST_F(HttpTls, RefusalsAreSentWithinTls) {
  HttpParams few = params();
  few.n_connections = 1;
  RunningServer server(echo_over_tls, few);
  TlsClient first(server.port());
  TlsClient second(server.port());
  ASSERT_TRUE(second.is_secure());
  EXPECT_THAT(second.read_all(), StartsWith("HTTP/1.1 503"));
}

TEST_F(HttpTls, HalfClosedClientsGetTheirResponse) {
  HeldExchanges held;
  RunningServer server(held.handler(), params());
  TlsClient client(server.port());
  client.send(get("/"));
  const auto exchange = held.take();
  client.end_sending();
  const std::string interim = client.read(25);
  EXPECT_THAT(interim, StartsWith("HTTP/1.1 100"));
  exchange->send({.body = "late"});
  EXPECT_THAT(client.read_all(), HasSubstr("late"));
}

TEST_F(HttpTls, ConnectionsThatAreCutAreNoticed) {
  for (const bool has_begun : {false, true}) {
    HeldExchanges held;
    RunningServer server(held.handler(), params());
    TlsClient client(server.port());
    client.send(get("/"));
    const auto exchange = held.take();
    if (has_begun) exchange->begin(200, "text/plain");
    client.end_socket();  // Without the end of TLS.
    EXPECT_TRUE(eventually([&] { return exchange->closed(); }));
    client.close();
    EXPECT_TRUE(eventually([&] { return server->counts().n_open == 0; }));
  }
}

TEST_F(HttpTls, SlowReadersDelayOnlyTheirOwnResponse) {
  HeldExchanges held;
  RunningServer server(held.handler(), params());
  TlsClient slow(server.port());
  slow.send(get("/"));
  const auto large = held.take();
  large->begin(200, "text/plain");
  for (int i = 0; i < 64; ++i) large->write(std::string(1 << 20, 'x'));
  large->end();
  TlsClient other(server.port());
  other.send(close_after(get("/")));
  held.take()->send({.body = "quick"});
  EXPECT_THAT(other.read_all(), HasSubstr("quick"));
  EXPECT_GT(large->n_unsent(), 0U);
  EXPECT_GT(slow.read(64 << 20).size(), 63U << 20);
}

TEST_F(HttpTls, ReloadedCertificatesServeLaterConnections) {
  const auto tls = std::make_shared<TlsIdentity>(files.path("one.pem"), files.path("one.key"));
  RunningServer server(echo_over_tls, {.tls = tls});
  TlsClient before(server.port());
  EXPECT_EQ(before.server_name(), "one");
  files.make("two");
  for (const char* end : {".pem", ".key"})
    std::filesystem::copy_file(files.path(std::string("two") + end), files.path(std::string("one") + end),
                               std::filesystem::copy_options::overwrite_existing);
  tls->reload();
  EXPECT_EQ(TlsClient(server.port()).server_name(), "two");
  before.send(close_after(get("/")));
  EXPECT_THAT(before.read_all(), HasSubstr("200 OK"));
  // If a file cannot be read, the old certificate stays.
  files.write("one.key", "");
  EXPECT_THROW(tls->reload(), Error);
  EXPECT_EQ(TlsClient(server.port()).server_name(), "two");
}

TEST_F(HttpTls, ClosedChannelsLeaveTheirDescriptorAlone) {
  const auto tls = identity();
  ChannelPair pair(*tls);
  ASSERT_TRUE(pair.shake_hands());
  const int descriptor = pair.channel->socket().native_handle();
  pair.channel->close();
  // Another connection gets the same number.
  std::array<int, 2> other{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, other.data()), 0);
  if (other[0] != descriptor) {
    ASSERT_EQ(::dup2(other[0], descriptor), descriptor);
    ::close(other[0]);
  }
  ASSERT_EQ(::send(other[1], "mine", 4, 0), 4);
  std::string reason;
  error_code error;
  EXPECT_EQ(pair.channel->handshake(reason), Channel::Handshake::kFailed);
  EXPECT_EQ(pair.channel->write_some(asio::buffer("text", 4), error), 0U);
  EXPECT_TRUE(error);
  pair.channel->end_writing();
  EXPECT_FALSE(pair.channel->has_read());
  EXPECT_NE(pair.read(), "mine");
  std::array<char, 256> bytes{};
  EXPECT_LT(::recv(other[1], bytes.data(), bytes.size(), 0), 0);
  EXPECT_EQ(::recv(descriptor, bytes.data(), bytes.size(), 0), 4);
  ::close(other[1]);
  ::close(descriptor);
}

TEST_F(HttpTls, ReadsThatMustWriteWaitUntilTheSocketTakesIt) {
  const auto tls = identity();
  ChannelPair pair(*tls);
  ASSERT_TRUE(pair.shake_hands());
  EXPECT_EQ(pair.channel->read_wait(), Socket::wait_read);
  SSL_key_update(pair.client.get(), SSL_KEY_UPDATE_REQUESTED);
  ASSERT_EQ(SSL_do_handshake(pair.client.get()), 1);
  const std::string block(4096, 'x');
  while (::send(pair.channel->socket().native_handle(), block.data(), block.size(), MSG_NOSIGNAL) > 0) {
  }
  const std::string would_block = error_code(asio::error::would_block).message();
  EXPECT_EQ(pair.read(), would_block);
  // New keys go out before the next bytes of either direction.
  error_code error;
  EXPECT_EQ(pair.channel->write_some(asio::buffer("text", 4), error), 0U);
  EXPECT_EQ(error, asio::error::would_block);
  EXPECT_EQ(pair.channel->write_wait(), Socket::wait_write);
  EXPECT_EQ(pair.read(), would_block);
  EXPECT_EQ(pair.channel->read_wait(), Socket::wait_write);
  EXPECT_GT(pair.drain(), 0U);
  EXPECT_EQ(pair.read(), would_block);
  EXPECT_EQ(pair.channel->read_wait(), Socket::wait_read);
  EXPECT_GT(pair.drain(), 0U);
}

TEST_F(HttpTls, HalvesOfRecordsWaitForTheRest) {
  const auto tls = identity();
  for (const int most : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    ChannelPair pair(*tls, most);
    ASSERT_TRUE(pair.shake_hands());
    BIO* const memory = BIO_new(BIO_s_mem());
    SSL_set0_wbio(pair.client.get(), memory);
    ASSERT_EQ(SSL_write(pair.client.get(), "text", 4), 4);
    const std::string record = text_of(memory);
    const std::string would_block = error_code(asio::error::would_block).message();
    for (std::size_t i = 0; i < record.size(); ++i) {
      EXPECT_EQ(pair.read(), would_block);
      EXPECT_FALSE(pair.channel->has_read());
      EXPECT_EQ(pair.channel->read_wait(), Socket::wait_read);
      ASSERT_EQ(::send(pair.client_socket, &record[i], 1, 0), 1);
    }
    EXPECT_EQ(pair.read(), "text");
  }
}

TEST_F(HttpTls, HandshakesOutliveReloads) {
  const auto tls = identity();
  ChannelPair pair(*tls);
  std::string reason;
  EXPECT_EQ(pair.channel->handshake(reason), Channel::Handshake::kReads);
  tls->reload();
  EXPECT_TRUE(pair.shake_hands());
}

TEST_F(HttpTls, RenegotiationIsRefused) {
  const auto tls = identity();
  ChannelPair pair(*tls, TLS1_2_VERSION);
  ASSERT_TRUE(pair.shake_hands());
  ASSERT_EQ(SSL_renegotiate(pair.client.get()), 1);
  EXPECT_LT(SSL_do_handshake(pair.client.get()), 0);
  EXPECT_EQ(pair.read(), error_code(asio::error::would_block).message());
  const int result = SSL_do_handshake(pair.client.get());
  EXPECT_EQ(SSL_get_error(pair.client.get(), result), SSL_ERROR_SSL);
  ERR_clear_error();
}

TEST_F(HttpTls, ServersStopDuringHandshakes) {
  for (const bool drains : {false, true}) {
    RunningServer server(echo_over_tls, params());
    RawClient half(server.port());
    half.send(std::string("\x16\x03\x01\x02\x00\x01", 6));
    EXPECT_TRUE(eventually([&] { return server->counts().n_open == 1; }));
    if (drains) {
      server->stop_accepting();
      EXPECT_TRUE(eventually([&] { return server->counts().n_open == 0; }));
    }
    server.stop();
    EXPECT_TRUE(half.at_end());
  }
}

TEST_F(HttpTls, FilesThatCannotServeAreNamed) {
  files.make("two");
  files.make("encrypted", 1, true);
  files.write("empty", "");
  files.write("text", "no certificate");
  files.write("der", std::string("\x30\x82\x01\x0a\x02\x82", 6));
  files.write("cut.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n");
  EXPECT_EQ(problem("one.pem", "one.key"), "");
  EXPECT_THAT(problem("none.pem", "one.key"),
              testing::AllOf(HasSubstr("none.pem"), HasSubstr("No such file")));
  EXPECT_THAT(problem("one.pem", "none.key"),
              testing::AllOf(HasSubstr("none.key"), HasSubstr("No such file")));
  EXPECT_THAT(problem("one.pem", "two.key"),
              testing::AllOf(HasSubstr("two.key' does not match"), HasSubstr("one.pem")));
  EXPECT_THAT(problem("encrypted.pem", "encrypted.key"), HasSubstr("encrypted.key' is encrypted"));
  for (const char* name : {"empty", "text", "der", "cut.pem", "one.key", "."})
    EXPECT_THAT(problem(name, "one.key"), HasSubstr("no certificate in PEM form")) << name;
  for (const char* name : {"empty", "text", "der", "one.pem", "."})
    EXPECT_THAT(problem("one.pem", name), HasSubstr("no private key in PEM form")) << name;
}

TEST_F(HttpTls, DatesThatClientsRejectAreReported) {
  EXPECT_EQ(identity()->date_problem(), "");
  files.make("old", -1);
  EXPECT_THAT(identity("old")->date_problem(), HasSubstr("old.pem' has expired"));
}

}  // namespace
}  // namespace weft::server
