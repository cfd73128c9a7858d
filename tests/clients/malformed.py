#!/usr/bin/env python3
"""malformed.py URL [N] [SEED]: sends N malformed requests to a server, which must survive them.

Each must get a response; a refusal has the API's error object. Requests that happen to be valid are served. Prints the
number of responses by status. Exits with 1 if anything else happened.
"""
import collections
import copy
import http.client
import json
import random
import socket
import sys
import threading
import urllib.parse

N_THREADS = 8
PATHS = {
    "/v1/chat/completions": {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}], "max_tokens": 2,
        "temperature": 0.5, "top_p": 0.9, "n": 1, "stop": ["x"], "logit_bias": {"5": 1.0}, "seed": 1, "stream": False,
        "logprobs": True, "top_logprobs": 2, "presence_penalty": 0.1, "response_format": {"type": "json_schema",
        "json_schema": {"name": "a", "schema": {"type": "object", "properties": {"a": {"type": "integer"}},
                                                "required": ["a"], "additionalProperties": False}}}},
    "/v1/completions": {"prompt": "Once upon", "max_tokens": 2, "echo": True, "logprobs": 1, "n": 2, "grammar": 'root ::= "a" | [b-d]+'},
    "/v1/responses": {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}], "max_output_tokens": 2,
                      "tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]},
    "/v1/messages": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "max_tokens": 2,
                     "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]},
    "/v1/embeddings": {"input": ["a", "b"], "encoding_format": "float"},
    "/tokenize": {"content": "Hello", "add_special": True, "with_pieces": True},
    "/detokenize": {"tokens": [1, 2, 3]},
    "/apply-template": {"messages": [{"role": "user", "content": "Hi"}]},
    "/infill": {"input_prefix": "a", "input_suffix": "b", "max_tokens": 2},
    "/slots/0?action=save": {"filename": "x"},
}
STRANGE = [None, True, -1, 0, 1, 2 ** 31, 2 ** 63, 2 ** 64, -2 ** 63, 1e308, 0.5, "", "x", "\u0000", "\ud800", "x" * 5000, [], {}, [[]],
           [None], {"a": {"b": []}}, "<|im_end|>", "../../etc/passwd", "(" * 2000, '("a"*)*', "root ::= root", [1] * 300,
           {"type": "object", "$ref": "#"}, {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
           {"type": "string", "pattern": "(a|a)*b{1000000}"}, {"type": "array", "minItems": 10 ** 9}]


def places(value, path=()):
    """All places in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def mutate(rng, body):
    body = copy.deepcopy(body)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        path = rng.choice(list(places(body)))
        if not path:
            if rng.random() < 0.1:
                return copy.deepcopy(rng.choice(STRANGE))
            body[rng.choice(["extra", "n", "stream", "max_tokens", "tools", "tool_choice", "json_schema", "timeout", "model"])] = copy.deepcopy(rng.choice(STRANGE))
            continue
        holder = body
        for key in path[:-1]:
            holder = holder[key]
        action = rng.random()
        if action < 0.2 and isinstance(holder, dict):
            del holder[path[-1]]
        elif action < 0.3 and isinstance(holder, dict):
            holder[str(path[-1]) + "x"] = holder.pop(path[-1])
        else:
            holder[path[-1]] = copy.deepcopy(rng.choice(STRANGE))
        if not isinstance(body, dict):
            break
    return body


def spoil(rng, text):
    """Bytes that are no JSON any more, mostly."""
    data = bytearray(text)
    for _ in range(rng.randint(1, 4)):
        if not data:
            break
        at = rng.randrange(len(data))
        kind = rng.random()
        if kind < 0.3:
            data[at] = rng.randrange(256)
        elif kind < 0.5:
            del data[at:at + rng.randint(1, 30)]
        elif kind < 0.7:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 20)))
        elif kind < 0.8:
            data[at:at] = rng.choice([b"[", b"{\"a\":"]) * rng.choice([10, 1000, 50000])
        else:
            del data[at:]
    return bytes(data)


RAW = [
    b"GET / HTTP/9.9\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", b"\r\n" * 100, b"GET\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nContent-Length: 2\r\n\r\n{}",
]


class Client:
    def __init__(self, address, rng):
        self.address, self.rng, self.connection = address, rng, None
        self.counts, self.problems = collections.Counter(), []

    def raw(self):
        data = self.rng.choice(RAW)
        with socket.create_connection(self.address, timeout=60) as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while piece := s.recv(65536):
                    answer += piece
            except ConnectionResetError:
                pass
        status = answer.split(b" ")[1].decode() if answer.startswith(b"HTTP/1.1 ") else "closed"
        self.counts["raw " + status] += 1
        if status.startswith("2") or status.startswith("5") and status != "505" and status != "501":
            self.problems.append((data[:80], answer[:200]))

    def request(self):
        path = self.rng.choice(list(PATHS))
        body = mutate(self.rng, PATHS[path])
        text = json.dumps(body, ensure_ascii=self.rng.random() < 0.5).encode("utf-8", "surrogatepass")
        if self.rng.random() < 0.3:
            text = spoil(self.rng, text)
        method = "POST" if self.rng.random() < 0.98 else self.rng.choice(["GET", "PUT", "DELETE", "PATCH", "HEAD", "X"])
        for again in (False, True):
            if self.connection is None:
                self.connection = http.client.HTTPConnection(*self.address, timeout=120)
            try:
                self.connection.request(method, path, text, {"Content-Type": "application/json"})
                answer = self.connection.getresponse()
                data = answer.read()
                break
            except (http.client.HTTPException, OSError) as error:
                # A connection that was kept may be closed at any time; a new one may not.
                self.connection.close()
                self.connection = None
                if again:
                    self.problems.append((path, text[:300], repr(error)))
                    return
        self.counts[answer.status] += 1
        if answer.status >= 400 and method != "HEAD":
            try:
                error = json.loads(data)["error"]
                fine = isinstance(error["message"], str) and error["message"] and isinstance(error["type"], str)
            except (ValueError, KeyError, TypeError):
                fine = False
            if not fine or answer.status == 500:
                self.problems.append((path, text[:300], answer.status, data[:300]))

    def run(self, n):
        for _ in range(n):
            try:
                self.raw() if self.rng.random() < 0.05 else self.request()
            except OSError as error:
                self.problems.append(repr(error))
                return


def main():
    url = urllib.parse.urlparse(sys.argv[1])
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 10000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    clients = [Client((url.hostname, url.port), random.Random(seed * 1000 + i)) for i in range(N_THREADS)]
    threads = [threading.Thread(target=client.run, args=(n // N_THREADS,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = sum((client.counts for client in clients), collections.Counter())
    problems = [problem for client in clients for problem in client.problems]
    print(dict(sorted(counts.items(), key=str)))
    for problem in problems[:20]:
        print(problem)
    print(f"{sum(counts.values())} requests, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
