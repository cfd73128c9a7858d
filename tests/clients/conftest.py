"""A server for the tests: the program itself, on a free port, with the model that `weft run` would take.

WEFT_PROGRAM names the program. WEFT_SERVER names a server that runs already, in its place.
"""
import os
import re
import subprocess
import tempfile
import time
import urllib.request

import pytest

PROGRAM = os.environ.get("WEFT_PROGRAM", "build/release/weft")
SECONDS_TO_START = 120


class Server:
    def __init__(self, *options):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--port", "0", *options], stderr=self.log, stdout=subprocess.DEVNULL)
        deadline = time.time() + SECONDS_TO_START
        while time.time() < deadline:
            text = self.text()
            ready = re.search(r"ready model=(\S+) address=(http://\S+)", text)
            if ready:
                self.model, self.url = ready.groups()
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.process.kill()
        raise RuntimeError("the server did not start:\n" + self.text())

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read().decode()

    def stop(self):
        self.process.terminate()
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


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
