// Small charts on canvases: a rate over time, and the duration of each step.
import {el} from '../dom.js';
import {theme_colours} from './dyes.js';

/** 1, 2 or 5 times a power of ten, at least `value`. */
function round_up(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= value * 0.999);
}

class Chart {
  constructor(kind) {
    this.colours = null;
    this.canvas = el('canvas', {class: kind, role: 'img'});
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  theme_changed() {
    this.colours = null;
    this.draw();
  }

  /** Calls paint(context, width, height) on a clean canvas of the right size. */
  begin(paint) {
    const {clientWidth: width, clientHeight: height} = this.canvas;
    if (!width || !height) return;
    this.colours ??= theme_colours();
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    const context = this.canvas.getContext('2d');
    context.scale(scale, scale);
    paint(context, width, height);
  }
}

/** The last `n` values as a line over a tinted area; the newest is at the right. */
export class Sparkline extends Chart {
  constructor(colour, n) {
    super('sparkline');
    this.colour = colour;
    this.n = n;
    this.values = [];
  }

  add(value) {
    this.values.push(value);
    if (this.values.length > this.n) this.values.shift();
  }

  draw() {
    this.begin((context, width, height) => {
      if (this.values.length < 2) return;
      const top = Math.max(1, ...this.values) * 1.12;
      const n = Math.max(this.values.length, Math.min(30, this.n));
      const x = (i) => width - 3 - (this.values.length - 1 - i) * (width - 3) / (n - 1);
      const y = (value) => height - 2 - value / top * (height - 6);
      const line = new Path2D();
      this.values.forEach((value, i) => (i ? line.lineTo(x(i), y(value)) : line.moveTo(x(i), y(value))));
      const area = new Path2D(line);
      area.lineTo(x(this.values.length - 1), height);
      area.lineTo(x(0), height);
      context.fillStyle = context.strokeStyle = this.colours[this.colour];
      context.globalAlpha = 0.13;
      context.fill(area);
      context.globalAlpha = 1;
      context.lineWidth = 1.6;
      context.lineJoin = 'round';
      context.stroke(line);
      context.beginPath();
      context.arc(x(this.values.length - 1), y(this.values.at(-1)), 2.4, 0, 7);
      context.fill();
    });
  }
}

const kBar = 4;
const kAxis = 44;

/** A bar for each step, the host's part above the model's. */
export class StepChart extends Chart {
  constructor() {
    super('steps');
    this.steps = [];
    this.tip = el('div', {class: 'tip', hidden: true, 'aria-hidden': 'true'});
    this.node = el('div', {class: 'steps-frame'}, this.canvas, this.tip);
    this.canvas.addEventListener('pointermove', (event) => this.pointed(event));
    this.canvas.addEventListener('pointerleave', () => { this.tip.hidden = true; });
  }

  add(steps) {
    for (const step of steps) this.steps.push(step);
    if (this.steps.length > 600) this.steps.splice(0, this.steps.length - 600);
  }

  /** {host, decode}: mean milliseconds of the steps that are kept, or null. */
  means() {
    if (this.steps.length === 0) return null;
    const mean = (name) => this.steps.reduce((sum, step) => sum + step[name], 0) / this.steps.length;
    return {host: mean('host_ms'), decode: mean('decode_ms')};
  }

  shown(width) {
    return this.steps.slice(-Math.max(1, Math.floor((width - kAxis) / kBar)));
  }

  draw() {
    this.begin((context, width, height) => {
      const steps = this.shown(width);
      const top = round_up(Math.max(1, ...steps.map(({ms}) => ms)));
      const y = (ms) => height - 1 - Math.min(1, ms / top) * (height - 12);
      context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
      context.textBaseline = 'middle';
      for (const part of [0, 0.5, 1]) {
        const level = Math.round(y(top * part)) + 0.5;
        context.strokeStyle = this.colours.line;
        context.beginPath();
        context.moveTo(0, level);
        context.lineTo(width - kAxis + 4, level);
        context.stroke();
        if (part === 0) continue;
        context.fillStyle = this.colours.muted;
        context.fillText(`${+(top * part).toPrecision(2)} ms`, width - kAxis + 8, level);
      }
      const start = width - kAxis - steps.length * kBar;
      steps.forEach(({host_ms: host, decode_ms: decode, ms}, i) => {
        const other = Math.max(0, ms - host - decode);
        const x = start + i * kBar;
        const middle = y(decode), upper = y(decode + host + other);
        context.fillStyle = this.colours.warp;
        context.fillRect(x, middle, kBar - 1, height - 1 - middle);
        context.fillStyle = this.colours.weft;
        context.fillRect(x, upper, kBar - 1, Math.max(0.8, middle - upper));
      });
    });
  }

  pointed(event) {
    const box = this.canvas.getBoundingClientRect();
    const steps = this.shown(box.width);
    const x = event.clientX - box.left;
    const step = steps[Math.floor((x - (box.width - kAxis - steps.length * kBar)) / kBar)];
    this.tip.hidden = !step;
    if (!step) return;
    const parts = [step.n_prompt && `${step.n_prompt} prompt`, step.n_decoded && `${step.n_decoded} generated`, step.n_drafted && `${step.n_accepted} of ${step.n_drafted} drafts accepted`].filter(Boolean);
    this.tip.replaceChildren(el('b', {}, `${step.ms.toFixed(1)} ms`), ` host ${step.host_ms.toFixed(1)}, model ${step.decode_ms.toFixed(1)}`, el('br'), parts.join(' · '));
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, box.width - this.tip.offsetWidth))}px`;
    this.tip.style.top = '4px';
  }
}
