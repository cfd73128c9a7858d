// The live page: the state of the engine, from the snapshots of /live. Connected only while it is shown.
import {ApiError, events, request, set_key} from '../api.js';
import {el, icon, morph} from '../dom.js';
import {ask_key, toast_slot} from '../surfaces.js';
import {CellsChart} from './cells_chart.js';
import {Sparkline, StepChart} from './charts.js';
import {Dyes, theme_colours} from './dyes.js';
import {age, count, counters, latency_table, legend, sequences_table, streams_table} from './tables.js';

const kKept = 120;  // Points of a sparkline.
const kRetryMs = [1000, 2000, 4000, 8000];

function tile(label, chart, note) {
  const value = el('span', {class: 'tile-value'}, '–');
  const unit = el('span', {class: 'tile-unit'}, note);
  return {value, unit, node: el('div', {class: 'tile'}, el('h2', {}, label), el('p', {class: 'tile-figure'}, value, ' ', unit), chart)};
}

export class LivePage {
  constructor() {
    this.dyes = new Dyes();
    this.snapshot = null;
    this.before = null;  // {time_ms, stats} of the snapshot before.
    this.wanted = false;
    this.controller = null;
    this.cells = new CellsChart(this.dyes);
    this.steps = new StepChart();
    this.generated_line = new Sparkline('warp', kKept);
    this.prompt_line = new Sparkline('weft', kKept);
    this.build();
    document.addEventListener('visibilitychange', () => (document.hidden ? this.disconnect() : this.wanted && this.connect()));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.theme_changed());
  }

  build() {
    this.generated = tile('Generated', this.generated_line.canvas, 'tokens/s');
    this.prompt = tile('Prompt', this.prompt_line.canvas, 'tokens/s');
    this.room_bar = el('div', {class: 'room', 'aria-hidden': 'true'}, el('i', {class: 'running'}), el('i', {class: 'kept'}));
    this.room = tile('Cache', this.room_bar, 'in use');
    this.load_note = el('p', {class: 'note'});
    this.load = tile('Requests', this.load_note, 'running');
    this.heading_note = el('p', {class: 'live-note'});
    this.state = el('span', {class: 'connection', role: 'status'});
    this.cells_note = el('p', {class: 'note'});
    this.legend = el('div', {class: 'legend', role: 'group', 'aria-label': 'Sequences'});
    this.cells_table = el('div', {class: 'table-frame', hidden: true});
    this.switch = el('button', {type: 'button', class: 'button small', 'aria-pressed': 'false', onclick: () => this.switch_view()}, icon('table'), 'Table');
    this.streams = el('div', {class: 'table-frame'});
    this.latency = el('div', {class: 'table-frame'});
    this.means = el('p', {class: 'note'});
    this.counters = el('div', {class: 'counters'});
    const panel = (title, kind, ...content) => el('section', {class: `panel ${kind}`, 'aria-label': title}, content);
    const head = (title, note, ...more) => el('header', {class: 'panel-head'}, el('div', {}, el('h2', {}, title), note), more);
    const key = (kind, text) => el('span', {}, el('i', {class: `key ${kind}`, 'aria-hidden': 'true'}), text);
    this.content = el('div', {class: 'live-content', hidden: true},
      el('div', {class: 'tiles'}, this.generated.node, this.prompt.node, this.room.node, this.load.node),
      panel('Cache', 'cache', head('Cache', this.cells_note, this.switch), this.cells.node, this.cells_table, this.legend,
            el('p', {class: 'keys'}, key('plain', 'running'), key('pale', 'cached'), key('woven', 'shared by several sequences'), key('free', 'free'))),
      panel('Requests', 'streams', head('Requests'), this.streams),
      panel('Step time', 'time', head('Step time', this.means), this.steps.node,
            el('p', {class: 'keys'}, key('model', 'model'), key('host', 'host: scheduling, sampling, network'))),
      panel('Latency', 'latency', head('Latency'), this.latency),
      panel('Totals', 'since', head('Totals'), this.counters));
    this.node = el('section', {class: 'live', hidden: true, 'aria-label': 'Live'},
      el('div', {class: 'live-column'},
         el('header', {class: 'live-head'}, el('div', {}, el('h1', {}, 'Live'), this.heading_note), this.state), toast_slot(), this.content));
  }

  start() {
    this.wanted = true;
    this.connect();
  }

  stop() {
    this.wanted = false;
    this.disconnect();
  }

  theme_changed() {
    this.colours = null;
    for (const part of [this.cells, this.steps, this.generated_line, this.prompt_line]) part.theme_changed();
    if (this.snapshot) this.show(this.snapshot);
  }

  disconnect() {
    this.controller?.abort();
    this.controller = null;
  }

  async connect() {
    if (this.controller || document.hidden) return;
    const controller = this.controller = new AbortController();
    let problem = null;
    for (let n_failed = 0; !controller.signal.aborted;) {
      this.say(n_failed === 0 ? 'Connecting' : problem, false);
      problem = 'Connection lost. Trying again.';
      try {
        const response = await request('/live', {signal: controller.signal, accept: 'text/event-stream'});
        this.before = null;
        for await (const snapshot of events(response)) {
          if (snapshot === null || controller.signal.aborted) break;
          n_failed = 0;
          this.say('Live', true);
          this.take(snapshot);
        }
      } catch (error) {
        if (error.name === 'AbortError') return;
        if (!(error instanceof ApiError)) throw error;
        if (error.needs_key && !await this.unlock(n_failed > 0)) return this.say('The server needs an API key', false);
        if (error.needs_key) continue;
        if (error.status > 0) problem = `${error.message} Trying again.`;
        // Other refusals do not change.
        if (error.status >= 400 && error.status < 500 && error.retry_after === null) return this.say(error.message, false);
      }
      const wait = kRetryMs[Math.min(n_failed++, kRetryMs.length - 1)];
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
    return undefined;
  }

  async unlock(wrong) {
    const given = await ask_key(wrong);
    if (given) set_key(given.key, given.keep);
    return given !== null;
  }

  say(text, good) {
    if (this.state.textContent !== text) this.state.textContent = text;
    this.state.classList.toggle('good', good);
  }

  take(snapshot) {
    const {stats, time_ms, steps = []} = snapshot;
    const before = this.before;
    if (before && time_ms > before.time_ms) {
      const rate = (name) => Math.max(0, (stats[name] - before.stats[name]) / (time_ms - before.time_ms) * 1000);
      this.generated_line.add(rate('n_generated_tokens'));
      this.prompt_line.add(rate('n_prompt_tokens'));
    }
    this.before = {time_ms, stats};
    this.steps.add(steps);
    this.snapshot = snapshot;
    if (!this.node.hidden) this.show(snapshot);
  }

  colour_of(snapshot) {
    this.colours ??= theme_colours();
    const states = new Map(snapshot.sequences.map(({id, state}) => [id, state]));
    return (id) => this.dyes.colour(id, this.colours.dark, states.get(id) !== 'running');
  }

  show(snapshot) {
    const {model, uptime_s, stats, cells, sequences, streams} = snapshot;
    this.content.hidden = false;
    this.dyes.update(sequences.map(({id}) => id));
    const colour = this.colour_of(snapshot);
    this.heading_note.textContent = `${model} · up ${age(uptime_s * 1000)}`;
    this.show_tiles(stats);
    this.cells.update(cells, sequences, stats.cells_total);
    const {used, shared} = this.cells.counts;
    this.cells_note.textContent = `${count(used)} of ${count(stats.cells_total)} cells hold tokens; ${count(shared)} are shared. A page has ${cells.page} cells.`;
    this.show_part(this.legend, legend(snapshot, colour, (id) => this.cells.light(id)));
    if (!this.cells_table.hidden) this.show_part(this.cells_table, [sequences_table(snapshot, colour)]);
    this.show_part(this.streams, [streams_table(streams, colour)]);
    this.show_part(this.latency, [latency_table(snapshot.latency ?? {})]);
    this.show_part(this.counters, counters(stats));
    this.steps.draw();
    this.generated_line.draw();
    this.prompt_line.draw();
    this.show_means();
  }

  /** The legend's buttons call for their own sequence, so one that is pointed at or focused must stay. */
  show_part(place, nodes) {
    if (place === this.legend && place.matches(':hover, :focus-within')) return;
    if (place === this.legend) return void place.replaceChildren(...nodes);
    const fresh = document.createDocumentFragment();
    fresh.append(...nodes);
    morph(place, fresh);
  }

  show_tiles(stats) {
    const rate = (line) => count(line.values.slice(-4).reduce((sum, value) => sum + value, 0) / Math.max(1, Math.min(4, line.values.length)));
    this.generated.value.textContent = rate(this.generated_line);
    this.prompt.value.textContent = rate(this.prompt_line);
    this.generated_line.canvas.setAttribute('aria-label', `Generated tokens per second in the last minute; now ${this.generated.value.textContent}`);
    this.prompt_line.canvas.setAttribute('aria-label', `Prompt tokens per second in the last minute; now ${this.prompt.value.textContent}`);
    const percent = (n) => (stats.cells_total > 0 ? n / stats.cells_total * 100 : 0);
    this.room.value.textContent = `${Math.round(percent(stats.cells_used))} %`;
    const [running, kept] = this.room_bar.children;
    running.style.width = `${percent(stats.cells_used - stats.cells_cached)}%`;
    kept.style.width = `${percent(stats.cells_cached)}%`;
    this.room.unit.textContent = `of ${count(stats.cells_total)} cells used, ${Math.round(percent(stats.cells_cached))} % cached`;
    this.load.value.textContent = count(stats.n_running);
    const notes = [[stats.n_prefilling, 'prefill'], [stats.n_waiting, 'waiting'], [stats.n_paused, 'paused']].filter(([n]) => n > 0).map(([n, what]) => `${count(n)} ${what}`);
    this.load_note.textContent = notes.join(' · ') || 'none waiting';
  }

  show_means() {
    const means = this.steps.means();
    if (!means) return;
    const {host, decode} = means;
    this.means.textContent = `${(host + decode).toFixed(1)} ms on average, ${Math.round(host / Math.max(1e-9, host + decode) * 100)} % of it on the host.`;
    this.steps.canvas.setAttribute('aria-label', `Duration of the last steps: ${this.means.textContent}`);
  }

  switch_view() {
    const as_table = this.cells_table.hidden;
    this.cells_table.hidden = !as_table;
    this.cells.node.hidden = as_table;
    this.legend.hidden = as_table;
    this.switch.setAttribute('aria-pressed', String(as_table));
    if (this.snapshot) this.show(this.snapshot);
  }
}
