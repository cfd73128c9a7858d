"""A mock server and a browser for the page's tests. They need Playwright (PyPI) and Chromium (Debian); where these are not, they
skip. Run by `make test-web`."""
import shutil
import threading

import pytest

playwright = pytest.importorskip("playwright.sync_api")

from mock_server import Server  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def serve():
    """serve(**options of Server) -> a running server with .url"""
    servers = []

    def start(**options):
        server = Server(0, **{"rate": 2000.0, **options})
        server.url = f"http://127.0.0.1:{server.server_address[1]}/"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


class Problems(list):
    """What the page complained of; a test that expects something removes it."""

    def expect(self, part: str) -> None:
        found = [text for text in self if part in text]
        assert found, f"nothing like {part!r} in {self}"
        for text in found:
            self.remove(text)


@pytest.fixture
def open_page(browser, serve):
    """open_page(server=None, **options of a context) -> page, loaded. No error of the page, no breach of its policy goes unseen."""
    opened = []

    def start(server=None, wait=True, fragment="", **options):
        server = server or serve()
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, "permissions": ["clipboard-read", "clipboard-write"], **options})
        page = context.new_page()
        page.set_default_timeout(10000)
        page.server = server
        page.problems = Problems()
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda message: page.problems.append(message.text) if message.type in ("error", "warning") else None)
        page.goto(server.url + fragment)
        if wait:
            page.wait_for_selector(".model-slot *", state="attached")
        opened.append((context, page))
        return page

    yield start
    problems = [text for _, page in opened for text in page.problems]
    for context, _ in opened:
        context.close()
    assert problems == []
