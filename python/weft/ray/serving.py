"""Replicas of `weft serve` with one endpoint.

The API exists only once, in the server: a replica is a process of the program `weft` on a Unix socket, and requests are forwarded
unchanged. Only the request's prompt is examined, to route it to a replica that has its prefix cached."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Optional, Union

import aiohttp
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.config import RequestRouterConfig
from ray.serve.handle import DeploymentHandle
from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from yarl import URL

from ..errors import DeviceError, NotFoundError
from ..options import FilePath
from .prefixes import PrefixMemory

# The fields with which prompts begin, in the order in which models read them, of any API.
_TEXT_FIELDS = ("model", "system", "instructions", "tools", "messages", "input", "prompt", "query")
# Headers of one HTTP hop, not of the response.
_OWN_HEADERS = {"connection", "content-length", "host", "keep-alive", "transfer-encoding", "date"}
# The most attempts for a request whose replica is lost before it has responded.
_ATTEMPTS = 4
_PR_SET_PDEATHSIG = 1


def app(
    model: FilePath,
    *,
    n_replicas: Union[int, tuple[int, int]] = 1,
    n_parallel: int = 64,
    num_cpus: float = 1,
    num_gpus: float = 0,
    arguments: Sequence[str] = (),
    program: Optional[FilePath] = None,
) -> serve.Application:
    """An application for ray.serve.run: the API of `weft serve` at one address, with several replicas.

    `n_replicas`: how many, or the fewest and the most, between which the queue decides: a replica for each 3/4 * `n_parallel`
    requests that are under way. Each computes up to `n_parallel` of them at the same time, on `num_cpus` cores, and takes no
    more. `arguments` are further ones of `weft serve`. `program` is weft's own, by default the one in PATH, on each node.
    A request whose replica dies before it has answered is computed by another one."""
    few, most = n_replicas if isinstance(n_replicas, tuple) else (n_replicas, n_replicas)
    scaling: dict[str, Any] = {"num_replicas": few}
    if few != most:
        target = max(1.0, 0.75 * n_parallel)
        scaling = {"autoscaling_config": {"min_replicas": few, "max_replicas": most, "target_ongoing_requests": target}}
    replica = serve.deployment(
        Replica,
        name="Replica",
        max_ongoing_requests=n_parallel,
        ray_actor_options={"num_cpus": num_cpus, "num_gpus": num_gpus},
        request_router_config=RequestRouterConfig(request_router_class=PrefixRouter),
        health_check_period_s=5,
        **scaling,
    )
    words = ["-m", os.fspath(model), "-np", str(n_parallel), "-t", str(max(1, int(num_cpus))), *arguments]
    gateway = serve.deployment(Gateway, name="Gateway", max_ongoing_requests=1 << 20, ray_actor_options={"num_cpus": 0})
    return gateway.bind(replica.bind(words, os.fspath(program) if program else None))


class Gateway:
    """Takes requests and forwards each to a replica."""

    def __init__(self, replicas: DeploymentHandle) -> None:
        self._forward = replicas.options(method_name="forward", stream=True)

    async def __call__(self, request: Request) -> Response:
        body = await request.body()
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = _passed_on(request.headers.items())
        for _ in range(_ATTEMPTS):
            answer = self._forward.remote(text_of(body), request.method, target, headers, body)
            try:
                status, fields = await answer.__anext__()
                if not _is_stream(fields):
                    # Whole: a replica may die between the last byte and the end.
                    return Response(b"".join([piece async for piece in answer]), status, fields)
                first = await anext(answer, b"")
            except (RayActorError, ConnectionError):
                continue
            return StreamingResponse(_pieces(first, answer), status, fields)
        error = {"message": "the replicas that were asked are gone", "type": "server_error", "code": "unavailable"}
        return JSONResponse({"error": error}, 503, {"Retry-After": "1"})


class Replica:
    """A `weft serve` process and the requests forwarded to it. It ends with this process, however that ends."""

    async def __init__(self, words: list[str], program: Optional[str]) -> None:  # type: ignore[misc]
        found = shutil.which(program or "weft")
        if found is None:
            missing = f"{program} is no program on this node" if program else "the program weft is not in this node's PATH"
            raise NotFoundError(f"{missing}: install it there, or name it with program=")
        self._folder = tempfile.TemporaryDirectory(prefix="weft-")
        socket = Path(self._folder.name) / "socket"
        self._process = _start([found, "serve", *words, "--host", str(socket)])
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket), limit=0), timeout=timeout,
                                              auto_decompress=False)  # fmt: skip
        while not await self._answers("/ready"):
            self.check_health()
            await asyncio.sleep(0.05)

    async def forward(self, text: str, method: str, target: str, headers: dict[str, str], body: bytes) -> AsyncIterator[Any]:
        """The response's status and headers, then its body piece by piece. `text` is for the router."""
        try:
            url = URL("http://weft" + target, encoded=True)
            async with self._session.request(method, url, headers=headers, data=body or None) as answer:
                yield answer.status, _passed_on(answer.headers.items())
                async for piece in answer.content.iter_any():
                    yield piece
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error)) from None

    def check_health(self) -> None:
        """Ray starts another replica where this raises."""
        if (status := self._process.poll()) is not None:
            raise DeviceError(f"weft serve ended with status {status}; what it said is in the replica's log")

    def __del__(self) -> None:
        if process := getattr(self, "_process", None):
            process.terminate()

    async def _answers(self, path: str) -> bool:
        try:
            async with self._session.get("http://weft" + path) as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


class PrefixRouter(RequestRouter):
    """Routes requests with a common prefix to the same replica, unless it is much busier than others."""

    def initialize_state(self) -> None:
        self._memory = PrefixMemory()

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: Optional[PendingRequest] = None
    ) -> list[list[RunningReplica]]:
        if pending_request is None or not pending_request.args or not candidate_replicas:
            return [candidate_replicas]
        loads = {one.replica_id: self.replica_queue_len_cache.get(one.replica_id) or 0 for one in candidate_replicas}
        chosen = self._memory.choose(pending_request.args[0], loads)
        first = [one for one in candidate_replicas if one.replica_id == chosen]
        return [first, [one for one in candidate_replicas if one.replica_id != chosen]]

    def on_replica_actor_died(self, replica_id: Any) -> None:
        super().on_replica_actor_died(replica_id)
        self._memory.forget(replica_id)


def text_of(body: bytes) -> str:
    """The fields of a request that make up its prompt, as one string. Empty for requests without a prompt."""
    try:
        fields = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(fields, dict):
        return ""
    return "".join(json.dumps(fields[name], ensure_ascii=False) for name in _TEXT_FIELDS if name in fields)


def _passed_on(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in _OWN_HEADERS}


def _is_stream(headers: dict[str, str]) -> bool:
    return any(name.lower() == "content-type" and value.startswith("text/event-stream") for name, value in headers.items())


async def _pieces(first: bytes, rest: Any) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    """Started, and waited for, by a thread that lives as long: the system ends a process with the thread that started it."""
    library = ctypes.CDLL(None)
    started: list[Any] = []
    ready = threading.Event()

    def keep() -> None:
        try:
            process = subprocess.Popen(command, preexec_fn=lambda: library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM))
            started.append(process)
        except OSError as error:
            started.append(error)
            return
        finally:
            ready.set()
        process.wait()

    threading.Thread(target=keep, daemon=True).start()
    ready.wait()
    if isinstance(started[0], OSError):
        raise started[0]
    return started[0]
