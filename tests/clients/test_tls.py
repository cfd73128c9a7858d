"""HTTPS, and nginx in front of a server, as clients see them."""
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest
from test_proxies import TINY, log_lines
from test_wire import get, post

PROGRAM = os.environ.get("WEFT_PROGRAM", "build/release/weft")
NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: nginx-light)")
BODY = {"prompt": "abc", "max_tokens": 24, "ignore_eos": True}


def make_certificate(folder, name="localhost", *options):
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-keyout", key, "-out", certificate, "-days", "2", "-subj", f"/CN={name}",
                    "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1", *(options or ("-nodes",))], check=True, capture_output=True)  # fmt: skip
    return certificate, key


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = make_certificate(folder)
    return folder, certificate, key


@pytest.fixture(scope="module")
def secure(start_server, files):
    folder, certificate, key = files
    return start_server(*TINY, "--ssl-cert-file", str(certificate), "--ssl-key-file", str(key), "--access-log", str(folder / "log"))


def connect(server, certificate):
    return http.client.HTTPSConnection(*server.address, timeout=60, context=ssl.create_default_context(cafile=certificate))


def test_clients_check_the_certificate(secure, files):
    _, certificate, _ = files
    assert secure.url.startswith("https://")
    connection = connect(secure, certificate)
    for stream in (False, True, False):  # One connection.
        connection.request("POST", "/v1/completions", json.dumps({**BODY, "stream": stream}))
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200 and text.endswith(b"data: [DONE]\n\n") == stream
    with pytest.raises(ssl.SSLCertVerificationError):
        http.client.HTTPSConnection(*secure.address, timeout=60).request("GET", "/health")


def test_curl_and_openai(secure, files):
    _, certificate, _ = files
    if shutil.which("curl"):
        answer = subprocess.run(["curl", "-sS", "--cacert", certificate, secure.url + "/health"], capture_output=True, text=True)
        assert json.loads(answer.stdout)["status"] == "ok", answer.stderr
    httpx, openai = pytest.importorskip("httpx"), pytest.importorskip("openai")
    context = ssl.create_default_context(cafile=certificate)
    with openai.OpenAI(base_url=secure.url + "/v1", api_key="none", http_client=httpx.Client(verify=context)) as client:
        pieces = client.completions.create(model="default", prompt="abc", max_tokens=8, stream=True)
        assert len(list(pieces)) > 1


def test_large_bodies_and_limits(secure, files):
    _, certificate, _ = files
    connection = connect(secure, certificate)
    connection.request("POST", "/tokenize", json.dumps({"content": "word " * 3_000_000}))
    assert connection.getresponse().status in (200, 400)
    connection = connect(secure, certificate)
    try:
        connection.request("POST", "/tokenize", b"x" * ((16 << 20) + 1))
        assert connection.getresponse().status == 413
    except OSError:
        pass  # The server has closed before all was sent.


def test_plain_clients_get_a_sentence_and_the_log_has_it(secure, files):
    folder, _, _ = files
    answer, body = get(secure.address, "/health")
    assert answer.status == 400 and b"https://" in body
    with socket.create_connection(secure.address, timeout=60) as client:
        client.sendall(b"\x16\x03\x01\x00\x04\x01\x00\x00\x00")  # A greeting without content.
        client.recv(100)
    assert any("TLS" in line.get("error", "") for line in log_lines(folder / "log"))


def test_health_speaks_https(secure, files):
    _, certificate, _ = files
    for words in ([secure.url], ["--port", str(secure.address[1]), "--ssl-cert-file", certificate]):
        assert subprocess.run([PROGRAM, "health", *words]).returncode == 0
    assert subprocess.run([PROGRAM, "health", secure.url.replace("https", "http")]).returncode == 1


def test_bench_checks_the_certificate(secure, files):
    _, certificate, _ = files
    command = [PROGRAM, "bench", "--serve", secure.url, "--requests", "4", "--concurrency", "2", "-p", "8", "-n", "4", "-o", "json"]
    trusted = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "SSL_CERT_FILE": str(certificate)})
    assert trusted.returncode == 0, trusted.stderr
    row = json.loads(trusted.stdout)["results"][0]
    assert row["complete"] == 4 and row["failed"] == 0
    unknown = subprocess.run(command, capture_output=True, text=True)
    assert unknown.returncode == 1 and "certificate verify failed" in unknown.stderr and "SSL_CERT_FILE" in unknown.stderr


def test_sighup_reads_the_certificate_again(start_server, tmp_path):
    certificate, key = make_certificate(tmp_path)
    mine = start_server(*TINY, "--ssl-cert-file", str(certificate), "--ssl-key-file", str(key))
    before = ssl.get_server_certificate(mine.address)

    def reload_until(done):
        mine.process.send_signal(signal.SIGHUP)
        deadline = time.time() + 60
        while not done() and time.time() < deadline:
            time.sleep(0.05)
        assert done(), mine.text()

    key.write_text("")
    reload_until(lambda: "the old one stays" in mine.text())
    assert ssl.get_server_certificate(mine.address) == before
    make_certificate(tmp_path)
    reload_until(lambda: ssl.get_server_certificate(mine.address) != before)


