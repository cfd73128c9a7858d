// The tables of the live page, made again from each snapshot.
import {el} from '../dom.js';
import {cells_by_sequence} from './cells_chart.js';

export const count = (n) => Math.round(n ?? 0).toLocaleString('en-US');

export function age(ms) {
  const s = ms / 1000;
  if (s < 1) return `${Math.round(ms)} ms`;
  if (s < 60) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  return s < 86400 ? `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min` : `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
}

function swatch(colours) {
  const node = el('span', {class: 'swatch', 'aria-hidden': 'true'});
  node.style.background = colours;
  return node;
}

function table(label, heads, rows) {
  return el('table', {'aria-label': label},
            el('thead', {}, el('tr', {}, heads.map(([text, kind]) => el('th', {scope: 'col', class: kind}, text)))), el('tbody', {}, rows));
}

const kOrder = ['decoding', 'prefilling', 'paused', 'waiting'];
const kStates = {decoding: 'generating', prefilling: 'prefill', paused: 'paused', waiting: 'waiting'};
const kMaxRows = 200;

/** Requests, running ones first; `colour(id)`. */
export function streams_table(streams, colour) {
  const rows = [...streams].sort((a, b) => kOrder.indexOf(a.state) - kOrder.indexOf(b.state) || b.age_ms - a.age_ms).slice(0, kMaxRows).map((stream) => {
    const {request, completion, state, sequence, n_prompt, n_cached, n_read, n_generated, age_ms} = stream;
    const read = el('div', {class: 'progress', role: 'img', 'aria-label': `${count(n_read)} of ${count(n_prompt)} prompt tokens processed, ${count(n_cached)} of them cached`}, el('i', {class: 'from-cache'}), el('i', {class: 'read'}));
    const share = (n) => `${n_prompt > 0 ? Math.min(1, n / n_prompt) * 100 : 0}%`;
    read.firstChild.style.width = share(Math.min(n_cached, n_read));
    read.lastChild.style.width = share(Math.max(0, n_read - n_cached));
    return el('tr', {class: state},
              el('td', {}, Number.isInteger(sequence) && sequence >= 0 ? swatch(colour(sequence)) : el('span', {class: 'swatch none', 'aria-hidden': 'true'}), `${request}${completion ? `.${completion}` : ''}`),
              el('td', {}, el('span', {class: `state ${state}`}, kStates[state] ?? state)),
              el('td', {class: 'wide'}, read, el('small', {}, n_read < n_prompt ? `${count(n_read)} / ${count(n_prompt)}` : count(n_prompt))),
              el('td', {class: 'number'}, count(n_generated)),
              el('td', {class: 'number age'}, age(age_ms)));
  });
  if (rows.length === 0) rows.push(el('tr', {}, el('td', {colspan: '5', class: 'nothing'}, 'No requests.')));
  return table('Requests', [['Request'], ['State'], ['Prompt', 'wide'], ['Generated', 'number'], ['Age', 'number age']], rows);
}

/** The cells of each sequence: the drawing of the cache as a table. */
export function sequences_table({cells, sequences}, colour) {
  const held = cells_by_sequence(cells.runs);
  const rows = [...sequences].sort((a, b) => a.id - b.id).map(({id, n_tokens, state}) => {
    const {own = 0, shared = 0} = held.get(id) ?? {};
    return el('tr', {}, el('td', {}, swatch(colour(id)), String(id)), el('td', {}, state), el('td', {class: 'number'}, count(n_tokens)),
              el('td', {class: 'number'}, count(own)), el('td', {class: 'number'}, count(shared)));
  });
  if (rows.length === 0) rows.push(el('tr', {}, el('td', {colspan: '5', class: 'nothing'}, 'The cache is empty.')));
  return table('Sequences in the cache', [['Sequence'], ['State'], ['Tokens', 'number'], ['Own cells', 'number'], ['Shared cells', 'number']], rows);
}

/** The buttons of the legend; `on_light(id or null)`. */
export function legend({sequences, cells}, colour, on_light) {
  const held = cells_by_sequence(cells.runs);
  return [...sequences].sort((a, b) => (a.state === b.state ? a.id - b.id : a.state === 'running' ? -1 : 1)).map(({id, n_tokens, state}) =>
    el('button', {
      type: 'button', class: `legend-item ${state}`, data: {id}, 'aria-label': `Sequence ${id}, ${state}, ${count(n_tokens)} tokens, ${count(held.get(id)?.shared)} cells shared`,
      onpointerenter: () => on_light(id), onpointerleave: () => on_light(null), onfocus: () => on_light(id), onblur: () => on_light(null),
    }, swatch(colour(id)), String(id), el('small', {}, count(n_tokens))));
}

const kLatencies = [['first_token', 'First token'], ['between_tokens', 'Between tokens'], ['queue', 'Queue'], ['step', 'Step']];

function ms_text(ms) {
  if (ms === null || ms === undefined) return '–';
  return ms < 10 ? `${ms.toFixed(1)} ms` : ms < 10000 ? `${count(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** Percentiles, with a bar from the median to the 99th on one logarithmic scale. */
export function latency_table(latency) {
  const all = kLatencies.flatMap(([name]) => Object.values(latency[name] ?? {})).filter((ms) => ms > 0);
  const low = Math.log(Math.min(1, ...all)), high = Math.log(Math.max(10, ...all));
  const at = (ms) => (Math.log(Math.max(ms, Math.exp(low))) - low) / (high - low) * 100;
  const rows = kLatencies.map(([name, label]) => {
    const {p50, p90, p99} = latency[name] ?? {};
    const bar = el('div', {class: 'range', 'aria-hidden': 'true'});
    for (const [kind, from, to] of [['far', p50, p99], ['near', p50, p90]]) {
      if (!(from >= 0 && to >= 0)) continue;
      const part = el('i', {class: kind});
      part.style.left = `${at(from)}%`;
      part.style.width = `${Math.max(1.2, at(to) - at(from))}%`;
      bar.append(part);
    }
    return el('tr', {}, el('th', {scope: 'row'}, label), el('td', {class: 'number'}, ms_text(p50)), el('td', {class: 'number'}, ms_text(p90)), el('td', {class: 'number'}, ms_text(p99)), el('td', {class: 'wide'}, bar));
  });
  return table('Latency', [['Interval'], ['p50', 'number'], ['p90', 'number'], ['p99', 'number'], ['p50 to p99', 'wide']], rows);
}

/** Counters since the start, by subject. */
export function counters(stats) {
  const share = (part, all) => (all > 0 ? `${Math.round(part / all * 100)} %` : '–');
  const groups = [
    ['Requests', [['completed', stats.n_completed], ['cancelled', stats.n_cancelled], ['timed out', stats.n_timed_out], ['failed', stats.n_errors]]],
    ['Tokens', [['prompt', stats.n_prompt_tokens], ['cached', stats.n_cached_tokens], ['recomputed', stats.n_recomputed_tokens], ['generated', stats.n_generated_tokens]]],
    ['Speculation', [['drafted', stats.n_drafted_tokens], ['accepted', stats.n_accepted_tokens], ['acceptance rate', share(stats.n_accepted_tokens, stats.n_drafted_tokens)], ['steps', stats.n_steps]]],
    ['Cache', [['sequences free', stats.sequences_free], ['sequences cached', stats.sequences_cached], ['evicted', stats.n_evicted], ['preempted', stats.n_preempted]]],
  ];
  return groups.map(([title, rows]) => el('div', {class: 'counter-group'}, el('h3', {}, title),
    el('dl', {}, rows.map(([label, value]) => el('div', {}, el('dt', {}, label), el('dd', {}, typeof value === 'string' ? value : count(value)))))));
}
