#!/usr/bin/env python3
"""weft bench --serve as users run it, against a fake OpenAI-compatible server in Python.

Needs WEFT_PROGRAM in the environment.
"""
import csv
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WEFT = os.environ["WEFT_PROGRAM"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def whole(self, status: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def event(self, body) -> None:
        data = f"data: {body if isinstance(body, str) else json.dumps(body)}\n\n".encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def do_GET(self):
        self.whole(200, {"object": "list", "data": [{"id": "python-model"}]})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, dict(self.headers), request))
        if self.server.status != 200:
            return self.whole(self.server.status, {"error": {"message": "no such thing"}})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for _ in range(request["max_tokens"]):
                self.event({"choices": [{"index": 0, "delta": {"content": " word"}, "text": " word"}]})
                time.sleep(self.server.pause)
            usage = {"prompt_tokens": 11, "completion_tokens": request["max_tokens"]}
            self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}], "usage": usage})
            self.event("[DONE]")
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True  # The client has hung up.


class Load(unittest.TestCase):
    def setUp(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.requests, self.server.status, self.server.pause = [], 200, 0.001
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def command(self, *words) -> list[str]:
        return [WEFT, "bench", "--serve", self.url, *[str(w) for w in words]]

    def weft(self, *words, code: int = 0) -> str:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "LLAMA_"))}
        result = subprocess.run(self.command(*words), capture_output=True, env=kept, timeout=120, text=True)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stdout if code == 0 else result.stderr + result.stdout

    def test_rows_of_clients(self):
        out = json.loads(self.weft("--concurrency", "1,3", "--requests", 6, "-n", 5, "-p", "8-16", "--json"))
        rows = out["results"]
        self.assertEqual([row["load"] for row in rows], ["1 client", "3 clients"])
        for row in rows:
            self.assertEqual((row["requests"], row["complete"], row["failed"], row["errors"]), (6, 6, 0, []))
            self.assertEqual((row["prompt_tokens"], row["generated_tokens"]), (66, 30))
            self.assertEqual(row["model"], "python-model")
            self.assertLessEqual(row["ttft_ms_p50"], row["ttft_ms_p99"])
            self.assertLess(row["ttft_ms_p50"], row["total_ms_p50"])
            self.assertIsNone(row["goodput_per_s"])
        self.assertEqual(len(self.server.requests), 14)  # One more each, to warm up.
        texts = [r[2]["messages"][-1]["content"] for r in self.server.requests]
        self.assertEqual(len(set(texts)), 14)
        self.assertTrue(all(8 <= len(t.split()) <= 16 for t in texts))

    def test_rates_schemas_keys_and_forms(self):
        with tempfile.TemporaryDirectory() as folder:
            schema = Path(folder) / "schema.json"
            schema.write_text('{"type": "object"}')
            out = self.weft("--rate", "100", "--requests", 5, "-n", 2, "--endpoint", "completions", "--schema", schema,
                            "--api-key", "k", "-m", "named", "--shared-prefix", 4, "--seed", 7, "--slo-ttft", 1e6,
                            "-o", "csv")
        row = next(csv.DictReader(out.splitlines()))
        self.assertEqual((row["complete"], row["rate"], row["seed"], row["within_slo"]), ("5", "100.0", "7", "1.0"))
        path, headers, request = self.server.requests[-1]
        self.assertEqual(path, "/v1/completions")
        self.assertEqual(headers["Authorization"], "Bearer k")
        self.assertEqual(request["model"], "named")
        self.assertNotIn("ignore_eos", request)
        self.assertEqual(request["response_format"]["json_schema"]["schema"], {"type": "object"})
        self.assertEqual(len({" ".join(r[2]["prompt"].split()[:4]) for r in self.server.requests}), 1)

    def test_replays(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.jsonl"
            trace.write_text('{"at": 0.05, "prompt": "second", "max_tokens": 2}\n\n'
                             '{"at": 0, "messages": [{"role": "user", "content": "first"}], "max_tokens": 3}\n')
            table = self.weft("--replay", trace, "--warm-up", 0)
            self.assertIn("as recorded", table)
            contents = [r[2]["messages"][-1]["content"] for r in self.server.requests]
            self.assertEqual(contents, ["first", "second"])
            trace.write_text('{"at": -1, "prompt": "x"}\n')
            self.assertIn("line 1: 'at' is not a time", self.weft("--replay", trace, code=1))

    def test_errors_are_shown(self):
        self.server.status = 404
        out = self.weft("--requests", 2, "--concurrency", 2, "--warm-up", 0, code=1)
        self.assertIn("2 clients: 2 x http 404: no such thing", out)

    def test_interrupt_shows_what_there_is(self):
        self.server.pause = 0.01
        process = subprocess.Popen(self.command("--requests", 100000, "-n", 3, "--json"), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        while len(self.server.requests) < 20:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        row = json.loads(out)["results"][0]
        self.assertTrue(row["interrupted"])
        self.assertGreater(row["complete"], 0)
        self.assertEqual(row["failed"], 0)

    def test_wrong_command_lines(self):
        for words, message in [(("--endpoint", "x"), "--endpoint"), (("--rate", "0"), "--rate"), (("-p", "9-3"), "range"),
                               (("--rate", "1", "--concurrency", "1"), "--concurrency"), (("-p", "0"), "--prompt-tokens"),
                               (("--seed", "x"), "--seed"), (("--profile",), "--profile"), (("-o", "xml"), "xml"),
                               (("-m", "a", "-m", "b"), "one model")]:
            self.assertIn(message, self.weft(*words, code=2))
        result = subprocess.run([WEFT, "bench", "--rate", "1"], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--serve", result.stderr)
        for url, message in [("http://127.0.0.1:1", "does not respond"), ("https://127.0.0.1:1", "does not respond"), ("ftp://x", "http://")]:
            result = subprocess.run([WEFT, "bench", "--serve", url], capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 1)
            self.assertIn(message, result.stderr)


if __name__ == "__main__":
    unittest.main()
