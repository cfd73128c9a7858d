#!/usr/bin/env python3
"""soak.py PROGRAM [SECONDS] [CLIENTS] [IDLE]: a server's day.

CLIENTS stream, ask, leave in the middle, send nonsense and too much, beside IDLE connections that do nothing. Every
greedy answer must equal the one computed alone, the server must hold nothing in the end, and its memory must not grow.
Bounded in time; loopback only. Exits with 1 where something of that does not hold.
"""
import collections
import http.client
import json
import os
import random
import re
import socket
import sys
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

    def leave(self, rng, question):
        """Goes away at some moment: before the head, in the prompt, in the answer."""
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
                if kind < 0.7:
                    text = self.ask(connection, question, rng.random() < 0.7)
                    if text is not None and text != self.alone[question]:
                        self.problem("differs", question, text, self.alone[question])
                    self.count("answers")
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


def main():
    program = sys.argv[1]
    seconds, n_clients, n_idle = (int(sys.argv[i]) if len(sys.argv) > i else fallback for i, fallback in ((2, 60), (3, 64), (4, 1000)))
    server = Server(program, "-c", "16k", *os.environ.get("WEFT_OPTIONS", "").split())
    try:
        address = server.address
        day = Day(address, seconds)
        connection = http.client.HTTPConnection(*address, timeout=600)
        day.alone = {question: day.ask(connection, question, False) for question in QUESTIONS}
        day.end = time.time() + seconds
        idle = [socket.create_connection(address, timeout=60) for _ in range(n_idle)]
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
        if running_cells != 0:
            day.problem("cells are still held", running_cells)
        if alive != n_idle:
            day.problem("idle connections were lost", n_idle - alive)
        if late > early * 1.05 + 16:
            day.problem("memory grows", early, late)
    finally:
        code = server.stop(120)
    if code != 0:
        day.problem("exit code", code, server.text()[-2000:])
    print(f"{dict(day.counts)}, {alive} idle connections, {early:.0f} -> {late:.0f} MiB")
    for problem in day.problems[:20]:
        print(problem)
    print(f"{len(day.problems)} problems")
    return 1 if day.problems else 0


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
