#!/usr/bin/env python3
"""picture.py REPORT.json -o FILE.svg: draws what `versus.py --json REPORT.json` measured.

A group of bars for each work, a bar for each model: how many times as fast as llama.cpp weft is. The file is for light
and dark pages.
"""
import argparse
import json
from html import escape
from pathlib import Path

WORK_NAMES = {
    "prefill512": "read 512 tokens",
    "decode": "write, one text",
    "streams8": "write, 8 texts at once",
    "streams32": "write, 32 texts at once",
    "shared1024x32": "32 texts, 1,024 tokens shared",
    "decode@4096": "write behind 4,096 tokens",
}
MODEL_NAMES = {"SmolLM2-135M-Instruct.Q4_1": "SmolLM2 135M Q4_1", "gemma-3-270m-q4_k_m": "Gemma 3 270M Q4_K_M",
               "random-1b-q4_k_m": "1B Q4_K_M", "random-1b-q4_0": "1B Q4_0", "random-1b-q8_0": "1B Q8_0"}
COLOURS = ["#4c8dd6", "#e39a3b", "#5aa469", "#a877c4", "#8a8f98"]
WIDTH, LEFT, RIGHT, BAR, GAP = 760, 200, 60, 13, 14

STYLE = """<style>
text { font: 12px sans-serif; fill: #1f2328 } .small { font-size: 11px } .end { text-anchor: end } .grid { stroke: #d1d9e0 }
.one { stroke: #cf222e; stroke-width: 2 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .grid { stroke: #3d444d } .one { stroke: #ff7b72 } }
</style>
"""


def picture(rows: list[dict]) -> str:
    rows = [row for row in rows if row["work"] in WORK_NAMES]
    models = list(dict.fromkeys(row["model"] for row in rows))
    highest = max(row["ratio"] for row in rows)
    scale = (WIDTH - LEFT - RIGHT) / highest
    y, body = 16, []
    for work, name in WORK_NAMES.items():
        own = [row for row in rows if row["work"] == work]
        if not own:
            continue
        body.append(f'<text x="{LEFT - 10}" y="{y + len(own) * BAR / 2 + 4:.1f}" class="end">{name}</text>')
        for row in own:
            colour = COLOURS[models.index(row["model"]) % len(COLOURS)]
            length = row["ratio"] * scale
            body.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>')
            body.append(f'<text x="{LEFT + length + 4:.1f}" y="{y + BAR - 3}" class="small">{row["ratio"]:.1f}x</text>')
            y += BAR
        y += GAP
    grid = [f'<line x1="{LEFT + at * scale:.1f}" y1="8" x2="{LEFT + at * scale:.1f}" y2="{y - GAP + 6}" class="'
            f'{"one" if at == 1 else "grid"}"/>' for at in range(int(highest) + 1)]
    body.append(f'<text x="{LEFT + scale + 4:.1f}" y="{y + 4}">llama.cpp is 1x</text>')
    y += 18
    for i, model in enumerate(models):
        x = LEFT + (i % 3) * 180
        body.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{COLOURS[i % len(COLOURS)]}"/>')
        body.append(f'<text x="{x + 16}" y="{y + 9}">{escape(MODEL_NAMES.get(model, model))}</text>')
        y += 18 if i % 3 == 2 or i + 1 == len(models) else 0
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 6}" width="{WIDTH}">\n{STYLE}'
            + "\n".join(grid + body) + "\n</svg>\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    args.output.write_text(picture(json.loads(args.report.read_text())["results"]))


if __name__ == "__main__":
    main()
