#!/usr/bin/env python3
"""Draws docs/layers.svg, the layers of src/: make_layer_figure.py [--check]

The layers and their links are the table DESIGN of tests/layers/check_layers.py. A layer is one row above the highest
layer that it links; links that follow from others are not drawn. The option --check compares the file instead, and
fails if the figure is out of date. Needs only Python.
"""
import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIGURE = ROOT / "docs/layers.svg"
sys.path.insert(0, str(ROOT / "tests/layers"))
from check_layers import DESIGN, closure  # noqa: E402

BOX, HEIGHT, GAP, ROW = 116, 30, 18, 74  # pixels: a box, the space between boxes, from row to row
STYLE = """<style>
  text { font: 13px system-ui, sans-serif; fill: #1f2933; text-anchor: middle }
  rect { fill: #e8f0fe; stroke: #4a6fa5 }
  path { fill: none; stroke: #7b8794; stroke-width: 1.2 }
  .page { fill: #ffffff; stroke: none }
</style>"""


def depths(design: dict[str, set[str]]) -> dict[str, int]:
    found: dict[str, int] = {}

    def depth(layer: str) -> int:
        if layer not in found:
            found[layer] = 1 + max((depth(below) for below in design[layer]), default=-1)
        return found[layer]

    for layer in design:
        depth(layer)
    return found


def drawn_links(design: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Without links that follow from other links."""
    links = []
    for layer, below in design.items():
        through = set().union(*(closure(design, other) for other in below)) if below else set()
        links += [(layer, other) for other in sorted(below - through)]
    return links


def ordered_rows(design: dict[str, set[str]]) -> list[list[str]]:
    """The layers of each row from left to right, near the layers that they link."""
    depth = depths(design)
    rows = [[layer for layer in design if depth[layer] == d] for d in range(max(depth.values()) + 1)]
    links = drawn_links(design)
    for sweep in range(8):
        place = {layer: (i + 0.5) / len(row) for row in rows for i, layer in enumerate(row)}
        for row in rows:
            near = {layer: [place[b] for a, b in links if a == layer] + [place[a] for a, b in links if b == layer and sweep % 2]
                    for layer in row}
            row.sort(key=lambda layer: sum(near[layer]) / len(near[layer]) if near[layer] else place[layer])
            place |= {layer: (i + 0.5) / len(row) for i, layer in enumerate(row)}
    return rows


def figure(design: dict[str, set[str]]) -> str:
    rows = ordered_rows(design)
    width = max(map(len, rows)) * (BOX + GAP) + GAP
    height = len(rows) * ROW - (ROW - HEIGHT) + 2 * GAP
    at = {}
    for d, row in enumerate(rows):
        for i, layer in enumerate(row):
            at[layer] = (round(width * (i + 0.5) / len(row)), height - GAP - HEIGHT - d * ROW)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
             "<title>Layers of weft: each layer uses only the layers below it</title>", STYLE,
             f'<rect class="page" width="{width}" height="{height}"/>']
    for upper, lower in drawn_links(design):
        (x1, y1), (x2, y2) = at[upper], at[lower]
        y1, half = y1 + HEIGHT, ROW // 2
        lines.append(f'<path d="M{x1} {y1} C{x1} {y1 + half} {x2} {y2 - half} {x2} {y2}"/>')
    for layer, (x, y) in at.items():
        lines.append(f'<rect x="{x - BOX // 2}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="5"/>'
                     f'<text x="{x}" y="{y + 20}">{layer.replace("_", "/")}</text>')
    return "\n".join([*lines, "</svg>", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    drawn = figure(DESIGN)
    if not parser.parse_args().check:
        FIGURE.write_text(drawn)
        return 0
    if not FIGURE.exists() or FIGURE.read_text() != drawn:
        print("docs/layers.svg is out of date: run scripts/make_layer_figure.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
