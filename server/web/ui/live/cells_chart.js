// Draws the cache: pages of 8 x 8 cells, each cell in its sequence's colour. Shared cells alternate the colours of
// their sequences. If there are too many cells for that, a page is one tile.
import {el} from '../dom.js';
import {theme_colours} from './dyes.js';

const kSide = 8;
const kMaxHeight = 420;
const kMaxCells = 1 << 18;
const kSmallest = 2;

const count = (n) => n.toLocaleString('en-US');

/** `dyes`: colours of the sequences. */
export class CellsChart {
  constructor(dyes) {
    this.dyes = dyes;
    this.colours = null;
    this.cells = null;
    this.states = new Map();
    this.lit = null;  // The sequence that is pointed at.
    this.canvas = el('canvas', {class: 'cells', role: 'img', onpointermove: (event) => this.pointed(event), onpointerleave: () => this.left()});
    this.tip = el('div', {class: 'tip', hidden: true, 'aria-hidden': 'true'});
    this.node = el('div', {class: 'cells-frame'}, this.canvas, this.tip);
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  theme_changed() {
    this.colours = null;
    this.draw();
  }

  /**
   * {total, page, runs} and sequences [{id, state}] of a snapshot; `n_cells`: how many cells may hold tokens at a time. There are more
   * pages than these fill, as each sequence begins a page: only as many are drawn as were in use.
   */
  update(cells, sequences, n_cells) {
    this.states = new Map(sequences.map(({id, state}) => [id, state]));
    this.cells = cells;
    this.groups = [[]];  // Sets of sequences; the first one is for free cells.
    const numbers = new Map();
    const end = cells.runs.reduce((most, {first, n}) => Math.max(most, first + n), n_cells || cells.total);
    this.n_drawn = Math.max(Math.ceil(end / this.page) * this.page, this.n_cells === n_cells ? this.n_drawn : 0);
    this.n_cells = n_cells;
    const total = Math.min(this.n_drawn, 1 << 24);
    if (this.owner?.length !== total) this.owner = new Uint32Array(total);
    this.owner.fill(0);
    let shared = 0, used = 0;
    for (const {first, n, sequences: ids} of cells.runs) {
      const key = ids.join();
      let number = numbers.get(key);
      if (number === undefined) {
        number = this.groups.push(ids) - 1;
        numbers.set(key, number);
      }
      this.owner.fill(number, first, Math.min(total, first + n));
      used += n;
      if (ids.length > 1) shared += n;
    }
    this.counts = {used, shared};
    this.canvas.setAttribute('aria-label', `${count(used)} of ${count(n_cells)} cells hold tokens of ${sequences.length} sequences; ${count(shared)} are shared. The table has the same numbers.`);
    this.draw();
  }

  light(id) {
    if (this.lit === id) return;
    this.lit = id;
    this.draw();
  }

  /** Sizes in CSS pixels: of a cell, of a page with its gap, pages in a row. */
  layout(width) {
    const n_pages = Math.ceil(this.owner.length / this.page);
    const fits = (cell) => {
      const gap = cell > 4 ? 5 : 3;
      const step = cell * kSide + gap;
      const columns = Math.max(1, Math.floor((width + gap) / step));
      return {cell, step, gap, columns, height: Math.ceil(n_pages / columns) * step - gap};
    };
    for (let cell = 11; cell >= kSmallest && this.owner.length <= kMaxCells; --cell) {
      const found = fits(cell);
      if (found.height <= kMaxHeight) return found;
    }
    let step = 12;  // A tile a page.
    while (step > 2 && Math.ceil(n_pages / Math.floor(width / step)) * step > kMaxHeight) --step;
    const columns = Math.max(1, Math.floor(width / step));
    return {cell: 0, step, gap: step > 4 ? 1 : 0, columns, height: Math.ceil(n_pages / columns) * step};
  }

  get page() {
    return Math.max(1, this.cells.page);
  }

  draw() {
    const width = this.node.clientWidth;
    if (!this.cells || width === 0) return;
    this.colours ??= theme_colours();
    const place = this.place = this.layout(width);
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(place.height * scale);
    this.canvas.style.height = `${place.height}px`;
    const context = this.canvas.getContext('2d');
    context.scale(scale, scale);
    if (place.cell > 0) this.draw_cells(context);
    else this.draw_tiles(context);
  }

  /** The fills of each group: one colour, or several that take turns. */
  fills() {
    return this.groups.map((ids, i) => {
      if (i === 0) return [this.colours['cell-free']];
      const shown = ids.length > 4 ? ids.slice(0, 4) : ids;
      return shown.map((id) => this.dyes.colour(id, this.colours.dark, this.states.get(id) !== 'running'));
    });
  }

  draw_cells(context) {
    const {cell, step, columns} = this.place;
    const size = cell > 3 ? cell - 1 : cell;
    const fills = this.fills();
    // One path a colour: a fill for each cell would be too slow.
    const paths = new Map();
    const path_of = (colour, faint) => {
      const key = faint ? `${colour}/` : colour;
      let path = paths.get(key);
      if (!path) paths.set(key, path = {colour, faint, shape: new Path2D()});
      return path.shape;
    };
    for (let i = 0; i < this.owner.length; ++i) {
      const page = Math.floor(i / this.page), lane = i % this.page;
      const column = lane % kSide, row = Math.floor(lane / kSide);
      const group = this.owner[i];
      const colours = fills[group];
      const faint = this.lit !== null && group !== 0 && !this.groups[group].includes(this.lit);
      path_of(colours[(column + row) % colours.length], faint)
          .rect((page % columns) * step + column * cell, Math.floor(page / columns) * step + row * cell, size, size);
    }
    for (const {colour, faint, shape} of paths.values()) {
      context.globalAlpha = faint ? 0.18 : 1;
      context.fillStyle = colour;
      context.fill(shape);
    }
  }

  draw_tiles(context) {
    const {step, gap, columns} = this.place;
    const size = step - gap;
    const fills = this.fills();
    for (let page = 0, first = 0; first < this.owner.length; ++page, first += this.page) {
      const x = (page % columns) * step, y = Math.floor(page / columns) * step;
      const last = Math.min(this.owner.length, first + this.page);
      for (let from = first; from < last;) {
        let to = from + 1;
        while (to < last && this.owner[to] === this.owner[from]) ++to;
        const colours = fills[this.owner[from]];
        const top = y + (from - first) / this.page * size, height = (to - from) / this.page * size;
        context.globalAlpha = this.lit !== null && this.owner[from] !== 0 && !this.groups[this.owner[from]].includes(this.lit) ? 0.18 : 1;
        colours.forEach((colour, k) => {
          context.fillStyle = colour;
          context.fillRect(x + k / colours.length * size, top, size / colours.length, height);
        });
        from = to;
      }
    }
    context.globalAlpha = 1;
  }

  cell_at(x, y) {
    const {cell, step, columns} = this.place;
    const column = Math.floor(x / step), row = Math.floor(y / step);
    if (column >= columns || x < 0 || y < 0) return -1;
    const page = row * columns + column;
    const lane = cell === 0 ? 0 : Math.min(kSide - 1, Math.floor((y - row * step) / cell)) * kSide + Math.min(kSide - 1, Math.floor((x - column * step) / cell));
    const index = page * this.page + lane;
    return index < this.owner.length && lane < this.page ? index : -1;
  }

  pointed(event) {
    if (!this.place) return;
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const index = this.cell_at(x, y);
    this.tip.hidden = index < 0;
    if (index < 0) return;
    const ids = this.groups[this.owner[index]];
    const what = ids.length === 0 ? 'free' : ids.length === 1 ? `sequence ${ids[0]}, ${this.states.get(ids[0]) ?? 'cached'}` : `shared by sequences ${ids.slice(0, 12).join(', ')}${ids.length > 12 ? ', …' : ''}`;
    this.tip.replaceChildren(el('b', {}, this.place.cell ? `Cell ${count(index)}` : `Page ${count(index / this.page)}`), ' ', what);
    this.tip.style.left = `${Math.min(x + 14, box.width - this.tip.offsetWidth)}px`;
    this.tip.style.top = `${y + 18}px`;
  }

  left() {
    this.tip.hidden = true;
  }
}

/** The cells of each sequence: {id, own, shared}, from the runs of a snapshot. */
export function cells_by_sequence(runs) {
  const held = new Map();
  for (const {n, sequences} of runs) {
    for (const id of sequences) {
      if (!held.has(id)) held.set(id, {id, own: 0, shared: 0});
      held.get(id)[sequences.length > 1 ? 'shared' : 'own'] += n;
    }
  }
  return held;
}
