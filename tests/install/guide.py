"""The pages of the guide as programs: the concatenated C++ blocks of a page, and their expected output."""
import re
from pathlib import Path


def write_programs(pages: Path, folder: Path) -> dict[str, str]:
    """A program for each page; returns what each prints, by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    expected = {}
    for page in sorted(pages.glob("*.md")):
        blocks = re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        code = "".join(text for kind, text in blocks if kind == "cpp")
        includes = sorted(set(re.findall(r"^#include .*$", code, re.MULTILINE)))
        body = re.sub(r"^#include .*\n", "", code, flags=re.MULTILINE)
        # Classes stand outside of functions, as a reader would put them.
        classes = re.findall(r"^(?:///.*\n)*struct .*?^};$", body, re.MULTILINE | re.DOTALL)
        for one in classes:
            body = body.replace(one, "")
        name = "guide_" + page.stem
        source = "\n".join([*includes, "namespace {", *classes, "}", "int main() {", body, "return 0;", "}", ""])
        (folder / f"{name}.cpp").write_text(source)
        expected[name] = "".join(text for kind, text in blocks if kind == "text")
    return expected