def test_files_that_cannot_serve_are_named(tmp_path):
    certificate, key = make_certificate(tmp_path)
    _, other = make_certificate(tmp_path, "other")
    locked_certificate, locked = make_certificate(tmp_path, "locked", "-passout", "pass:secret")
    for words, says in ((("--ssl-cert-file", certificate), "--ssl-key-file"), (("--ssl-key-file", key), "--ssl-cert-file"),
                        (("--ssl-cert-file", tmp_path / "none", "--ssl-key-file", key), "No such file"),
                        (("--ssl-cert-file", certificate, "--ssl-key-file", other), "does not match"),
                        (("--ssl-cert-file", key, "--ssl-key-file", certificate), "no certificate"),
                        (("--ssl-cert-file", locked_certificate, "--ssl-key-file", locked), "is encrypted"),
                        (("--trusted-proxy", "proxy.example.com"), "--trusted-proxy")):  # fmt: skip
        ended = subprocess.run([PROGRAM, "serve", *TINY, "--port", "0", *map(str, words)], capture_output=True, text=True, timeout=120)
        assert ended.returncode != 0 and says in ended.stderr, (words, ended.stderr)


def test_only_trusted_proxies_name_clients(start_server, tmp_path):
    chain = {"X-Forwarded-For": "6.6.6.6, 203.0.113.7", "X-Forwarded-Proto": "https"}
    for trusted, client, scheme in ((("--trusted-proxy", "127.0.0.0/8"), "203.0.113.7", "https"), ((), "127.0.0.1", "http")):
        log = tmp_path / f"log-{client}"
        mine = start_server(*TINY, "--access-log", str(log), *trusted)
        assert post(mine.address, "/v1/completions", BODY, chain)[0].status == 200
        (line,) = log_lines(log)
        assert (line["client"], line["scheme"]) == (client, scheme)


@pytest.fixture(scope="module")
def proxied(start_server, files, secure):
    folder, certificate, key = files
    plain = start_server(*TINY, "--allowed-host", "chat.example.com", "--api-prefix", "/llm", "--trusted-proxy", "127.0.0.1",
                         "--access-log", str(folder / "proxied.log"))  # fmt: skip
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        ports = one.getsockname()[1], two.getsockname()[1]
    common = """proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme;"""
    (folder / "nginx.conf").write_text(f"""
worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log; daemon off;
events {{ worker_connections 256; }}
http {{
  access_log off; client_max_body_size 16m; keepalive_requests 10000;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  upstream plain {{ server 127.0.0.1:{plain.address[1]}; keepalive 8; }}
  upstream secure {{ server 127.0.0.1:{secure.address[1]}; keepalive 8; }}
  server {{
    listen 127.0.0.1:{ports[0]};
    location /llm/ {{ proxy_pass http://plain; {common} }}
    location /cut/ {{ proxy_pass http://plain/; {common} }}
    location /tls/ {{ proxy_pass https://secure/; proxy_ssl_trusted_certificate {certificate}; proxy_ssl_verify on; proxy_ssl_name localhost;
                      proxy_http_version 1.1; proxy_set_header Connection ""; proxy_ssl_session_reuse on; }}
  }}
  server {{
    listen 127.0.0.1:{ports[1]} ssl; ssl_certificate {certificate}; ssl_certificate_key {key};
    location / {{ proxy_pass http://plain; {common} }}
  }}
}}
""")
    process = subprocess.Popen([NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")])
    deadline = time.time() + 60
    while time.time() < deadline:
        try:
            socket.create_connection(("127.0.0.1", ports[0]), timeout=60).close()
            break
        except OSError:
            assert process.poll() is None, (folder / "nginx.log").read_text()
            time.sleep(0.05)
    yield ports, folder / "proxied.log"
    process.terminate()
    process.wait(60)


@needs_nginx
def test_nginx_passes_requests_with_and_without_tls(proxied, files):
    (port, tls_port), log = proxied
    host = {"Host": "chat.example.com"}
    for prefix in ("/llm", "/cut", "/tls"):
        for _ in range(5):  # Connections to the server are kept.
            assert get(("127.0.0.1", port), prefix + "/health", host)[0].status == 200
            assert post(("127.0.0.1", port), prefix + "/v1/completions", BODY, host)[0].status == 200
    assert get(("127.0.0.1", port), "/llm/health", {"Host": "evil.com"})[0].status == 403
    connection = http.client.HTTPSConnection("127.0.0.1", tls_port, timeout=60, context=ssl.create_default_context(cafile=files[1]))
    connection.request("POST", "/v1/completions", json.dumps(BODY), {**host, "X-Forwarded-For": "203.0.113.7", "X-Request-Id": "far"})
    assert connection.getresponse().status == 200
    (line,) = [line for line in log_lines(log) if line["id"] == "far"]
    # The client's own word is before the address that nginx saw, which is trusted here.
    assert line["client"] == "203.0.113.7" and line["scheme"] == "https"


@needs_nginx
def test_nginx_does_not_hold_streams_back(proxied):
    (port, _), _ = proxied
    for prefix in ("/llm", "/tls"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", prefix + "/v1/completions", json.dumps({**BODY, "max_tokens": 400, "stream": True}), {"Host": "chat.example.com"})
        answer = connection.getresponse()
        n_reads = 0
        while answer.read1(1 << 20):
            n_reads += 1
        assert n_reads > 5, prefix


@needs_nginx
def test_clients_that_leave_nginx_end_their_requests(proxied, files):
    (port, _), log = proxied
    body = json.dumps({**BODY, "max_tokens": 100_000, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(b"POST /llm/v1/completions HTTP/1.1\r\nHost: chat.example.com\r\nX-Request-Id: left\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        client.recv(1000)
    deadline = time.time() + 60
    while not (lines := [line for line in log_lines(log) if line["id"] == "left"]) and time.time() < deadline:
        time.sleep(0.05)
    assert lines and lines[0]["status"] in (200, 499)
