"""Sphinx's configuration of the site that `make docs` builds (scripts/make_docs.py)."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

project = "weft"
author = "the authors of weft"
version = release = re.search(r"#define WEFT_VERSION \"([\d.]+)", (ROOT / "include/weft/version.h").read_text())[1]
language = "en"
root_doc = "index"
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["reference/*"]

myst_heading_anchors = 4
# Pages link folders and sources of the repository, which are not part of the site.
suppress_warnings = ["myst.xref_missing"]
# Console blocks show commands without a prompt, and `console` is not the language of all of them.
highlight_language = "text"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"weft {version}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
