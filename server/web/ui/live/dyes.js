// Colours for canvases: the theme's colours, and one (a dye) for each sequence.

const kHues = [250, 32, 152, 84, 318, 200, 8, 122, 284, 58, 176, 344];

/** The colours of the theme as a canvas takes them. */
export function theme_colours() {
  const probe = document.createElement('span');
  document.body.append(probe);
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = Object.fromEntries(['paper', 'raised', 'sunk', 'ink', 'soft', 'muted', 'line', 'warp', 'weft', 'cell-free'].map((name) => [name, read(name)]));
  probe.style.color = 'light-dark(#000000, #ffffff)';
  colours.dark = getComputedStyle(probe).color === 'rgb(255, 255, 255)';
  probe.remove();
  return colours;
}

/** Gives each sequence a dye and lets it keep it while it lives; sequences that live at the same time differ, as far as there are dyes. */
export class Dyes {
  constructor() {
    this.given = new Map();  // Sequence to a number of kHues.
  }

  update(ids) {
    const alive = new Set(ids);
    for (const id of this.given.keys()) {
      if (!alive.has(id)) this.given.delete(id);
    }
    for (const id of ids) {
      if (!this.given.has(id)) this.given.set(id, this.rarest());
    }
  }

  rarest() {
    const uses = kHues.map(() => 0);
    for (const dye of this.given.values()) ++uses[dye];
    return uses.indexOf(Math.min(...uses));
  }

  /** A CSS colour; `pale` for sequences that have ended. */
  colour(id, dark, pale) {
    const dye = this.given.get(id) ?? 0;
    const light = (dark ? 0.72 : 0.6) + (dye % 2 ? 0.05 : 0);
    if (!pale) return `oklch(${light} 0.125 ${kHues[dye]})`;
    return dark ? `oklch(0.42 0.045 ${kHues[dye]})` : `oklch(0.87 0.042 ${kHues[dye]})`;
  }
}
