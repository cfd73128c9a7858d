"""What goes over the wire, without a client's help."""
import http.client
import json
import os
import signal
import socket
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def address(server):
    url = urllib.parse.urlparse(server.url)
    return url.hostname, url.port


def post(address, path, body, headers=None):
    connection = http.client.HTTPConnection(*address, timeout=60)
    text = body if isinstance(body, (str, bytes)) else json.dumps(body)
    connection.request("POST", path, text, {"Content-Type": "application/json", **(headers or {})})
    answer = connection.getresponse()
    return answer, answer.read()


def get(address, path, headers=None):
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.request("GET", path, headers=headers or {})
    answer = connection.getresponse()
    return answer, answer.read()


def wait_until(what, holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def n_requests(address):
    """That run or wait."""
    lines = get(address, "/metrics")[1].decode().splitlines()
    return sum(int(float(line.split()[-1])) for line in lines
               if line.startswith(("weft:num_requests_running", "weft:num_requests_waiting")))


CHAT = {"messages": [{"role": "user", "content": "Say something short."}], "max_tokens": 8, "temperature": 0}


def test_status_endpoints(address):
    for path in ("/health", "/ready", "/v1/models", "/props", "/slots", "/metrics"):
        answer, body = get(address, path)
        assert answer.status == 200, (path, body)
    assert json.loads(get(address, "/health")[1]) == {"status": "ok"}
    assert b"weft:time_to_first_token_seconds_bucket" in get(address, "/metrics")[1]


def test_models_are_found_by_a_part_of_their_names(address):
    name = json.loads(get(address, "/v1/models")[1])["data"][0]["id"]
    for part in (name, name.upper(), name + ".gguf", name[:8].lower(), "gpt-4o", ""):
        answer, text = post(address, "/v1/chat/completions", {**CHAT, "model": part})
        assert answer.status == 200 and json.loads(text)["model"] == name, part


def test_a_model_that_cannot_be_loaded_is_the_servers_fault(start_server, tmp_path):
    golden = Path(__file__).parent.parent / "data/golden"
    broken = tmp_path / "broken.gguf"
    whole = (golden / "gemma3/model.gguf").read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    address = start_server("-m", str(golden / "llama/model.gguf"), "-m", str(broken), "-c", "512").address
    body = {"model": "broken", "prompt": "x", "max_tokens": 2}
    for _ in range(3):
        answer, text = post(address, "/v1/completions", body)
        assert answer.status == 503 and int(answer.headers["Retry-After-Ms"]) > 0, text
        assert "the model 'broken' could not be loaded: " in json.loads(text)["error"]["message"]
        assert str(tmp_path) not in text.decode()
    assert get(address, "/ready")[0].status == 200  # For the other one.
    broken.write_bytes(whole)
    deadline = time.time() + 60
    while (answer := post(address, "/v1/completions", body))[0].status != 200 and time.time() < deadline:
        time.sleep(0.1)
    assert answer[0].status == 200, answer[1]


def test_stream_format(address):
    answer, body = post(address, "/v1/chat/completions", {**CHAT, "stream": True})
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    events = [line for line in body.decode().split("\n\n") if line]
    assert all(event.startswith("data: ") for event in events)
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(event[6:]) for event in events[:-1]]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-1]["choices"][0]["finish_reason"] in ("stop", "length")


@pytest.mark.parametrize("body, status", [
    ("", 400), ("{", 400), ("[]", 400), ("nonsense", 400), ("{}", 400), (b"\xff\xfe", 400),
    ('{"messages": ' + "[" * 100000, 400), ({"messages": "x"}, 400), ({"messages": [{"role": "user"}]}, 400),
    ({"messages": [{"content": "x"}]}, 400), ({**CHAT, "max_tokens": 1e300}, 400),
])
def test_errors_have_the_apis_shape(address, body, status):
    answer, text = post(address, "/v1/chat/completions", body)
    assert answer.status == status, text
    error = json.loads(text)["error"]
    assert error["message"] and error["type"] == "invalid_request_error"
    assert set(error) == {"message", "type", "param", "code"}


