"""A server for the tests: the program itself, on a free port, with the model that `weft run` would take.

WEFT_PROGRAM names the program. WEFT_SERVER names a server that runs already, in its place.
"""
import os
import tempfile
import urllib.request

import pytest

import weft_server

PROGRAM = os.environ.get("WEFT_PROGRAM", "build/release/weft")


class Server(weft_server.Server):
    def __init__(self, *options):
        super().__init__(PROGRAM, *options)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read().decode()


@pytest.fixture(scope="session")
def server():
    given = os.environ.get("WEFT_SERVER")
    if given:
        class Given:
            url = given
            model = "default"
        yield Given()
        return
    mine = Server("--slot-save-path", tempfile.mkdtemp())
    yield mine
    assert mine.stop() == 0, mine.text()


@pytest.fixture(scope="session")
def start_server():
    """For tests that need options of their own."""
    started = []

    def start(*options):
        started.append(Server(*options))
        return started[-1]

    yield start
    for mine in started:
        if mine.process.poll() is None:
            mine.stop()
