#!/usr/bin/env python3
"""picture.py PAGE.md -o FILE.svg: plots the page's first table, whose cells have ratios ("2043 / 291, 7.0x").

A group of bars is a row of the table, a bar is a model: the speed of weft relative to llama.cpp. The plot adapts to
light and dark pages.
"""
import argparse
import re
from html import escape
from pathlib import Path

COLOURS = ["#4c8dd6", "#e39a3b", "#5aa469", "#a877c4", "#8a8f98"]
WIDTH, LEFT, RIGHT, BAR, GAP = 760, 210, 60, 13, 14

STYLE = """<style>
text { font: 12px sans-serif; fill: #1f2328 } .small { font-size: 11px } .end { text-anchor: end } .grid { stroke: #d1d9e0 }
.one { stroke: #cf222e; stroke-width: 2 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .grid { stroke: #3d444d } .one { stroke: #ff7b72 } }
</style>
"""


def first_table(page: str) -> tuple[list[str], dict[str, list[float | None]]]:
    """The models, and by work how many times as fast each is; None where that was not measured."""
    lines = [line.strip().strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    models = [name.strip() for name in lines[0][1:]]
    works: dict[str, list[float | None]] = {}
    for work, *cells in lines[2:]:
        if len(cells) != len(models):
            break
        ratios = [re.search(r"([\d.]+)x", cell) for cell in cells]
        works[work.strip()] = [float(ratio[1]) if ratio else None for ratio in ratios]
    return models, works


def picture(models: list[str], works: dict[str, list[float | None]]) -> str:
    highest = max(ratio for ratios in works.values() for ratio in ratios if ratio is not None)
    scale = (WIDTH - LEFT - RIGHT) / highest
    y, body = 16, []
    for name, ratios in works.items():
        own = [(colour, ratio) for colour, ratio in zip(COLOURS, ratios) if ratio is not None]
        body.append(f'<text x="{LEFT - 10}" y="{y + len(own) * BAR / 2 + 4:.1f}" class="end">{escape(name)}</text>')
        for colour, ratio in own:
            length = ratio * scale
            body.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>')
            body.append(f'<text x="{LEFT + length + 4:.1f}" y="{y + BAR - 3}" class="small">{ratio:.1f}x</text>')
            y += BAR
        y += GAP
    grid = [f'<line x1="{LEFT + at * scale:.1f}" y1="8" x2="{LEFT + at * scale:.1f}" y2="{y - GAP + 6}" class="'
            f'{"one" if at == 1 else "grid"}"/>' for at in range(int(highest) + 1)]
    body.append(f'<text x="{LEFT + scale + 4:.1f}" y="{y + 4}">llama.cpp is 1x</text>')
    y += 18
    for i, model in enumerate(models):
        x = LEFT + (i % 3) * 180
        body.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{COLOURS[i]}"/>')
        body.append(f'<text x="{x + 16}" y="{y + 9}">{escape(model)}</text>')
        y += 18 if i % 3 == 2 or i + 1 == len(models) else 0
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 6}" width="{WIDTH}">\n{STYLE}'
            + "\n".join(grid + body) + "\n</svg>\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    args.output.write_text(picture(*first_table(args.page.read_text())))


if __name__ == "__main__":
    main()