def test_unknown_paths_and_methods(address):
    assert get(address, "/v1/nothing")[0].status == 404
    assert get(address, "/v1/chat/completions")[0].status == 405
    answer, body = post(address, "/v1/messages", {})
    assert answer.status == 400 and json.loads(body)["type"] == "error"


def test_pages_of_others_are_kept_out(address):
    body = json.dumps(CHAT)
    own = f"http://{address[0]}:{address[1]}"
    for headers, status in (({"Origin": own}, 200), ({"Origin": "http://localhost:3000"}, 200), ({}, 200),
                            ({"Origin": "https://evil.example"}, 403), ({"Origin": "null"}, 403),
                            ({"Host": "evil.example:8080"}, 403)):
        answer, text = post(address, "/v1/chat/completions", body, headers)
        assert answer.status == status, (headers, text)
        assert answer.headers["Access-Control-Allow-Origin"] == (headers.get("Origin") if status == 200 else None)


def test_cors(start_server):
    url = urllib.parse.urlparse(start_server("--cors").url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=10)
    connection.request("OPTIONS", "/v1/chat/completions", headers={"Origin": "http://elsewhere"})
    answer = connection.getresponse()
    assert answer.status == 204 and answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]


def test_tokens_and_back(address):
    text = "Grüße, 世界! 🙂"
    tokens = json.loads(post(address, "/tokenize", {"content": text})[1])["tokens"]
    assert json.loads(post(address, "/detokenize", {"tokens": tokens})[1])["content"] == text
    answer, body = post(address, "/detokenize", {"tokens": [-1]})
    assert answer.status == 400
    prompt = json.loads(post(address, "/apply-template", {"messages": CHAT["messages"]})[1])["prompt"]
    assert CHAT["messages"][0]["content"] in prompt


