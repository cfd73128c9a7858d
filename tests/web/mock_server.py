#!/usr/bin/env python3
"""A server with weft's API and canned responses, to develop and test the page with. Loopback only.

    python3 tests/web/mock_server.py [--port 8090] [--key KEY] [--loading SECONDS] [--rate TOKENS_PER_SECOND]

Words in the last message choose the response: math, mixed, wide (table), tool, slow, endless, long N, schema, echo. Others choose a failure:
error (in the middle), refuse (429), cut (the connection ends). Everything else gets the showcase with reasoning.
"""
import argparse
import json
import random
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import answers

WEB = Path(__file__).resolve().parents[2] / "server/web"
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
MODELS = ["smollm2-1.7b-instruct-q4_k_m", "qwen3-4b-q4_k_m"]


class Cache:
    """A simulated cache: sequences begin, share prefixes, grow, end and are evicted."""

    def __init__(self, n_pages: int = 128):
        self.page = 64
        self.total = n_pages * self.page
        self.random = random.Random(7)
        self.sequences: dict[int, dict] = {}
        self.pages: list[list] = [[] for _ in range(n_pages)]  # page -> list of [n, ids]
        self.next_request = 100
        self.start = time.time()
        self.counters = dict.fromkeys("n_steps n_prompt_tokens n_cached_tokens n_recomputed_tokens n_generated_tokens n_drafted_tokens n_accepted_tokens "
                                      "n_preempted n_evicted n_completed n_cancelled n_timed_out n_errors".split(), 0)
        self.host = self.decode = 0.0
        self.steps: list[dict] = []
        self.shared = self.take(6, [])
        for _ in range(30):
            self.advance()
        self.steps.clear()

    def take(self, n: int, ids: list[int]) -> list[int]:
        free = [i for i, runs in enumerate(self.pages) if not runs]
        self.random.shuffle(free) if self.random.random() < 0.2 else None
        taken = free[:n]
        for i in taken:
            self.pages[i] = [[self.page, list(ids)]]
        return taken

    def begin(self) -> None:
        free = sum(not runs for runs in self.pages)
        if free < 24 or len(self.sequences) > 22:
            cached = [i for i, s in self.sequences.items() if s["state"] == "cached"]
            if cached:
                self.drop(min(cached, key=lambda i: self.sequences[i]["ended"]))
                self.counters["n_evicted"] += 1
            if free < 16:
                return
        number = next(i for i in range(64) if i not in self.sequences)
        prompt = self.random.choice([300, 520, 700, 900])
        shares = self.random.random() < 0.75
        self.next_request += 1
        s = {"request": self.next_request, "state": "running", "n_prompt": prompt, "n_cached": len(self.shared) * self.page if shares else 0,
             "n_read": 0, "n_generated": 0, "limit": self.random.randint(120, 500), "born": time.time(), "own": [], "fill": 0, "shares": shares, "ended": 0.0}
        s["n_read"] = s["n_cached"]
        self.sequences[number] = s
        if shares:
            for i in self.shared:
                self.pages[i][0][1].append(number)
            self.counters["n_cached_tokens"] += s["n_cached"]

    def drop(self, number: int) -> None:
        for runs in self.pages:
            for run in runs:
                if number in run[1]:
                    run[1].remove(number)
            runs[:] = [run for run in runs if run[1]] if runs and runs is not self.pages[self.shared[0]] else runs
        for i in self.shared:
            if not self.pages[i]:
                self.pages[i] = [[self.page, []]]
        del self.sequences[number]

    def grow(self, number: int, n: int) -> bool:
        s = self.sequences[number]
        while n > 0:
            if s["fill"] == 0:
                taken = self.take(1, [number])
                if not taken:
                    return False
                s["own"].append(taken[0])
                self.pages[taken[0]] = [[0, [number]]]
            put = min(n, self.page - s["fill"])
            self.pages[s["own"][-1]][0][0] += put
            s["fill"] = (s["fill"] + put) % self.page
            n -= put
        return True

    def advance(self) -> None:
        running = [i for i, s in self.sequences.items() if s["state"] == "running"]
        if len(running) < 7 and self.random.random() < 0.3:
            self.begin()
        n_prompt = n_decoded = 0
        budget = 256
        for i in running:
            s = self.sequences[i]
            if s["n_read"] < s["n_prompt"]:
                n = min(budget, s["n_prompt"] - s["n_read"])
                if n and self.grow(i, n):
                    s["n_read"] += n
                    budget -= n
                    n_prompt += n
            elif self.grow(i, 1):
                s["n_generated"] += 1
                n_decoded += 1
                if s["n_generated"] >= s["limit"]:
                    s["state"], s["ended"] = "cached", time.time()
                    self.counters["n_completed"] += 1
        decode = 9 + 0.09 * n_prompt + 0.9 * n_decoded + self.random.random() * 3
        host = 0.6 + 0.05 * n_decoded + self.random.random() * 0.5
        drafted = self.random.randint(0, 6)
        self.counters["n_steps"] += 1
        self.counters["n_prompt_tokens"] += n_prompt
        self.counters["n_generated_tokens"] += n_decoded
        self.counters["n_drafted_tokens"] += drafted
        self.counters["n_accepted_tokens"] += drafted // 2
        self.host += host / 1000
        self.decode += decode / 1000
        self.steps.append({"at_ms": (time.time() - self.start) * 1000, "ms": host + decode, "host_ms": host, "decode_ms": decode, "n_prompt": n_prompt,
                           "n_decoded": n_decoded, "n_drafted": drafted, "n_accepted": drafted // 2, "n_streams": len(running)})

    def snapshot(self) -> dict:
        for _ in range(14):
            self.advance()
        steps, self.steps = self.steps, []
        for k, step in enumerate(steps):
            step["at_ms"] = (time.time() - self.start) * 1000 - (len(steps) - k) * 35
        runs = []
        for i, page in enumerate(self.pages):
            first = i * self.page
            for n, ids in page:
                if n and ids:
                    runs.append({"first": first, "n": n, "sequences": sorted(ids)})
                first += n
        running = {i: s for i, s in self.sequences.items() if s["state"] == "running"}
        prefilling = [i for i, s in running.items() if s["n_read"] < s["n_prompt"]]
        streams = [{"request": s["request"], "completion": 0, "state": "prefilling" if i in prefilling else "decoding", "sequence": i, "n_prompt": s["n_prompt"],
                    "n_cached": s["n_cached"], "n_read": s["n_read"], "n_generated": s["n_generated"], "priority": 0, "age_ms": (time.time() - s["born"]) * 1000}
                   for i, s in running.items()]
        waiting = 2 if len(running) >= 6 else 0
        streams += [{"request": self.next_request + 1 + k, "completion": 0, "state": "waiting", "sequence": -1, "n_prompt": 420, "n_cached": 0, "n_read": 0, "n_generated": 0,
                     "priority": 0, "age_ms": 120.0 + 300 * k} for k in range(waiting)]
        used = sum(run["n"] for run in runs)
        cached = [i for i, s in self.sequences.items() if s["state"] == "cached"]
        stats = {"n_waiting": waiting, "n_running": len(running), "n_prefilling": len(prefilling), "n_paused": 0, "cells_total": self.total, "cells_used": used,
                 "cells_cached": sum(run["n"] for run in runs if all(i in cached for i in run["sequences"])), "sequences_total": 64,
                 "sequences_cached": len(cached), "sequences_free": 64 - len(self.sequences), **self.counters, "host_seconds": self.host, "decode_seconds": self.decode}
        now = time.time() - self.start
        wave = 1 + 0.2 * random.random()
        return {"model": MODELS[0], "uptime_s": now + 5400, "time_ms": now * 1000, "stats": stats,
                "latency": {"first_token": {"p50": 84 * wave, "p90": 210 * wave, "p99": 470 * wave}, "between_tokens": {"p50": 21 * wave, "p90": 31 * wave, "p99": 62 * wave},
                            "queue": {"p50": 0.4 * wave, "p90": 38 * wave, "p99": 190 * wave}, "step": {"p50": 18 * wave, "p90": 34 * wave, "p99": 58 * wave}},
                "steps": steps, "streams": streams,
                "sequences": [{"id": i, "n_tokens": s["n_read"] + s["n_generated"], "state": s["state"]} for i, s in self.sequences.items()],
                "cells": {"total": self.total + 16 * self.page, "page": self.page, "runs": runs}}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, key: str = "", loading: float = 0.0, rate: float = 90.0, n_pages: int = 128,
                 n_ctx: int = 8192, modalities: dict | None = None, refusals: int = 10**9, retry_after: str = "5"):
        super().__init__(("127.0.0.1", port), Handler)
        self.key, self.loading, self.rate = key, loading, rate
        self.problem = ""  # Why there is no model.
        self.forbidden = ""  # Why all of the API returns 403.
        self.n_ctx, self.modalities = n_ctx, modalities or {"vision": False, "audio": False}
        self.refusals, self.retry_after = refusals, retry_after  # How many requests with "refuse" are refused.
        self.begun = time.time()
        self.cache, self.lock = Cache(n_pages), threading.Lock()
        self.requests: list[dict] = []  # Bodies of chat requests, for tests to look at.


def text_of(content) -> str:
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def prompt_tokens(body: dict) -> int:
    return sum(len(text_of(m["content"])) for m in body["messages"]) // 4 + 20


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_):
        pass

    def answer(self, status: int, body, content_type="application/json", headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def fail(self, status: int, message: str, kind: str, headers=()):
        self.answer(status, {"error": {"message": message, "type": kind, "param": None, "code": status}}, headers=headers)

    def allowed(self) -> bool:
        if self.server.forbidden:
            self.fail(403, self.server.forbidden, "invalid_request_error")
            return False
        if not self.server.key or self.headers.get("Authorization") == f"Bearer {self.server.key}":
            return True
        self.fail(401, "Invalid API key", "authentication_error")
        return False

    def do_GET(self):
        path = self.path.split("?")[0]
        file = WEB / "ui/index.html" if path == "/" else WEB / path.removeprefix("/") if path.startswith("/ui/") and ".." not in path else None
        if file is not None:
            if not file.is_file():
                return self.fail(404, f"No such file: {path}", "not_found_error")
            policy = (WEB / "policy.txt").read_text().strip()
            return self.answer(200, file.read_bytes(), TYPES[file.suffix], [("Content-Security-Policy", policy), ("Cache-Control", "no-cache")])
        if path == "/health":
            if self.server.problem:
                return self.answer(503, {"status": "error", "error": {"message": self.server.problem}})
            share = (time.time() - self.server.begun) / self.server.loading if self.server.loading else 1
            return self.answer(200, {"status": "ok"}) if share >= 1 else self.answer(503, {"status": "loading", "progress": share})
        if not self.allowed():
            return None
        if path == "/v1/models":
            return self.answer(200, {"object": "list", "data": [{"id": name, "object": "model", "created": 1, "owned_by": "weft"} for name in MODELS]})
        if path == "/props":
            name = parse_qs(urlsplit(self.path).query).get("model", MODELS)[0]
            return self.answer(200, {"model": name, "n_ctx": self.server.n_ctx, "modalities": self.server.modalities, "chat_template_caps": {"tools": True, "reasoning": True},
                                     "default_generation_settings": {"temperature": 0.8, "top_p": 0.95, "top_k": 40, "min_p": 0.05, "repeat_penalty": 1.0, "max_tokens": -1}})
        if path == "/live":
            return self.live()
        return self.fail(404, f"No such path: {path}", "not_found_error")

    def begin_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

    def event(self, value):
        data = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        self.wfile.write(f"data: {data}\n\n".encode())
        self.wfile.flush()

    def live(self):
        self.begin_events()
        try:
            while True:
                with self.server.lock:
                    value = self.server.cache.snapshot()
                self.event(value)
                time.sleep(0.5)
        except OSError:
            self.close_connection = True

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if not self.allowed():
            return None
        if self.path == "/apply-template":
            return self.answer(200, {"prompt": "", "tokens": [0] * prompt_tokens(body)})
        if self.path != "/v1/chat/completions":
            return self.fail(404, f"No such path: {self.path}", "not_found_error")
        self.server.requests.append(body)
        try:
            return self.chat(body)
        except OSError:
            self.close_connection = True
            self.server.requests[-1]["_gone"] = True
            return None

    def chat(self, body: dict):
        last = next((text_of(m["content"]) for m in reversed(body["messages"]) if m["role"] == "user"), "")
        words = last.lower()
        if "refuse" in words and self.server.refusals > 0:
            self.server.refusals -= 1
            return self.fail(429, "The queue is full: 32 requests wait already.", "rate_limit_error", [("Retry-After", self.server.retry_after)])
        n_prompt = prompt_tokens(body)
        if n_prompt >= self.server.n_ctx:
            message = f"this model's maximum context length is {self.server.n_ctx} tokens, but the prompt has {n_prompt} and the response needs at least one"
            return self.answer(400, {"error": {"message": message, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}})
        reasoning, text, tool = "", answers.SHOWCASE, None
        if body.get("response_format"):
            text = json.dumps({"name": "weft", "tags": ["a", "b"]})
        elif going_on := body.get("continue_final_message"):
            text = " And so it goes on." if going_on else ""
        elif "math" in words or "derive" in words:
            text = answers.MATH
        elif "mixed" in words:
            text = answers.MIXED
        elif "wide" in words:
            text = answers.WIDE
        elif "tool" in words:
            text, tool = "Let me look.", {"city": "Paris", "days": 3}
        elif "echo" in words:
            text = last.split("echo", 1)[1].strip()
        elif found := re.search(r"long (\d+)", words):
            text = "".join(f"{i}. Line **{i}** of a long answer with `code` and $x_{{{i}}}$.\n" for i in range(1, int(found[1]) + 1))
        else:
            reasoning = answers.REASONING
        pieces = [("reasoning_content", p) for p in re.findall(r"\s*\S+\s?", reasoning)] + [("content", p) for p in re.findall(r"\s*\S{1,6}", text)]
        rate = 6.0 if "slow" in words or "endless" in words else self.server.rate
        self.begin_events()
        chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body.get("model", MODELS[0])}

        def send(delta: dict, finish=None, **more):
            self.event({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})

        begun = time.time()
        send({"role": "assistant"})
        time.sleep(0.15)
        n_most = self.server.n_ctx - n_prompt
        is_cut, pieces = len(pieces) > n_most, pieces[:n_most]
        for i, (kind, piece) in enumerate(pieces):
            send({kind: piece})
            if "error" in words and i == 12:
                self.event({"error": {"message": "The model's context is full: 8192 tokens.", "type": "server_error", "code": 500}})
                self.close_connection = True
                return None
            if "cut" in words and i == 12:
                self.close_connection = True
                return None
            time.sleep(max(0.0, begun + 0.15 + (i + 1) / rate - time.time()))
        while "endless" in words:  # Until the client leaves.
            send({"content": " on"})
            time.sleep(1 / rate)
        if tool:
            arguments = json.dumps(tool)
            send({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}]})
            for at in range(0, len(arguments), 5):
                send({"tool_calls": [{"index": 0, "function": {"arguments": arguments[at:at + 5]}}]})
                time.sleep(1 / rate)
        seconds = time.time() - begun
        send({}, "length" if is_cut else "tool_calls" if tool else "stop", timings={"prompt_n": n_prompt - n_prompt // 2, "prompt_ms": 84.0, "cache_n": n_prompt // 2, "predicted_n": len(pieces),
                                                               "predicted_ms": seconds * 1000, "predicted_per_second": len(pieces) / seconds})
        self.event({**chunk, "choices": [], "usage": {"prompt_tokens": n_prompt, "completion_tokens": len(pieces), "total_tokens": n_prompt + len(pieces),
                                                        "prompt_tokens_details": {"cached_tokens": n_prompt // 2}}})
        self.event("[DONE]")
        self.close_connection = True
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--key", default="")
    parser.add_argument("--loading", type=float, default=0.0)
    parser.add_argument("--rate", type=float, default=90.0)
    parser.add_argument("--pages", type=int, default=128)
    parser.add_argument("--ctx-size", type=int, default=8192)
    parser.add_argument("--media", action="store_true", help="take images and audio")
    args = parser.parse_args()
    server = Server(args.port, args.key, args.loading, args.rate, args.pages, args.ctx_size, {"vision": args.media, "audio": args.media})
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
