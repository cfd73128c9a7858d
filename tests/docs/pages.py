"""The Markdown pages of the repository."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PATTERNS = ["*.md", "docs/**/*.md", "examples/**/*.md", "labs/*.md"]


def pages() -> dict[str, str]:
    """Each page's text by its path in the repository."""
    found = {path for pattern in PATTERNS for path in ROOT.glob(pattern)}
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(found)}


def parts(text: str) -> tuple[str, str]:
    """The prose and the fenced blocks of a page. The lines of the other part are empty, so line numbers stay."""
    prose, blocks, fence = [], [], None
    for line in text.split("\n"):
        mark = re.match(r"\s*(```+|~~~+)", line)
        inside = fence is not None
        if mark and (fence is None or mark[1].startswith(fence)):
            fence = None if inside else mark[1]
            line = ""
        prose.append("" if inside else line)
        blocks.append(line if inside else "")
    return "\n".join(prose), "\n".join(blocks)


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1