def test_sessions(address):
    prompt = {"prompt": "The history of bread begins with grain, water and fire, and", "max_tokens": 8,
              "temperature": 0, "id_slot": 0}
    first = json.loads(post(address, "/v1/completions", prompt)[1])
    saved = json.loads(post(address, "/slots/0?action=save", {"filename": "bread.bin"})[1])
    assert saved["n_saved"] > 8
    assert json.loads(post(address, "/slots/0?action=erase", {})[1])["n_erased"] > 0
    restored = json.loads(post(address, "/slots/3?action=restore", {"filename": "bread.bin"})[1])
    assert restored["n_restored"] == saved["n_saved"]
    again = json.loads(post(address, "/v1/completions", prompt)[1])
    assert again["choices"][0]["text"] == first["choices"][0]["text"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    for name in ("../x", "/etc/passwd", ".hidden", "a/b", "", "x" * 200, "a\u0000b"):
        assert post(address, "/slots/0?action=save", {"filename": name})[0].status == 400


def test_slots_of_reports_about_other_servers(address):
    """An empty slot, a missing file and a damaged one crashed llama.cpp's server, or left it with an empty cache."""
    assert post(address, "/slots/6?action=save", {"filename": "empty.bin"})[0].status == 400
    prompt = {"prompt": "The history of rice begins with grain, water and fire, and", "max_tokens": 8, "temperature": 0, "id_slot": 5}
    first = json.loads(post(address, "/v1/completions", prompt)[1])
    assert post(address, "/slots/5?action=restore", {"filename": "nothing.bin"})[0].status == 404
    again = json.loads(post(address, "/v1/completions", prompt)[1])
    assert again["choices"][0]["text"] == first["choices"][0]["text"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_vanished_client_in_the_middle_of_a_prompt(address):
    long = {"messages": [{"role": "user", "content": "word " * 1500}], "max_tokens": 8}
    body = json.dumps(long)
    with socket.create_connection(address) as client:
        client.sendall((f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
        wait_until("the request has begun", lambda: n_requests(address) > 0)
    wait_until("the request has gone", lambda: n_requests(address) == 0)


def test_terminate_ends_streams_in_order(start_server):
    mine = start_server("--shutdown-timeout", "20")
    url = urllib.parse.urlparse(mine.url)
    address = (url.hostname, url.port)
    bodies = []

    def stream():
        bodies.append(post(address, "/v1/chat/completions", {**CHAT, "max_tokens": 64, "stream": True})[1])

    threads = [threading.Thread(target=stream) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_until("all have begun", lambda: n_requests(address) + len(bodies) == 8)
    os.kill(mine.process.pid, signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert mine.process.wait(30) == 0
    assert all(body.endswith(b"data: [DONE]\n\n") for body in bodies) and len(bodies) == 8


def test_second_terminate_ends_at_once(start_server):
    mine = start_server()
    url = urllib.parse.urlparse(mine.url)
    address = (url.hostname, url.port)
    bodies = []

    def stream():
        bodies.append(post(address, "/v1/chat/completions",
                           {**CHAT, "max_tokens": 1900, "stream": True, "ignore_eos": True})[1])

    thread = threading.Thread(target=stream)
    thread.start()
    wait_until("it has begun", lambda: n_requests(address) == 1)
    mine.process.terminate()
    wait_until("it shuts down", lambda: "stopping after" in mine.text())
    mine.process.terminate()
    assert mine.process.wait(15) == 0
    thread.join()
    assert b'"error"' in bodies[0]


def test_the_access_log_has_the_live_stream_once_its_client_has_gone(start_server, tmp_path):
    model = Path(__file__).parent.parent / "data/golden/llama/model.gguf"
    mine = start_server("-m", str(model), "-c", "512", "--access-log", str(tmp_path / "log"))

    def logged():
        lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        return [line for line in lines if line["path"] == "/live"]

    connection = http.client.HTTPConnection(*mine.address, timeout=60)
    connection.request("GET", "/live")
    answer = connection.getresponse()
    assert answer.readline().startswith(b"data: ") and logged() == []
    answer.close()
    connection.close()
    for _ in range(20_000):
        if logged():
            break
        get(mine.address, "/ready")
    (line,) = logged()
    assert line["status"] == 200 and line["bytes_out"] > 0


@pytest.mark.parametrize("hosts, found", [
    ("127.0.0.1, [::1]", ["127.0.0.1", "[::1]"]), ("0.0.0.0,::", ["127.0.0.1", "[::1]"]),
    ("::,0.0.0.0", ["127.0.0.1", "[::1]"]), ("127.0.0.1,127.0.0.1", ["127.0.0.1"]),
])
def test_lists_of_hosts(start_server, hosts, found):
    mine = start_server("--host", hosts)
    port = mine.url.rsplit(":", 1)[1]
    for host in found:
        with urllib.request.urlopen(f"http://{host}:{port}/health", timeout=30) as answer:
            assert answer.status == 200
    assert mine.stop() == 0


def test_prefixes_of_paths(start_server, tmp_path):
    path = tmp_path / "a.sock"
    mine = start_server("--host", f"127.0.0.1,unix://{path}")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert client.recv(64).startswith(b"HTTP/1.1 200")
    assert mine.stop() == 0 and not path.exists()


def test_hosts_are_one_list(start_server):
    mine = start_server("--host", "127.0.0.2,127.0.0.1", "--host", "0.0.0.0")
    port = mine.address[1]
    for host in ("127.0.0.2", "127.0.0.1", "0.0.0.0"):
        assert f"listening address=http://{host}:{port}" in mine.text()
    assert mine.text().count("includes this one") == 2
    for host in ("127.0.0.1", "127.0.0.2"):
        assert get((host, port), "/health")[0].status == 200
