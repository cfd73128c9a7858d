"""Servers that other machines use: host names, prefixes, keys, tenants and logs."""
import json
from pathlib import Path

import pytest
from test_wire import get, post

TINY = ("-m", str(Path(__file__).parent.parent / "data/golden/llama/model.gguf"), "-c", "512", "-np", "2")


def log_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def proxied(start_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxied")
    slots = folder / "slots"
    slots.mkdir()
    (slots / "link").symlink_to("/etc/passwd")
    mine = start_server(*TINY, "--allowed-host", "https://chat.example.com", "--api-prefix", "llm/", "--access-log", str(folder / "log"),
                        "--slot-save-path", str(slots))
    mine.access_log = folder / "log"
    return mine


def test_allowed_hosts_are_served_and_others_are_not(proxied):
    for host, status in (("chat.example.com", 200), ("CHAT.example.com.:443", 200), ("LOCALHOST", 200), ("[::1]:80", 200),
                         ("127.evil.com", 403), ("127.0.0.1.nip.io", 403), ("127.0.0.1@evil.com", 403), ("example.com", 403)):
        for path in ("/", "/health", "/v1/models"):
            answer, body = get(proxied.address, path, {"Host": host})
            assert answer.status == status, (host, path, body)
    answer, body = get(proxied.address, "/", {"Host": "weft.example.org"})
    assert b"--allowed-host weft.example.org" in body


def test_trusted_pages_may_read_responses(proxied):
    answer, _ = get(proxied.address, "/v1/models", {"Origin": "https://chat.example.com"})
    assert answer.status == 200 and answer.headers["Access-Control-Allow-Origin"] == "https://chat.example.com"
    answer, _ = get(proxied.address, "/v1/models", {"Origin": "https://evil.com"})
    assert answer.status == 403 and answer.headers["Access-Control-Allow-Origin"] is None


def test_listed_origins_hold_with_keys(start_server):
    listed = start_server(*TINY, "--api-key", "K", "--cors-origins", "https://a.example,b.example")
    for origin, status in (("https://a.example", 200), ("https://a.example:443", 200), ("http://b.example:81", 200),
                           ("https://evil.example", 403), ("http://a.example", 403), ("https://a.example:8443", 403)):
        answer, body = get(listed.address, "/v1/models", {"Origin": origin, "Authorization": "Bearer K"})
        assert answer.status == status, (origin, body)
        assert answer.headers["Access-Control-Allow-Origin"] == (origin if status == 200 else None)
    answer, _ = get(listed.address, "/v1/models", {"Host": "chat.example.com", "Authorization": "Bearer K"})
    assert answer.status == 200
    open_to_all = start_server(*TINY, "--api-key", "K")
    answer, _ = get(open_to_all.address, "/v1/models", {"Origin": "https://evil.example", "Authorization": "Bearer K"})
    assert answer.status == 200 and answer.headers["Access-Control-Allow-Origin"] == "*"


def test_paths_work_with_the_prefix_and_without(proxied):
    for path in ("/llm/health", "/health", "/llm/v1/models", "/llm/", "/llm/ui/main.js"):
        assert get(proxied.address, path)[0].status == 200, path
    answer, _ = get(proxied.address, "/llm")
    assert answer.status == 308 and answer.headers["Location"] == "/llm/"
    assert get(proxied.address, "/llmx/health")[0].status == 404


def test_refusals_of_the_parser_are_logged(proxied):
    answer, _ = post(proxied.address, "/v1/completions", b"\x1f\x8b", {"Content-Encoding": "gzip"})
    assert answer.status == 415
    answer, _ = get(proxied.address, "/x", {"Padding": "a" * (80 << 10)})
    assert answer.status == 431
    assert {415, 431} <= {line["status"] for line in log_lines(proxied.access_log)}


def test_the_log_has_sizes_and_the_proxys_chain(proxied):
    body = json.dumps({"prompt": "a", "max_tokens": 2})
    answer, text = post(proxied.address, "/v1/completions", body, {"X-Forwarded-For": "203.0.113.7", "X-Request-Id": "mine"})
    assert answer.status == 200
    (line,) = [line for line in log_lines(proxied.access_log) if line["id"] == "mine"]
    assert line["forwarded_for"] == "203.0.113.7" and line["bytes_in"] == len(body) and line["bytes_out"] > len(text)


def test_links_in_the_slot_folder_are_the_clients_error(proxied):
    answer, body = post(proxied.address, "/slots/0?action=restore", {"filename": "link"})
    assert answer.status == 400 and b"symbolic link" in body


def test_tenants_have_slots_of_their_own(start_server, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# KEY NAME\nk-a alice\nk-b\tbob\n")
    slots = tmp_path / "slots"
    slots.mkdir()
    mine = start_server(*TINY, "--api-key-file", str(keys), "--slot-save-path", str(slots), "--access-log", str(tmp_path / "log"))
    alice, bob = {"X-Api-Key": "k-a", "Host": "any.example.com"}, {"Authorization": "Bearer k-b"}
    assert post(mine.address, "/v1/completions", {"prompt": "abc", "max_tokens": 2, "id_slot": 0}, alice)[0].status == 200
    assert post(mine.address, "/slots/0?action=save", {"filename": "x"}, bob)[0].status == 400
    assert post(mine.address, "/slots/0?action=save", {"filename": "x"}, alice)[0].status == 200
    assert post(mine.address, "/slots/0?action=restore", {"filename": "x"}, bob)[0].status == 404
    assert post(mine.address, "/slots/0?action=restore", {"filename": "x"}, alice)[0].status == 200
    assert get(mine.address, "/slots", alice)[0].status == get(mine.address, "/live", bob)[0].status == 403
    assert {"alice", "bob"} <= {line.get("key") for line in log_lines(tmp_path / "log")}


def test_keys_are_hidden_from_the_list_of_processes(start_server):
    mine = start_server(*TINY, "--api-key", "k-secret", "--api-key=k-hidden")
    shown = Path(f"/proc/{mine.process.pid}/cmdline").read_bytes()
    assert b"k-secret" not in shown and b"k-hidden" not in shown
    for key in ("k-secret", "k-hidden"):
        assert get(mine.address, "/v1/models", {"X-Api-Key": key})[0].status == 200


def test_many_messages_are_refused_and_fewer_cost_little(proxied):
    message = {"role": "user", "content": "a"}
    answer, body = post(proxied.address, "/v1/messages/count_tokens", {"messages": [message] * 16385})
    assert answer.status == 400 and b"16384" in body
    answer, body = post(proxied.address, "/apply-template", {"messages": [message] * 16385})
    assert answer.status == 400 and b"16384" in body
