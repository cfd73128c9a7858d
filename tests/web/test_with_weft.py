"""The page against `weft serve` itself, with tiny models. Skipped where weft is not built."""
import re
import subprocess
from pathlib import Path

import pytest

from test_page import ANSWER, DONE, PNG, ask, attach, ring, wait_until

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/weft"
DATA = ROOT / "tests/data"
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant: "


class Served:
    """What open_page takes: only the address."""

    def __init__(self, url):
        self.url = url


@pytest.fixture
def weft(tmp_path):
    """weft(*options) -> a running `weft serve`"""
    if not PROGRAM.is_file():
        pytest.skip("no build/release/weft")
    running = []

    def start(*options):
        process = subprocess.Popen([PROGRAM, "serve", "--port", "0", "--chat-template", TEMPLATE, "--no-pack-cache", *options],
                                   stderr=subprocess.PIPE, text=True, env={"HOME": str(tmp_path)})
        running.append(process)
        address, lines = None, []
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"ready .*address=(\S+)", line):
                address = found[1]
                break
        assert address, lines
        return Served(address + "/")

    yield start
    for process in running:
        process.terminate()
        process.communicate(timeout=30)


def test_image_reaches_a_vision_model(open_page, weft):
    server = weft("-m", DATA / "golden/gemma3/model.gguf", "--mmproj", DATA / "vision/gemma3/mmproj.gguf", "-n", "8")
    page = open_page(server)
    wait_until(page, "document.querySelector('[aria-label^=\"Attach files\"]').title.includes('images')")
    attach(page, ("<b>dot</b>.png", "image/png", PNG))
    page.wait_for_selector(".composer .chip img")
    ask(page, "What is it?")
    assert page.query_selector(".problem") is None
    assert "8 tokens" in page.inner_text(f"{ANSWER} .figures")
    page.reload()
    page.wait_for_selector(".media img")
    ask(page, "And now?")
    assert page.query_selector(".problem") is None


def test_audio_reaches_an_audio_model(open_page, weft):
    server = weft("-m", DATA / "audio/text.gguf", "--mmproj", DATA / "audio/ultravox/mmproj.gguf", "-n", "8")
    page = open_page(server)
    wait_until(page, "document.querySelector('[aria-label^=\"Attach files\"]').title.includes('audio')")
    attach(page, *((file.name, "", file.read_bytes()) for file in sorted(DATA.glob("audio/tone.*"))))
    page.wait_for_selector(".composer .chip audio >> nth=4")
    ask(page, "What is it?")
    assert page.query_selector(".problem") is None


def test_model_without_vision_refuses_images_before_they_are_sent(open_page, weft):
    page = open_page(weft("-m", DATA / "golden/gemma3/model.gguf", "-n", "8"))
    attach(page, ("dot.png", "image/png", PNG))
    page.wait_for_selector(".toast:has-text('cannot read images'):has-text('--mmproj')")


def test_full_context_is_left_by_dropping_turns(open_page, weft):
    page = open_page(weft("-m", DATA / "golden/gemma3/model.gguf", "-n", "8", "-c", "256"))
    for i in range(6):
        ask(page, f"{i} " + "some words of a question " * 6)
        if page.query_selector(".problem:has-text('maximum context length')"):
            break
    page.click(".problem button:has-text('Drop the oldest turns')")
    page.wait_for_selector(".problem", state="detached")
    page.wait_for_selector(DONE)
    assert "of 256 tokens" in ring(page)
    page.problems.expect("400")
