#!/usr/bin/env python3
"""soak.py PROGRAM [SECONDS] [CLIENTS] [IDLE] [REPORT]: a server's day.

CLIENTS stream, ask, follow schemas, embed, leave in the middle, send nonsense and too much, next to IDLE connections
that do nothing. Every greedy response must equal the one computed alone. In the end the server must hold no cells and no
descriptors, and its memory must be near the start. REPORT gets the numbers as JSON. Bounded in time; loopback only.
Exits with 1 where a problem was found.
"""
import collections
import http.client
import json
import os
import pathlib
import random
import re
import socket
import sys
import tempfile
import threading
import time

from weft_server import Server

QUESTIONS = [f"{verb} {thing}." for verb in ("Describe", "Count", "Praise", "Name the parts of", "Explain")
             for thing in ("a loom", "the sea", "seven horses", "a city in winter")]
SYSTEM = "You are a helpful assistant. " + "Answer in plain words and be as brief as you can. " * 8


class Day:
    def __init__(self, address, seconds):
        self.address, self.end = address, time.time() + seconds
        self.lock = threading.Lock()
        self.counts, self.problems, self.alone = collections.Counter(), [], {}

    def body(self, question, stream, **more):
        return json.dumps({"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}],
                           "temperature": 0, "max_tokens": 12, "stream": stream, **more})

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def problem(self, *what):
        with self.lock:
            self.problems.append(what)

    def ask(self, connection, question, stream):
        connection.request("POST", "/v1/chat/completions", self.body(question, stream), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read().decode()
        if answer.status in (429, 503):
            self.count(answer.status)
            time.sleep(0.2)
            return None
        if answer.status != 200:
            raise ValueError(f"{answer.status} {data[:200]}")
        if not stream:
            return json.loads(data)["choices"][0]["message"]["content"]
        if not data.endswith("data: [DONE]\n\n"):
            raise ValueError("the stream has no end: " + data[-200:])
        events = [json.loads(line[6:]) for line in data.split("\n\n") if line.startswith("data: {")]
        return "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e.get("choices"))

    def follow_schema(self, rng, connection):
        """Each with a schema of its own: compiled grammars are kept, up to a bound."""
        names = [f"p{rng.randrange(10**6)}" for _ in range(3)]
        schema = {"type": "object", "properties": {name: {"enum": ["a", "b"]} for name in names}, "required": names, "additionalProperties": False}
        body = self.body(rng.choice(QUESTIONS), False, max_tokens=100, response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": schema}})
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read().decode()
        if answer.status in (429, 503):
            return self.count(answer.status)
        choice = json.loads(data)["choices"][0]
        if choice["finish_reason"] == "stop" and sorted(json.loads(choice["message"]["content"])) != sorted(names):
            self.problem("schema", names, data[:300])

    def embed(self, rng, connection):
        """A vector, or an error of the client's."""
        connection.request("POST", "/v1/embeddings", json.dumps({"input": rng.choice(["a", ["a", "b"], 5, [], "word " * 100_000])}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
        if answer.status >= 500 and answer.status != 503:
            self.problem("embeddings", answer.status, data[:200])

    def leave(self, rng, question):
        """Disconnects at some moment: before the head, during prefill, during the response."""
        text = self.body(question * rng.choice([1, 1, 30]), True, max_tokens=200, ignore_eos=True).encode()
        with socket.create_connection(self.address, timeout=60) as s:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n".encode()
            s.sendall((head + text)[:rng.choice([10, len(head) + 20, len(head) + len(text)])])
            time.sleep(rng.random() * 0.3)
            if rng.random() < 0.5:
                s.settimeout(5)
                try:
                    s.recv(rng.choice([1, 500]))
                except OSError:
                    pass
            if rng.random() < 0.5:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # a reset

    def nonsense(self, rng):
        text = rng.choice([b"{", b"\xff" * 100, b"[" * 100000, b'{"messages": 5}', b'{"messages": [{"role": "user", "content": "'
                           + b"word " * 200000 + b'"}]}', b"x" * (2 << 20)])
        connection = http.client.HTTPConnection(*self.address, timeout=120)
        connection.request("POST", "/v1/chat/completions", text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
        if answer.status not in (400, 413, 503) or "error" not in json.loads(data):
            self.problem("nonsense", text[:50], answer.status, data[:200])
        connection.close()

    def client(self, seed):
        rng = random.Random(seed)
        connection = http.client.HTTPConnection(*self.address, timeout=120)
        while time.time() < self.end:
            question = rng.choice(QUESTIONS)
            try:
                kind = rng.random()
                if kind < 0.55:
                    text = self.ask(connection, question, rng.random() < 0.7)
                    if text is not None and text != self.alone[question]:
                        self.problem("differs", question, text, self.alone[question])
                    self.count("answers")
                elif kind < 0.65:
                    self.follow_schema(rng, connection)
                    self.count("schemas")
                elif kind < 0.7:
                    self.embed(rng, connection)
                    self.count("embeddings")
                elif kind < 0.9:
                    self.leave(rng, question)
                    self.count("left")
                else:
                    self.nonsense(rng)
                    self.count("nonsense")
            except (OSError, ValueError, http.client.HTTPException, KeyError) as error:
                self.problem(repr(error))
                connection.close()
                connection = http.client.HTTPConnection(*self.address, timeout=120)


def metric(address, pattern):
    connection = http.client.HTTPConnection(*address, timeout=30)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if re.match("weft:" + pattern, line))


def resident_mib(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) / 1024


def n_descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def n_threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def percentiles(values):
    values = sorted(values)
    return {f"p{p}": values[min(len(values) - 1, len(values) * p // 100)] for p in (50, 99)} if values else {}


def numbers_of(log, seconds):
    """What the access log says of the day."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return {"requests": len(lines), "status": dict(collections.Counter(line["status"] for line in lines)),
            "queue_ms": percentiles([line["queue_ms"] for line in lines if "queue_ms" in line]),
            "first_token_ms": percentiles([line["first_token_ms"] for line in lines if line.get("first_token_ms")]),
            "prompt_tokens_per_s": sum(line.get("prompt_tokens", 0) - line.get("cached_tokens", 0) for line in lines) / seconds}


def main():
    program = sys.argv[1]
    seconds, n_clients, n_idle = (int(sys.argv[i]) if len(sys.argv) > i else fallback for i, fallback in ((2, 60), (3, 64), (4, 1000)))
    log = pathlib.Path(tempfile.mkdtemp()) / "log"
    # A small cache of cells is in memory as a whole before it is measured.
    server = Server(program, "-c", "4k", "--access-log", str(log), *os.environ.get("WEFT_OPTIONS", "").split())
    pid = server.process.pid
    try:
        address = server.address
        day = Day(address, seconds)
        connection = http.client.HTTPConnection(*address, timeout=600)
        day.alone = {question: day.ask(connection, question, False) for question in QUESTIONS}
        connection.close()
        begin = {"rss_mib": resident_mib(pid), "descriptors": n_descriptors(pid), "threads": n_threads(pid)}
        day.end = time.time() + seconds
        idle = [idle_connection(address) for _ in range(n_idle)]
        threads = [threading.Thread(target=day.client, args=(i,)) for i in range(n_clients)]
        for thread in threads:
            thread.start()
        time.sleep(seconds * 0.3)
        early = resident_mib(server.process.pid)
        for thread in threads:
            thread.join()
        late = resident_mib(server.process.pid)
        deadline = time.time() + 60
        while metric(address, "num_requests_running") + metric(address, "num_requests_waiting") > 0 and time.time() < deadline:
            time.sleep(0.1)
        running_cells = metric(address, r'kv_cache_cells\{.*state="running"')
        alive = sum(1 for s in idle if is_open(s))
        for s in idle:
            s.close()
        deadline = time.time() + 60
        while n_descriptors(pid) > begin["descriptors"] and time.time() < deadline:
            time.sleep(0.1)
        time.sleep(11)  # Memory is returned every 5 s.
        end = {"rss_mib": resident_mib(pid), "descriptors": n_descriptors(pid), "threads": n_threads(pid)}
        report = {"seconds": seconds, "clients": n_clients, "begin": begin, "early_rss_mib": early, "busy_rss_mib": late, "end": end, **numbers_of(log, seconds)}
        if end["descriptors"] > begin["descriptors"]:
            day.problem("descriptors are left", begin, end)
        if running_cells != 0:
            day.problem("cells are still held", running_cells)
        if alive != n_idle:
            day.problem("idle connections were lost", n_idle - alive)
        if end["rss_mib"] > early * 1.2:
            day.problem("memory grows", early, late, end)
    finally:
        code = server.stop(120)
    if code != 0:
        day.problem("exit code", code, server.text()[-2000:])
    print(f"{dict(day.counts)}, {alive} idle connections, {early:.0f} -> {late:.0f} MiB")
    report |= {"counts": {str(k): n for k, n in day.counts.items()}, "problems": [repr(problem) for problem in day.problems[:100]]}
    print(json.dumps(report, indent=1))
    if len(sys.argv) > 5:
        pathlib.Path(sys.argv[5]).write_text(json.dumps(report, indent=1))
    for problem in day.problems[:20]:
        print(problem)
    print(f"{len(day.problems)} problems")
    return 1 if day.problems else 0


def idle_connection(address):
    """Has had a request: connections without one are closed after 30 s."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.request("GET", "/health")
    connection.getresponse().read()
    return connection.sock


def is_open(s):
    s.settimeout(0.0)
    try:
        return s.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
