// weft health: whether a server is ready, for health checks of containers and scripts.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>

#include "base/json.h"
#include "commands/command.h"
#include "files/json_output.h"
#include "http/listening.h"
#include "options/arguments.h"
#include "serving/http_probe.h"
#include "terminal/terminal.h"
#include "terminal/text_format.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr int kMaxSeconds = 3600;
constexpr int kPorts = 65535;
constexpr int kOk = 200;

struct HealthOptions {
  std::string url;
  std::string host = "127.0.0.1";
  int port = 8080;
  int max_time = 5;
  std::string ssl_cert_file;
};

// The server's status: {"status": "loading"}
std::string status_in(const std::string& body) {
  const Json json = base::try_parse_json<Json>(body).value_or(nullptr);
  const bool told = json.is_object() && json.contains("status") && json["status"].is_string();
  return told ? json["status"].get<std::string>() : std::string();
}

int run(const HealthOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);  // libcurl and OpenSSL write without MSG_NOSIGNAL.
  ProbeTarget target;
  if (options.url.empty()) {
    target.host = server::split_hosts(options.host).front();
    target.port = fmt::format("{}", options.port);
    target.tls = !options.ssl_cert_file.empty();
  } else {
    target = parse_probe_url(options.url);
  }
  ProbeResponse answer;
  try {
    answer = probe(target, std::chrono::seconds(options.max_time));
  } catch (const Error& error) {
    throw Error(ErrorCode::kUnavailable, fmt::format("{}: {}", target.url(), error.what()));
  }
  const std::string status = status_in(answer.body);
  const std::string line =
      one_line(fmt::format("{}: {}{}{}", target.url(), answer.status, status.empty() ? "" : " ", status));
  if (answer.status != kOk) throw Error(ErrorCode::kUnavailable, line);
  print(line + "\n");
  return kExitOk;
}

std::function<int()> prepare_health(CLI::App& app) {
  auto options = std::make_shared<HealthOptions>();
  const std::string group = "Server";
  app.add_option("URL", options->url, "URL of the server, in place of --host and --port");
  app.add_option("--host", options->host,
                 "address, or path of a Unix socket, of the server (default 127.0.0.1)")
      ->type_name("HOST")
      ->group(group);
  add_size(app, "--port", options->port, {1, kPorts}, "port of the server (default 8080)")->group(group);
  app.add_option("--ssl-cert-file", options->ssl_cert_file,
                 "use HTTPS if 'weft serve' has this option; the certificate is not verified")
      ->type_name("FILE")
      ->group(group);
  add_size(app, "--max-time", options->max_time, {1, kMaxSeconds},
           "seconds to wait for the response (default 5)")
      ->group(group);
  return [options] { return run(*options); };
}

}  // namespace

const Command kHealthCommand = {
    "health", "[options] [URL]", "check whether a server is ready",
    "Requests /health. Exits with 0 if the status is 200, otherwise or without a response with 1. The\n"
    "status is 503 while the model is loading. The address of 'weft serve' in the configuration file or the\n"
    "environment applies here, too.\n"
    "\n"
    "Examples:\n"
    "  weft health\n"
    "  weft health http://127.0.0.1:9000\n"
    "  weft health https://127.0.0.1:8443\n"
    "  weft health unix:/run/weft.sock\n",
    prepare_health};

}  // namespace weft::cli
