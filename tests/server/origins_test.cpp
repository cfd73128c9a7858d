#include "api/origins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::server {
namespace {

using testing::HasSubstr;

HttpRequest request_to(std::string host, std::string origin = "") {
  HttpRequest request{.method = "POST", .path = "/v1/chat/completions"};
  if (!host.empty()) request.headers.emplace_back("Host", std::move(host));
  if (!origin.empty()) request.headers.emplace_back("Origin", std::move(origin));
  return request;
}

/// The code of the error, or "".
std::string refusal(const std::string& host, const std::string& origin = "", const OriginRules& rules = {}) {
  const auto error = refuse_foreign_origin(request_to(host, origin), rules);
  return error ? error->code : "";
}

std::string header(const HttpHeaders& headers, const std::string& name) {
  for (const auto& [own, value] : headers)
    if (own == name) return value;
  return "";
}

TEST(Origins, ForeignHostsAreRefused) {
  for (const char* host :
       {"127.evil.com:18401", "127.0.0.1.nip.io", "127.0.0.1@evil.com", "rebound.evil.com:8080",
        "localhost.evil.com", "evil.com.", "EVIL.com", "example.com", "bad host"})
    EXPECT_EQ(refusal(host, std::string("http://") + host), "unknown_host") << host;
}

TEST(Origins, AddressesAndLocalNamesAreServed) {
  for (const char* host : {"127.0.0.1:8080", "LOCALHOST", "localhost.", "[::ffff:127.0.0.1]", "[::1]:8080",
                           "192.168.1.5:8080", "weft:8080", ""})
    EXPECT_EQ(refusal(host), "") << host;
}

TEST(Origins, ForeignPagesAreRefused) {
  for (const char* origin : {"http://127.evil.com", "https://evil.com", "null", "abc", "http://6.6.6.6",
                             "ollama.example.com", "chrome-extension://abcdefgh", "moz-extension://0-1",
                             "HTTPS://evil.com", "://", "http://localhost@evil.com"})
    EXPECT_EQ(refusal("localhost:8080", origin), "foreign_origin") << origin;
}

TEST(Origins, OwnAndLocalPagesAreServed) {
  EXPECT_EQ(refusal("192.168.1.5:8080", "http://192.168.1.5:8080"), "");
  EXPECT_EQ(refusal("192.168.1.5", "https://192.168.1.5:8443"), "");  // A proxy dropped the port.
  EXPECT_EQ(refusal("localhost:8080", "http://localhost:3000"), "");
  EXPECT_EQ(refusal("127.0.0.1:8080", "http://[::1]:3000"), "");
  for (const char* program : {"tauri://localhost", "app://obsidian.md", "vscode-webview://1f0c-77", "file://",
                              "vscode-file://vscode-app", "capacitor://localhost"})
    EXPECT_EQ(refusal("127.0.0.1:8080", program), "") << program;
}

TEST(Origins, AllowedHostsAreServed) {
  const OriginRules rules{.hosts = {"chat.example.com", ".team.example.org", "abcdefgh"}};
  EXPECT_EQ(refusal("localhost", "chrome-extension://abcdefgh", rules), "");
  EXPECT_EQ(refusal("chat.example.com", "https://chat.example.com", rules), "");
  EXPECT_EQ(refusal("Chat.Example.com.:443", "", rules), "");
  EXPECT_EQ(refusal("127.0.0.1:8080", "https://chat.example.com", rules),
            "");  // The proxy sets its own Host.
  EXPECT_EQ(refusal("a.team.example.org", "", rules), "");
  EXPECT_EQ(refusal("team.example.org", "", rules), "");
  EXPECT_EQ(refusal("evilteam.example.org", "", rules), "unknown_host");
  EXPECT_EQ(refusal("x.chat.example.com", "", rules), "unknown_host");
}

TEST(Origins, ListedOriginsMatchSchemeHostAndPort) {
  const OriginRules rules{.origins = {*parse_origin("https://a.example"),
                                      *parse_origin("http://b.example:81"),
                                      *parse_origin("chrome-extension://abcdefgh")}};
  for (const char* origin : {"https://a.example", "https://A.example:443", "http://b.example:81",
                             "chrome-extension://abcdefgh", "http://localhost:3000"})
    EXPECT_EQ(refusal("127.0.0.1:8080", origin, rules), "") << origin;
  for (const char* origin : {"http://a.example", "https://a.example:8443", "http://b.example",
                             "https://b.example:81", "https://x.a.example", "chrome-extension://other"})
    EXPECT_EQ(refusal("127.0.0.1:8080", origin, rules), "foreign_origin") << origin;
  EXPECT_EQ(refusal("a.example:8080", "", rules), "");
}

TEST(Origins, AListHoldsWithKeysToo) {
  const OriginRules rules{.any_host = true, .origins = {*parse_origin("https://a.example")}};
  EXPECT_EQ(refusal("chat.example.com", "", rules), "");
  EXPECT_EQ(refusal("chat.example.com", "https://chat.example.com", rules), "");
  EXPECT_EQ(refusal("chat.example.com", "https://a.example", rules), "");
  EXPECT_EQ(refusal("chat.example.com", "https://evil.example", rules), "foreign_origin");
  const HttpRequest evil = request_to("chat.example.com", "https://evil.example");
  EXPECT_EQ(header(cors_headers(evil, rules), "Access-Control-Allow-Origin"), "");
  EXPECT_THAT(refuse_foreign_origin(evil, rules)->what(), testing::Not(HasSubstr("API key")));
}

TEST(Origins, WithoutTheGuardAllAreServed) {
  EXPECT_EQ(refusal("evil.com", "http://other.com", {.all = true}), "");
}

TEST(Origins, MessagesSayWhichHostAndWhatToDo) {
  const auto host = refuse_foreign_origin(request_to("chat.example.com"), {});
  EXPECT_EQ(host->status, 403);
  EXPECT_THAT(host->what(), HasSubstr("--allowed-host chat.example.com"));
  const auto origin = refuse_foreign_origin(request_to("localhost", "https://chat.example.com"), {});
  EXPECT_THAT(origin->what(), HasSubstr("'https://chat.example.com'"));
}

TEST(Origins, TrustedPagesMayReadTheResponse) {
  const HttpHeaders trusted = cors_headers(request_to("127.0.0.1:8080", "http://localhost:3000"), {});
  EXPECT_EQ(header(trusted, "Access-Control-Allow-Origin"), "http://localhost:3000");
  EXPECT_EQ(header(trusted, "Vary"), "Origin");
  for (const char* other : {"http://evil.com", ""}) {
    const HttpHeaders others = cors_headers(request_to("127.0.0.1:8080", other), {});
    EXPECT_EQ(header(others, "Access-Control-Allow-Origin"), "");
    EXPECT_EQ(header(others, "Vary"), "Origin");
  }
  const HttpHeaders program = cors_headers(request_to("127.0.0.1:8080", "app://obsidian.md"), {});
  EXPECT_EQ(header(program, "Access-Control-Allow-Origin"), "app://obsidian.md");
  EXPECT_EQ(header(cors_headers(request_to("a.com"), {.all = true}), "Access-Control-Allow-Origin"), "*");
}

TEST(Origins, PreflightAllowsWhatThePageAsksFor) {
  HttpRequest request = request_to("localhost", "http://localhost:3000");
  request.headers.emplace_back("Access-Control-Request-Headers", "authorization,x-stainless-os");
  request.headers.emplace_back("Access-Control-Request-Private-Network", "true");
  const HttpResponse answer = preflight_response(request);
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(header(answer.headers, "Access-Control-Allow-Headers"), "authorization,x-stainless-os");
  EXPECT_EQ(header(answer.headers, "Access-Control-Allow-Private-Network"), "true");
  EXPECT_THAT(header(preflight_response(request_to("localhost")).headers, "Access-Control-Allow-Headers"),
              HasSubstr("Authorization"));
}

}  // namespace
}  // namespace weft::server
