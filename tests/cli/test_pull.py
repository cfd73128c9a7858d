#!/usr/bin/env python3
"""weft pull, -hf and what remembers them, against a server that speaks as the hubs do, and misbehaves."""
import hashlib
import json
import os
import re
import subprocess
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WEFT = os.environ["WEFT_PROGRAM"]
GOLDEN = Path(os.environ["WEFT_TEST_DATA"]) / "golden"
MODEL = (GOLDEN / "llama" / "model.gguf").read_bytes()
LARGE = bytes(range(256)) * (20 * 4096)  # 20 MiB: three parts.
TOKEN = "hf_secret"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Hub(ThreadingHTTPServer):
    """Hugging Face's, Ollama's and ModelScope's ways to list and to give files. Files come from a second host name, as
    from a content network. `faults` says what goes wrong how often."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.elsewhere = f"http://localhost:{self.server_port}"
        self.files: dict[str, bytes] = {}  # "user/repo/file"
        self.wrong_sum: set[str] = set()
        self.ranges = True
        self.faults: dict[str, int] = {}
        self.asked: list[tuple[str, str, str]] = []  # Path, range, authorization.
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # Clients that leave.

    def fault(self, name: str) -> bool:
        with self.lock:
            left = self.faults.get(name, 0)
            self.faults[name] = left - 1
            return left > 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_):
        pass

    def send(self, status: int, body: bytes = b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_json(self, value):
        self.send(200, json.dumps(value).encode())

    def do_GET(self):
        hub = self.server
        path = self.path.split("?")[0]
        with hub.lock:
            hub.asked.append((path, self.headers.get("Range", ""), self.headers.get("Authorization", "")))
        if hub.fault("429"):
            return self.send(429, Retry_After="1")
        if hub.fault("500"):
            return self.send(500, b"sorry")
        if path.startswith("/cdn/"):
            return self.give(path.removeprefix("/cdn/"))
        if path.startswith("/api/models/"):
            repo = path.removeprefix("/api/models/").removesuffix("/tree/main")
            return self.list_hugging_face(repo)
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/main/(.+)", path):
            return self.redirect(f"{match[1]}/{match[2]}")
        if match := re.fullmatch(r"/api/v1/models/(.+)/repo/files", path):
            files = [{"Path": n, "Size": len(d), "Sha256": sha256(d), "Type": "blob"} for n, d in self.of(match[1])]
            return self.send_json({"Code": 200, "Data": {"Files": files}})
        if match := re.fullmatch(r"/models/([^/]+/[^/]+)/resolve/master/(.+)", path):
            return self.redirect(f"{match[1]}/{match[2]}")
        if match := re.fullmatch(r"/v2/(.+)/manifests/(.+)", path):
            data = hub.files.get(f"{match[1]}/{match[2]}")
            if data is None:
                return self.send(404)
            layers = [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "0" * 64, "size": 1},
                      {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + sha256(data),
                       "size": len(data)}]  # fmt: skip
            return self.send_json({"schemaVersion": 2, "layers": layers})
        if match := re.fullmatch(r"/v2/(.+)/blobs/sha256:([0-9a-f]{64})", path):
            for name, data in hub.files.items():
                if sha256(data) == match[2]:
                    return self.redirect(name)
        self.send(404)

    def of(self, repo):
        return [(n.removeprefix(repo + "/"), d) for n, d in self.server.files.items() if n.startswith(repo + "/")]

    def list_hugging_face(self, repo):
        if repo == "closed/model" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.send(401)
        files = self.of(repo)
        if not files:
            return self.send(404)
        entries = [{"type": "file", "path": "README.md", "size": 10}]
        for name, data in files:
            total = "f" * 64 if name in self.server.wrong_sum else sha256(data)
            entries.append({"type": "file", "path": name, "size": 130, "lfs": {"oid": total, "size": len(data)}})
        # In pages.
        cursor = int(re.search(r"cursor=(\d+)", self.path)[1]) if "cursor=" in self.path else 0
        if cursor + 2 < len(entries):
            link = f'<{self.server.url}{self.path.split("?")[0]}?cursor={cursor + 2}>; rel="next"'
            return self.send(200, json.dumps(entries[cursor : cursor + 2]).encode(), Link=link)
        self.send_json(entries[cursor:])

    def redirect(self, name):
        self.send(302, Location=f"{self.server.elsewhere}/cdn/{name}?signature=abc")

    def give(self, name):
        hub = self.server
        data = hub.files[name]
        headers = {"ETag": f'"{sha256(data)[:16]}"'}
        begin, end, status = 0, len(data), 200
        if hub.ranges and (match := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))):
            begin, end, status = int(match[1]), min(int(match[2]) + 1, len(data)), 206
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(data)}"
        if end - begin > 1 and hub.fault("broken"):
            self.send_response(status)
            for header, value in headers.items():
                self.send_header(header, value)
            self.send_header("Content-Length", str(end - begin))
            self.end_headers()
            self.wfile.write(data[begin : begin + (end - begin) // 3])
            self.close_connection = True
            return
        while hub.faults.get("hold", 0) and end - begin > 1:
            time.sleep(0.05)
        if end - begin > 1 and hub.fault("other part"):
            headers["Content-Range"] = f"bytes {begin + 1}-{end}/{len(data)}"
        try:
            self.send(status, data[begin:end], **headers)
        except OSError:
            pass  # Whoever asked is gone.


class Pull(unittest.TestCase):
    def setUp(self):
        self.hub = Hub()
        self.addCleanup(self.hub.server_close)
        self.addCleanup(self.hub.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = Path(folder.name)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "LLAMA_", "HF_"))}
        self.environment = kept | {"WEFT_CACHE": str(self.cache), "WEFT_CONFIG": "", "HF_ENDPOINT": self.hub.url,
                                   "OLLAMA_REGISTRY": self.hub.url, "MODELSCOPE_ENDPOINT": self.hub.url}  # fmt: skip

    def run_weft(self, *words, **environment):
        return subprocess.run([WEFT, *map(str, words)], capture_output=True, text=True, timeout=120, check=False,
                              env=self.environment | environment)

    def pull(self, name, **environment) -> dict:
        result = self.run_weft("pull", name, "--json", **environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)[0]

    def refused(self, code, *words, **environment) -> str:
        result = self.run_weft(*words, **environment)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr

    def left_over(self) -> list[str]:
        return [p.name for p in self.cache.rglob("*") if ".part" in p.name]

    def test_the_type_that_is_named_or_the_usual_one(self):
        for name in ("Tiny-F16", "Tiny-Q8_0", "Tiny-Q4_K_M", "Tiny-Q4_K_S"):
            self.hub.files[f"user/Tiny-GGUF/{name}.gguf"] = MODEL + name.encode()
        self.hub.files["user/Tiny-GGUF/mmproj-F16.gguf"] = b"vision"
        pulled = self.pull("user/Tiny-GGUF")
        self.assertEqual(Path(pulled["path"]).name, "Tiny-Q4_K_M.gguf")
        self.assertEqual(Path(pulled["path"]).read_bytes(), MODEL + b"Tiny-Q4_K_M")
        self.assertEqual(Path(pulled["mmproj"]).read_bytes(), b"vision")
        for name in ("user/Tiny-GGUF:q8_0", "hf.co/user/Tiny-GGUF:Q8_0", "user/Tiny-GGUF:Tiny-Q8_0.gguf"):
            self.assertEqual(Path(self.pull(name)["path"]).name, "Tiny-Q8_0.gguf")
        error = self.refused(1, "pull", "user/Tiny-GGUF:Q2_K")
        self.assertIn("Tiny-Q4_K_S", error)
        # Again: the hub is asked, nothing is fetched.
        del self.hub.asked[:]
        self.pull("user/Tiny-GGUF")
        self.assertFalse([path for path, _, _ in self.hub.asked if "resolve" in path])
        # What changed there is fetched again.
        self.hub.files["user/Tiny-GGUF/Tiny-Q4_K_M.gguf"] = MODEL + b"new weights"
        self.assertTrue(Path(self.pull("user/Tiny-GGUF")["path"]).read_bytes().endswith(b"new weights"))
        self.assertEqual(self.left_over(), [])

    def test_models_run_and_are_found_and_removed_by_name(self):
        self.hub.files["user/Tiny-GGUF/Tiny-Q4_0.gguf"] = MODEL
        words = ["run", "--tokens", "1,2,3", "-n", "4", "--temp", "0", "--json"]
        first = self.run_weft(*words, "-hf", "user/Tiny-GGUF")
        self.assertEqual(first.returncode, 0, first.stderr)
        n_asked = len(self.hub.asked)
        for model in (["-hf", "user/Tiny-GGUF"], ["-m", "user/Tiny-GGUF"], ["-m", "hf.co/user/Tiny-GGUF"], ["-m", "tiny"]):
            again = self.run_weft(*words, *model)
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertEqual(json.loads(first.stdout)["tokens"], json.loads(again.stdout)["tokens"])
        self.assertEqual(len(self.hub.asked), n_asked)
        listed = json.loads(self.run_weft("models", "--json").stdout)
        self.assertEqual([m["name"] for m in listed], ["user/Tiny-GGUF/Tiny-Q4_0"])
        self.assertIn("weft models", self.refused(1, "models", "--remove", "Tiny"))
        removed = json.loads(self.run_weft("models", "--remove", "user/Tiny-GGUF/Tiny-Q4_0", "--json").stdout)
        self.assertEqual(removed[0]["bytes"] // 1024, len(MODEL) // 1024)
        self.assertEqual([p for p in (self.cache / "models").rglob("*") if p.is_file()], [])
        self.assertIn("weft pull user/Tiny-GGUF", self.refused(1, *words, "-m", "user/Tiny-GGUF"))
        self.assertIn("HF_HUB_OFFLINE", self.refused(1, *words, "-hf", "user/Tiny-GGUF", HF_HUB_OFFLINE="1"))

    def test_split_models_come_whole(self):
        for i in (1, 2, 3):
            self.hub.files[f"user/Big-GGUF/Q8_0/Big-Q8_0-0000{i}-of-00003.gguf"] = b"part %d" % i
        pulled = self.pull("user/Big-GGUF:Q8_0")
        self.assertTrue(pulled["path"].endswith("/Q8_0/Big-Q8_0-00001-of-00003.gguf"))
        self.assertEqual(len(list(self.cache.rglob("*.gguf"))), 3)
        del self.hub.files["user/Big-GGUF/Q8_0/Big-Q8_0-00002-of-00003.gguf"]
        self.assertIn("3 parts", self.refused(1, "pull", "user/Big-GGUF:Q8_0"))

    def test_other_hubs_and_addresses(self):
        self.hub.files["library/tiny/latest"] = MODEL
        self.hub.files["someone/tiny/1b"] = MODEL + b"1b"
        self.hub.files["user/Tiny/tiny-q4_k_m.gguf"] = MODEL + b"scope"
        self.assertEqual(Path(self.pull("ollama:tiny")["path"]).read_bytes(), MODEL)
        self.assertEqual(Path(self.pull("ollama.com/someone/tiny:1b")["path"]).read_bytes(), MODEL + b"1b")
        self.assertEqual(Path(self.pull("modelscope.cn/user/Tiny")["path"]).read_bytes(), MODEL + b"scope")
        url = f"{self.hub.url}/user/Tiny/resolve/main/tiny-q4_k_m.gguf"
        self.assertEqual(Path(self.pull(url)["path"]).read_bytes(), MODEL + b"scope")
        result = self.run_weft("run", "--tokens", "1,2", "-n", "1", "--json", "-mu", url)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("not there", self.refused(1, "pull", "ollama:nothing"))

    def test_connections_that_break_go_on_where_they_were(self):
        self.hub.files["user/L/L-Q4_0.gguf"] = LARGE
        for fault, n in (("broken", 5), ("429", 1), ("500", 3)):
            with self.subTest(fault):
                self.hub.faults[fault] = n
                pulled = Path(self.pull("user/L")["path"])
                self.assertEqual(pulled.read_bytes(), LARGE)
                pulled.unlink()
        begins = [int(r[6:].split("-")[0]) for _, r, _ in self.hub.asked if r]
        self.assertTrue(any(begin % (8 << 20) for begin in begins), begins)  # In the middle of a part.
        self.assertEqual(self.left_over(), [])
        self.hub.ranges = False
        self.hub.faults["broken"] = 1
        self.assertEqual(Path(self.pull("user/L")["path"]).read_bytes(), LARGE)

    def test_what_was_begun_is_resumed(self):
        self.hub.files["user/L/L-Q4_0.gguf"] = LARGE
        self.hub.faults["broken"] = 10**6
        error = self.refused(1, "pull", "user/L", "--connections", "1")
        self.assertIn("ended early", error)
        self.assertEqual(len(self.left_over()), 2)  # The parts, and which are there.
        self.hub.faults = {}
        # Meanwhile one process fetches, another is told so.
        self.hub.faults["hold"] = 1
        first = subprocess.Popen([WEFT, "pull", "user/L"], env=self.environment, stdout=subprocess.DEVNULL)
        while not any(path.startswith("/cdn") and r not in ("", "bytes=0-0") for path, r, _ in self.hub.asked[-3:]):
            time.sleep(0.02)
        self.assertIn("another process", self.refused(1, "pull", "user/L"))
        first.kill()
        first.wait()
        self.hub.faults = {}
        del self.hub.asked[:]
        self.assertEqual(Path(self.pull("user/L")["path"]).read_bytes(), LARGE)
        self.assertEqual(self.left_over(), [])

    def test_wrong_bytes_are_not_kept(self):
        self.hub.files["user/L/L-Q4_0.gguf"] = LARGE
        self.hub.wrong_sum.add("L-Q4_0.gguf")
        self.assertIn("SHA-256", self.refused(1, "pull", "user/L"))
        self.assertEqual([p for p in self.cache.rglob("*") if p.is_file()], [])
        self.hub.wrong_sum.clear()
        self.hub.faults["other part"] = 10**6
        self.assertIn("not the part", self.refused(1, "pull", "user/L"))

    def test_tokens_go_to_the_hub_alone(self):
        self.hub.files["closed/model/m-Q4_0.gguf"] = MODEL
        self.assertIn("HF_TOKEN", self.refused(1, "pull", "closed/model"))
        self.pull("closed/model", HF_TOKEN=TOKEN)
        for path, _, authorization in self.hub.asked:
            if path.startswith("/cdn/"):
                self.assertEqual(authorization, "")

    def test_what_cannot_be_is_said(self):
        self.assertIn("not there", self.refused(1, "pull", "user/nothing"))
        self.hub.files["user/no-gguf/model.safetensors"] = b"x"
        self.assertIn("no GGUF file", self.refused(1, "pull", "user/no-gguf"))
        for name in ("model", "a/b/c", "../b", "a/..", "a/b:", "a/b:c/d", "", "https://host/file.bin", "a b\n/c"):
            self.assertIn("USER/REPO", self.refused(1, "pull", name))
        # What a hub lists is not believed.
        self.hub.files["user/evil/../../../evil-Q4_0.gguf"] = MODEL
        self.assertIn("no GGUF file", self.refused(1, "pull", "user/evil"))
        self.refused(2, "pull")
        self.assertIn("127.0.0.1:9", self.refused(1, "pull", "a/b", HF_ENDPOINT="http://127.0.0.1:9"))
        self.refused(2, "run", "-hf", "nothing like it", "-p", "x")
        self.refused(2, "run", "-hff", "x.gguf", "-p", "x")
        self.refused(2, "run", "-mu", "x.gguf", "-p", "x")


if __name__ == "__main__":
    unittest.main()
