"""A server to test: the program itself, on a free port."""
import re
import subprocess
import tempfile
import time
import urllib.parse

SECONDS_TO_START = 120


class Server:
    def __init__(self, program, *options):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([program, "serve", "--port", "0", *options], stderr=self.log, stdout=subprocess.DEVNULL)
        deadline = time.time() + SECONDS_TO_START
        while time.time() < deadline and self.process.poll() is None:
            if ready := re.search(r"ready model=(\S+) address=(https?://\S+)", self.text()):
                self.model, self.url = ready.groups()
                parts = urllib.parse.urlparse(self.url)
                self.address = (parts.hostname, parts.port)
                return
            time.sleep(0.05)
        self.process.kill()
        raise RuntimeError("the server did not start:\n" + self.text())

    def text(self):
        """What it has logged."""
        self.log.seek(0)
        return self.log.read()

    def stop(self, seconds=60):
        """Its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
