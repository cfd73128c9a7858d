#!/usr/bin/env python3
"""plot.py RESULTS.json -o FILE.svg: plots the speeds that `weft bench -o json` measured ("-" reads standard input).

There is a chart for each kind of speed: prefill and decoding, of one or of concurrent sequences. Bars follow the first
field in which the rows differ, colours the other fields. A line over each bar is its roofline, if known. The plot adapts
to light and dark pages.
"""
import argparse
import json
import math
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

WIDTH, LEFT, RIGHT = 760, 64, 16
TOP, BARS, LABELS, LEGEND_LINE = 40, 220, 44, 18  # A chart's parts, from top to bottom.
COLOURS = ["#4c8dd6", "#e39a3b", "#5aa469", "#a877c4", "#8a8f98", "#c9b037"]
MOST_NUMBERS = 24  # Bars that have their speed written over them.

# Fields in which rows may differ, with the title of their axis. Earlier ones are preferred as the axis.
FIELDS = {
    "streams": "concurrent sequences",
    "n_depth": "tokens already in the cache",
    "n_prompt": "prompt tokens",
    "n_generate": "generated tokens",
    "n_ubatch": "tokens per step",
    "threads": "threads",
    "shared": "shared prompt",
    "model": "model",
    "type_k": "type of keys",
    "type_v": "type of values",
}

STYLE = """<style>
text { font: 12px sans-serif; fill: #1f2328 } .title { font-weight: bold; font-size: 14px } .small { font-size: 11px }
.end { text-anchor: end } .middle { text-anchor: middle }
.grid { stroke: #d1d9e0 } .spread { stroke: #1f2328 } .roofline { stroke: #cf222e; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .grid { stroke: #3d444d } .spread { stroke: #e6edf3 } .roofline { stroke: #ff7b72 } }
</style>
"""

Row = dict[str, Any]


@dataclass
class Bar:
    """A speed in tokens a second."""
    row: Row
    speed: float
    deviation: float
    roofline: float  # 0: not known.


def charts_of(rows: list[Row]) -> dict[str, list[Bar]]:
    charts: dict[str, list[Bar]] = {}
    for row in rows:
        if "streams" not in row:
            kinds = [kind for kind, n in (("Prefill", row["n_prompt"]), ("decoding", row["n_generate"])) if n]
            title = " and ".join(kinds).capitalize()
            bar = Bar(row, row["tokens_per_second"], row["deviation"], row.get("roofline_tokens_per_second") or 0)
            charts.setdefault(title, []).append(bar)
            continue
        for part, title in (("prefill", "Prefill"), ("decode", "Decoding")):
            speed, fraction = row[f"{part}_tokens_per_second"], row.get(f"{part}_roofline_fraction")
            if speed:
                bar = Bar(row, speed, row[f"{part}_deviation"] or 0, speed / fraction if fraction else 0)
                charts.setdefault(f"{title} of concurrent sequences", []).append(bar)
    return charts


def value_text(row: Row, field: str) -> str:
    value = row.get(field)
    if field == "shared" and value is not None:
        return "shared prompt" if value else "own prompts"
    return "" if value is None else str(value)


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def values_of(bars: list[Bar], field: str) -> list[str]:
    """Numbers by size, words in the order of the rows."""
    values = {value_text(bar.row, field): bar.row.get(field) for bar in bars}
    return sorted(values, key=lambda text: values[text] if is_number(values[text]) else 0)


def series_of(bar: Bar, fields: list[str]) -> str:
    texts = [(value_text(bar.row, field), is_number(bar.row.get(field)), FIELDS[field]) for field in fields]
    return ", ".join(f"{text} {title}" if number else text for text, number, title in texts if text)


def round_step(value: float) -> float:
    """The next of 1, 2, 5, 10, ... from `value` on."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if value <= factor * power)


def text_at(x: float, y: float, place: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{place}">{escape(text, quote=False)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def rectangle(x: float, y: float, width: float, height: float, colour: int) -> str:
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{COLOURS[colour % len(COLOURS)]}"/>')


def draw(title: str, bars: list[Bar], y: float) -> tuple[list[str], float]:
    """A chart whose upper left corner is at (0, y), and its end."""
    axis, *others = [field for field in FIELDS if len(values_of(bars, field)) > 1] or [""]
    series = list(dict.fromkeys(series_of(bar, others) for bar in bars))
    places = values_of(bars, axis) if axis else [""]
    highest = max(max(bar.speed + bar.deviation, bar.roofline) for bar in bars)
    step = round_step(max(highest, 1e-6) / 5)
    n_steps = max(1, math.ceil(highest / step))
    base, right = y + TOP + BARS, WIDTH - RIGHT

    def height(speed: float) -> float:
        return BARS * speed / (n_steps * step)

    out = [text_at(LEFT, y + 22, "title", f"{title}, tokens a second")]
    for i in range(n_steps + 1):
        out += [line(LEFT, base - height(i * step), right, base - height(i * step), "grid"),
                text_at(LEFT - 8, base - height(i * step) + 4, "end", f"{i * step:g}")]
    group = (right - LEFT) / len(places)
    width = min(48.0, 0.8 * group / len(series))
    out += [text_at(LEFT + (i + 0.5) * group, base + 16, "middle", place) for i, place in enumerate(places)]
    if axis:
        out.append(text_at((LEFT + right) / 2, base + 34, "middle", FIELDS[axis]))
    for bar in bars:
        place = places.index(value_text(bar.row, axis)) if axis else 0
        colour = series.index(series_of(bar, others))
        middle = LEFT + (place + 0.5) * group + (colour - 0.5 * (len(series) - 1)) * width
        left = middle - 0.45 * width
        out.append(rectangle(left, base - height(bar.speed), 0.9 * width, height(bar.speed), colour))
        if bar.deviation:
            out.append(line(middle, base - height(max(0, bar.speed - bar.deviation)), middle,
                            base - height(bar.speed + bar.deviation), "spread"))
        if bar.roofline:
            out.append(line(left, base - height(bar.roofline), left + 0.9 * width, base - height(bar.roofline), "roofline"))
        if len(bars) <= MOST_NUMBERS:
            out.append(text_at(middle, base - height(bar.speed + bar.deviation) - 4, "middle small",
                               f"{bar.speed:.1f}" if bar.speed < 10 else f"{bar.speed:.0f}"))
    y = base + LABELS
    if len(series) > 1:
        for i, name in enumerate(series):
            out += [rectangle(LEFT, y, 10, 10, i), text_at(LEFT + 16, y + 9, "start", name)]
            y += LEGEND_LINE
    return out, y + 8


def plot(rows: list[Row]) -> str:
    body: list[str] = []
    y = 0.0
    for title, bars in charts_of(rows).items():
        lines, y = draw(title, bars, y)
        body += lines
    body += [line(LEFT, y + 6, LEFT + 24, y + 6, "roofline"),
             text_at(LEFT + 32, y + 10, "start", "limit of this machine (the roofline)")]
    y += 24
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" width="{WIDTH}">\n{STYLE}'
            + "\n".join(body) + "\n</svg>\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", metavar="RESULTS.json", help='output of `weft bench -o json`; "-": standard input')
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.svg")
    arguments = parser.parse_args()
    try:
        rows = json.loads(sys.stdin.read() if arguments.results == "-" else Path(arguments.results).read_text())["results"]
        drawn = plot(rows)
    except (KeyError, TypeError, ValueError) as error:
        sys.exit(f"{arguments.results} is not the output of `weft bench -o json`: {error!r}")
    arguments.output.write_text(drawn)


if __name__ == "__main__":
    main()
