#!/usr/bin/env python3
"""Makes src/tensor/grids/: the grids of GGUF's IQ types, which are part of the format, from the Python package gguf.

An entry is a number with the levels of the entry's values, the first value in its lowest bits. A level has two bits for
eight values (iq1, iq2), three bits for four (iq3). C++ and the shaders include the files.

Needs: pip install gguf numpy. The files are committed.
"""
from pathlib import Path

import numpy as np
from gguf import quants

GRIDS = {"iq1_s": quants.IQ1_S, "iq2_xxs": quants.IQ2_XXS, "iq2_xs": quants.IQ2_XS, "iq2_s": quants.IQ2_S,
         "iq3_xxs": quants.IQ3_XXS, "iq3_s": quants.IQ3_S}
COLUMNS = 110


def main():
    folder = Path(__file__).parent.parent / "src/tensor/grids"
    for name, type_ in GRIDS.items():
        type_.init_grid()
        entries = type_.grid.reshape(type_.grid_shape)
        bits = 16 // entries.shape[1] if entries.shape[1] == 8 else 3
        lines, line = [], ""
        for entry in entries:
            number = sum(type_.grid_map.index(int(v)) << bits * i for i, v in enumerate(entry))
            item = f"{number:#06x},"
            if len(line) + len(item) + 1 > COLUMNS:
                lines.append(line)
                line = ""
            line += (" " if line else "") + item
        lines.append(line.rstrip(","))  # GLSL takes no comma at the end.
        comment = f"// The grid of {name}: {entries.shape[0]} entries of {entries.shape[1]} levels, made by make_grids.py.\n"
        (folder / f"{name}.inc").write_text(comment + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
