#!/usr/bin/env python3
"""weft pull, -hf and what remembers them, against a server that speaks as the hubs do, and misbehaves."""
import hashlib
import json
import os
import re
import subprocess
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote

WEFT = os.environ["WEFT_PROGRAM"]
GOLDEN = Path(os.environ["WEFT_TEST_DATA"]) / "golden"
MODEL = (GOLDEN / "llama" / "model.gguf").read_bytes()
LARGE = bytes(range(256)) * (20 * 4096)  # 20 MiB: three parts.
PART = 8 << 20
TOKEN = "hf_secret"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Hub(ThreadingHTTPServer):
    """Hugging Face's, Ollama's and ModelScope's ways to list and to give files. Files come from a second host name, as
    from a content network. What goes wrong is said by the fields below."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.elsewhere = f"http://localhost:{self.server_port}"
        self.files: dict[str, bytes] = {}  # "user/repo/file", or "user/repo/file?query".
        self.wrong_sum: set[str] = set()
        self.no_sums: set[str] = set()
        self.ranges = True
        self.etags = True
        self.next_page = "{url}{path}?cursor={cursor}"  # As the Link header has it.
        self.faults: dict[str, int] = {}  # What goes wrong how often.
        self.said_size: dict[str, int] = {}  # Of a file, in place of its own.
        self.busy_parts = 0  # How often each part of a file is refused before it is given.
        self.refused_from: dict[str, int] = {}  # Of a file, the first byte that nobody may have.
        self.held = threading.Event()  # While it is clear, parts of files are asked for in vain.
        self.held.set()
        self.got_part = threading.Event()  # A part was asked for.
        self.asked: list[tuple[str, str, str]] = []  # Path, range, authorization.
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, args=[0.01], daemon=True).start()

    def handle_error(self, *_):
        pass  # Clients that leave.

    def fault(self, name: str) -> bool:
        with self.lock:
            left = self.faults.get(name, 0)
            self.faults[name] = left - 1
            return left > 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
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
        path = unquote(self.path.split("?")[0])
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
        if "/blob/" in path:
            return self.send(200, b"<html>", Content_Type="text/html; charset=utf-8")
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
            lfs = {"size": len(data)} | ({} if name in self.server.no_sums else {"oid": total})
            entries.append({"type": "file", "path": name, "size": 130, "lfs": lfs})
        # In pages.
        cursor = int(re.search(r"cursor=(\d+)", self.path)[1]) if "cursor=" in self.path else 0
        if cursor + 2 < len(entries):
            link = self.server.next_page.format(url=self.server.url, elsewhere=self.server.elsewhere,
                                                path=self.path.split("?")[0], cursor=cursor + 2)  # fmt: skip
            body = json.dumps(entries[cursor : cursor + 2]).encode()
            return self.send(200, body, Link=f'<{link}>; rel="next"')
        self.send_json(entries[cursor:])

    def redirect(self, name):
        self.send(302, Location=f"{self.server.elsewhere}/cdn/{quote(name)}?signature=abc")

    def give(self, name):
        hub = self.server
        data = hub.files.get(name + "?" + self.path.partition("?")[2], hub.files.get(name))
        if data is None:
            return self.send(404)
        headers = {"ETag": f'"{sha256(data)[:16]}"'} if hub.etags else {}
        begin, end, status = 0, len(data), 200
        if hub.ranges and (match := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))):
            begin, end, status = int(match[1]), min(int(match[2]) + 1, len(data)), 206
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{hub.said_size.get(name, len(data))}"
        if end > hub.refused_from.get(name, len(data)):
            return self.send(403)
        if end - begin > 1:
            with hub.lock:
                n_before = hub.faults.get(f"busy {begin}", 0)
                hub.faults[f"busy {begin}"] = n_before + 1
            if n_before < hub.busy_parts:
                return self.send(503)
            hub.got_part.set()
            hub.held.wait()
        if end - begin > 1 and hub.fault("broken"):
            self.send_response(status)
            for header, value in headers.items():
                self.send_header(header, value)
            self.send_header("Content-Length", str(end - begin))
            self.end_headers()
            self.wfile.write(data[begin : begin + (end - begin) // 3])
            self.close_connection = True
            return
        if end - begin > 1 and hub.fault("other part"):
            headers["Content-Range"] = f"bytes {begin + 1}-{end}/{len(data)}"
        try:
            self.send(status, data[begin:end], **headers)
        except OSError:
            pass  # Whoever asked is gone.


KEPT = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "LLAMA_", "HF_"))}


class Pull(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Retries for some seconds, in parallel with the tests.
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        environment = KEPT | {"WEFT_CACHE": folder.name, "WEFT_CONFIG": "", "HF_ENDPOINT": "http://127.0.0.1:9"}
        cls.unreachable = subprocess.Popen([WEFT, "pull", "a/b"], env=environment, text=True, stderr=subprocess.PIPE)
        cls.addClassCleanup(cls.unreachable.stderr.close)
        cls.addClassCleanup(cls.unreachable.wait)
        cls.addClassCleanup(cls.unreachable.kill)

    def setUp(self):
        self.hub = Hub()
        self.addCleanup(self.hub.server_close)
        self.addCleanup(self.hub.shutdown)
        self.addCleanup(self.hub.held.set)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = Path(folder.name)
        self.environment = KEPT | {"WEFT_CACHE": str(self.cache), "WEFT_CONFIG": "", "HF_ENDPOINT": self.hub.url,
                                   "OLLAMA_REGISTRY": self.hub.url, "MODELSCOPE_ENDPOINT": self.hub.url,
                                   # Nothing goes to hosts elsewhere, whatever weft takes for one.
                                   "https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9",
                                   "no_proxy": "127.0.0.1,localhost"}  # fmt: skip

    def run_weft(self, *words, **environment):
        return subprocess.run([WEFT, *map(str, words)], capture_output=True, text=True, timeout=120, check=False,
                              env=self.environment | environment)

    def start(self, *words, **environment) -> subprocess.Popen:
        process = subprocess.Popen([WEFT, *words], env=self.environment | environment, text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

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

    def runs(self, *model, **environment) -> str:
        """What is said where a model cannot be run; empty: it can."""
        words = ["run", "--tokens", "1,2,3", "-n", "1", "--temp", "0", "--json", *model]
        result = self.run_weft(*words, **environment)
        return "" if result.returncode == 0 else result.stderr

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
        self.assertEqual(list((self.cache / "models").iterdir()), [])  # The cache itself stays.
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

    def test_a_model_of_very_many_parts_is_seen_to_lack_one(self):
        n = 99999  # All but the last one.
        self.hub.files = {f"user/Many/M-{i:05}-of-{n}.gguf": b"" for i in range(1, n)}
        self.assertIn(f"{n} parts", self.refused(1, "pull", "modelscope.cn/user/Many"))

    def test_any_part_of_a_split_model_means_all(self):
        parts = {f"S-0000{i}-of-00003.gguf": b"part %d" % i for i in (1, 2, 3)}
        self.hub.files |= {f"user/S/{name}": data for name, data in parts.items()}
        for i, name in enumerate((f"{self.hub.url}/cdn/user/S/S-00001-of-00003.gguf?version=1",
                                  f"{self.hub.url}/cdn/user/S/S-00002-of-00003.gguf",
                                  "user/S:S-00003-of-00003.gguf")):  # fmt: skip
            folder = Path(self.pull(name, WEFT_CACHE=str(self.cache / str(i)))["path"]).parent
            self.assertEqual({p.name: p.read_bytes() for p in folder.glob("*.gguf")}, parts)

    def test_numbers_that_are_no_parts(self):
        for name in ("M-00001-of-00000", "M-00004-of-00003", "M-00000-of-00003", "M-99999-of-00001"):
            with self.subTest(name):
                self.hub.files = {f"user/{name}/{name}.gguf": MODEL + name.encode()}
                self.assertEqual(Path(self.pull(f"user/{name}")["path"]).name, f"{name}.gguf")
                self.assertEqual(self.runs("-m", f"user/{name}"), "")

    def test_types_that_nobody_prefers(self):
        for name in ("B-weird-imat", "D-weird", "C-weird", "A-weird-00002-of-00002"):
            self.hub.files[f"user/Odd/{name}.gguf"] = MODEL
        self.assertEqual(Path(self.pull("user/Odd")["path"]).name, "C-weird.gguf")

    def test_half_a_change_is_no_model(self):
        names = [f"user/Big/Big-Q8_0-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
        self.hub.files |= {name: b"old" for name in names}
        for name in ("user/Big:Q8_0", "user/Big"):
            self.pull(name)
            self.assertIn("GGUF", self.runs("-m", name))  # It was found; it is no real one.
        self.hub.files |= {name: b"new" for name in names}
        self.hub.refused_from[names[1]] = 0
        self.assertIn("denies access", self.refused(1, "pull", "user/Big:Q8_0"))
        # Names of the same files, too.
        for name in ("user/Big:Q8_0", "user/Big"):
            self.assertRegex(self.runs("-m", name), "weft pull user/Big(:Q8_0)?'")
            self.assertIn("HF_HUB_OFFLINE", self.runs("-hf", name, HF_HUB_OFFLINE="1"))
        self.hub.refused_from = {}
        path = Path(self.pull("user/Big:Q8_0")["path"])
        self.assertEqual([p.read_bytes() for p in path.parent.glob("*.gguf")], [b"new"] * 3)
        for name in ("user/Big:Q8_0", "user/Big", str(path)):
            self.assertIn("GGUF", self.runs("-m", name))

    def test_names_that_look_alike_are_not_one(self):
        self.hub.files |= {"user/R/a/b.gguf": MODEL, "user/R/a_b.gguf": MODEL}
        self.pull("user/R:a/b.gguf")
        self.assertIn("HF_HUB_OFFLINE", self.runs("-hf", "user/R:a_b.gguf", HF_HUB_OFFLINE="1"))
        self.pull("user/R:a_b.gguf")
        self.assertEqual(self.runs("-hf", "user/R:a/b.gguf", HF_HUB_OFFLINE="1"), "")
        # Another name's record is none, wherever it lies.
        record = next(p for p in self.cache.rglob(".weft-a_b.gguf.json"))
        record.write_text(record.read_text().replace("user/R:a_b.gguf", "user/R:a*b.gguf"))
        self.assertIn("HF_HUB_OFFLINE", self.runs("-hf", "user/R:a_b.gguf", HF_HUB_OFFLINE="1"))
        # Addresses differ by what no folder's name can hold.
        addresses = [f"{self.hub.url}/cdn/user/U/{folder}u.gguf{query}" for folder in ("", "a;b/", "a:b/")
                     for query in ("", "?v=1", "?v=2")]  # fmt: skip
        for address in addresses:
            self.hub.files[address.split("/cdn/")[1]] = address.encode()
        paths = [Path(self.pull(address)["path"]) for address in addresses]
        self.assertEqual([p.read_bytes().decode() for p in paths], addresses)

    def test_addresses_of_the_hubs_pages(self):
        self.hub.files |= {"closed/model/sub dir/m-Q4_0.gguf": MODEL, "user/Tiny/t.gguf": MODEL + b"scope"}
        addresses = ("https://huggingface.co/closed/model/blob/main/sub%20dir/m-Q4_0.gguf",
                     "https://huggingface.co/closed/model/resolve/main/sub%20dir/m-Q4_0.gguf?download=true",
                     "hf.co/closed/model/blob/main/sub dir/m-Q4_0.gguf",
                     "http://hf.co/closed/model/raw/main/sub%20dir/m-Q4_0.gguf#x")  # fmt: skip
        for i, address in enumerate(addresses):
            with self.subTest(address):
                pulled = self.pull(address, HF_TOKEN=TOKEN, WEFT_CACHE=str(self.cache / str(i)))
                self.assertEqual(pulled["name"], "closed/model:sub dir/m-Q4_0.gguf")
                self.assertEqual(Path(pulled["path"]).read_bytes(), MODEL)
        for page in ("resolve/master/t.gguf", "file/view/master/t.gguf?status=1"):
            pulled = self.pull(f"https://www.modelscope.cn/models/user/Tiny/{page}")
            self.assertEqual(pulled["name"], "modelscope.cn/user/Tiny:t.gguf")
            self.assertEqual(Path(pulled["path"]).read_bytes(), MODEL + b"scope")
        # Other branches need the file's URL; other hosts are asked for the URL as it is.
        error = self.refused(1, "pull", "https://huggingface.co/user/Tiny/blob/dev/t.gguf", HF_HUB_OFFLINE="1")
        self.assertIn("https://huggingface.co/user/Tiny/resolve/dev/t.gguf ", error)
        self.assertIn("web page", self.refused(1, "pull", f"{self.hub.url}/user/Tiny/blob/main/t.gguf"))
        self.assertEqual(self.left_over(), [])

    def test_secrets_are_not_shown(self):
        self.hub.files |= {"user/T/T.gguf": MODEL}
        address = self.hub.url.replace("//", "//me:hidden1@") + "/cdn/user/T/{}?token=hidden2#hidden3"
        outputs = []
        for name in ("T.gguf", "none.gguf", "T.bin", "x y.gguf"):
            for words in (["pull"], ["pull", "--json"], ["run", "--tokens", "1", "-n", "1", "-m"], ["run", "-mu"]):
                result = self.run_weft(*words, address.format(name))
                outputs += [result.stdout, result.stderr]
        self.assertEqual(self.runs("-m", address.format("T.gguf"), HF_HUB_OFFLINE="1"), "")
        outputs.append(self.run_weft("models", "--json").stdout)
        outputs += [str(p) for p in self.cache.rglob("*")]
        outputs += [p.read_text() for p in self.cache.rglob("*.json")]
        self.hub.files["user/T/T.gguf"] = LARGE
        self.hub.refused_from["user/T/T.gguf"] = PART
        outputs.append(self.refused(1, "pull", address.format("T.gguf")))
        self.assertEqual(len(self.left_over()), 2)
        outputs += [p.read_text() for p in self.cache.rglob("*.json")]
        self.assertNotIn("hidden", "\n".join(outputs))
        self.assertIn("/user/T/T.gguf denies access", "\n".join(outputs))

    def test_lists_in_pages_are_whole_or_refused(self):
        self.hub.files |= {f"user/P/P-{t}.gguf": MODEL for t in ("F16", "Q8_0", "Q6_K", "Q4_K_M")}
        for i, link in enumerate(("{path}?cursor={cursor}", "?cursor={cursor}", "{url}{path}?cursor={cursor}")):
            self.hub.next_page = link
            pulled = self.pull("user/P", WEFT_CACHE=str(self.cache / str(i)))
            self.assertEqual(Path(pulled["path"]).name, "P-Q4_K_M.gguf")
        for link in ("{elsewhere}{path}?cursor={cursor}", "{url}.localhost/", "https://127.0.0.1/?cursor={cursor}"):
            self.hub.next_page = link
            self.assertIn("continues at", self.refused(1, "pull", "user/P", HF_TOKEN=TOKEN))
        # An endless list.
        self.hub.next_page = "{path}?cursor=2"
        self.assertIn("too many files", self.refused(1, "pull", "user/P"))

    def test_what_is_removed_and_what_stays(self):
        for name in ("T-Q4_0", "T-Q8_0", "mmproj-T"):
            self.hub.files[f"user/T/{name}.gguf"] = MODEL + name.encode()
        first, second = self.pull("user/T:Q4_0"), self.pull("user/T:Q8_0")
        # The vision file is the second one's, too, even where that is not whole.
        Path(second["path"]).unlink()
        self.run_weft("models", "--remove", "user/T/T-Q4_0")
        self.assertFalse(Path(first["path"]).exists())
        self.assertTrue(Path(first["mmproj"]).exists())
        # Unfinished downloads are removed as well, except one that another process is working on.
        names = [f"user/L/L-0000{i}-of-00002.gguf" for i in (1, 2)]
        self.hub.files |= {name: LARGE for name in names}
        self.hub.refused_from[names[1]] = PART + 1
        self.refused(1, "pull", "user/L", "--connections", "1")
        self.assertEqual(len(self.left_over()), 2)
        self.hub.refused_from = {}
        self.hub.held.clear()
        self.hub.got_part.clear()
        pulling = self.start("pull", "user/L")
        self.assertTrue(self.hub.got_part.wait(60))
        self.assertIn("another process", self.refused(1, "models", "--remove", "user/L/L-00001-of-00002"))
        pulling.kill()
        pulling.wait()
        self.run_weft("models", "--remove", "user/L/L-00001-of-00002")
        self.assertEqual(list(self.cache.rglob("*L*")), [])
        # A file that weft did not download.
        (self.cache / "models" / "own.gguf").write_bytes(MODEL)
        self.assertEqual(self.run_weft("models", "--remove", "own").returncode, 0)
        self.assertTrue((self.cache / "models").is_dir())

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
        self.assertIn("does not exist", self.refused(1, "pull", "ollama:nothing"))

    def test_connections_that_break_go_on_where_they_were(self):
        self.hub.files["user/L/L-Q4_0.gguf"] = LARGE
        for fault, n in (("broken", 5), ("429", 1), ("500", 1)):
            with self.subTest(fault):
                self.hub.faults[fault] = n
                pulled = Path(self.pull("user/L")["path"])
                self.assertEqual(pulled.read_bytes(), LARGE)
                pulled.unlink()
        begins = [int(r[6:].split("-")[0]) for _, r, _ in self.hub.asked if r]
        self.assertTrue(any(begin % (8 << 20) for begin in begins), begins)  # In the middle of a part.
        self.assertEqual(self.left_over(), [])
        # Of each part it is counted how often it fails in a row.
        self.hub.faults.clear()
        self.hub.busy_parts = 2
        pulled = Path(self.pull("user/L")["path"])
        self.assertEqual(pulled.read_bytes(), LARGE)
        pulled.unlink()
        self.hub.busy_parts = 0
        self.hub.ranges = False
        self.hub.faults["broken"] = 1
        self.assertEqual(Path(self.pull("user/L")["path"]).read_bytes(), LARGE)

    def test_what_was_begun_is_resumed(self):
        self.hub.files["user/L/L-Q4_0.gguf"] = LARGE
        self.hub.refused_from["user/L/L-Q4_0.gguf"] = 2 * PART
        self.assertIn("denies access", self.refused(1, "pull", "user/L", "--connections", "1"))
        self.assertEqual(len(self.left_over()), 2)  # The parts, and which are there.
        self.hub.refused_from = {}
        # While one process downloads, another gets an error before it requests the file.
        self.hub.held.clear()
        self.hub.got_part.clear()
        first = self.start("pull", "user/L")
        self.assertTrue(self.hub.got_part.wait(60))
        del self.hub.asked[:]
        self.assertIn("another process", self.refused(1, "pull", "user/L"))
        self.assertEqual([path for path, _, _ in self.hub.asked], ["/api/models/user/L/tree/main"])
        first.kill()
        first.wait()
        self.hub.held.set()
        # What goes wrong before the file comes takes nothing away.
        self.hub.refused_from["user/L/L-Q4_0.gguf"] = 0
        self.refused(1, "pull", "user/L")
        self.hub.refused_from = {}
        del self.hub.asked[:]
        self.assertEqual(Path(self.pull("user/L")["path"]).read_bytes(), LARGE)
        self.assertEqual({r for path, r, _ in self.hub.asked if path.startswith("/cdn/")},
                         {"bytes=0-0", f"bytes={2 * PART}-{len(LARGE) - 1}"})  # fmt: skip
        self.assertEqual(self.left_over(), [])

    def test_what_may_have_changed_is_begun_anew(self):
        """Changes are unknown without a checksum and an ETag; a new one, or another URL, means a changed file."""
        name = "user/L/L-Q4_0.gguf"
        other = bytes(reversed(range(256))) * (20 * 4096)
        for how in ("nothing tells", "the tag"):
            with self.subTest(how):
                self.hub.etags = how == "the tag"
                self.hub.no_sums = {"L-Q4_0.gguf"}
                self.hub.files[name] = LARGE
                self.hub.refused_from[name] = 2 * PART
                self.refused(1, "pull", "user/L", "--connections", "1")
                self.assertEqual(len(self.left_over()), 2 if self.hub.etags else 0)
                self.hub.refused_from = {}
                self.hub.files[name] = other
                pulled = Path(self.pull("user/L")["path"])
                self.assertTrue(pulled.read_bytes() == other)
                self.assertEqual(self.left_over(), [])
                pulled.unlink()

    def test_wrong_bytes_are_not_kept(self):
        self.hub.files["user/L/L-Q4_0.gguf"] = LARGE
        self.hub.wrong_sum.add("L-Q4_0.gguf")
        self.assertIn("SHA-256", self.refused(1, "pull", "user/L"))
        self.assertEqual([p for p in self.cache.rglob("*") if p.is_file()], [])
        self.hub.wrong_sum.clear()
        self.hub.faults["other part"] = 10**6
        self.assertIn("not the requested part", self.refused(1, "pull", "user/L"))

    def test_sizes_that_no_disk_has_are_refused(self):
        self.hub.files["user/L/L-Q4_0.gguf"] = MODEL
        for size in (2**62, 2**63 - 4096, 2**63 - 1):
            self.hub.said_size["user/L/L-Q4_0.gguf"] = size
            said = self.refused(1, "pull", f"{self.hub.url}/user/L/resolve/main/L-Q4_0.gguf")
            self.assertIn("MiB more", said)
        self.assertEqual([p for p in self.cache.rglob("*") if p.is_file()], [])

    def test_tokens_go_to_the_hub_alone(self):
        self.hub.files["closed/model/m-Q4_0.gguf"] = MODEL
        self.assertIn("HF_TOKEN", self.refused(1, "pull", "closed/model"))
        self.pull("closed/model", HF_TOKEN=TOKEN)
        for path, _, authorization in self.hub.asked:
            if path.startswith("/cdn/"):
                self.assertEqual(authorization, "")

    def test_errors_name_what_cannot_be_pulled(self):
        self.assertIn("does not exist", self.refused(1, "pull", "user/nothing"))
        self.hub.files["user/no-gguf/model.safetensors"] = b"x"
        self.assertIn("no GGUF file", self.refused(1, "pull", "user/no-gguf"))
        for name in ("model", "a/b/c", "../b", "a/..", "a/b:", "a/b:c/d", "", "https://host/file.bin", "a b\n/c"):
            self.assertIn("USER/REPO", self.refused(1, "pull", name))
        # What a hub lists is not believed.
        self.hub.files["user/evil/../../../evil-Q4_0.gguf"] = MODEL
        self.assertIn("no GGUF file", self.refused(1, "pull", "user/evil"))
        self.refused(2, "pull")
        self.refused(2, "run", "-hf", "nothing like it", "-p", "x")
        self.refused(2, "run", "-hff", "x.gguf", "-p", "x")
        self.refused(2, "run", "-mu", "x.gguf", "-p", "x")
        # Where no folder can be made.
        self.hub.files["user/T/T-Q4_0.gguf"] = MODEL
        (self.cache / "models").write_text("a file")
        self.assertIn("cannot create the folder", self.refused(1, "pull", "user/T"))
        self.assertIn("127.0.0.1:9: ", self.unreachable.stderr.read())
        self.assertEqual(self.unreachable.wait(), 1)


if __name__ == "__main__":
    unittest.main()
