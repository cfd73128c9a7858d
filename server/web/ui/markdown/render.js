// Markdown to DOM nodes, at once (render_markdown) or while it is being written (MarkdownStream).
import {el, morph_node} from '../dom.js';
import {formula_node} from '../math/formula.js';
import {parse_blocks} from './blocks.js';
import {CodeView} from './code_view.js';
import {direction_of} from './direction.js';
import {hint_overflow} from './overflow.js';
import {parse_inline} from './inline.js';

const kElements = {strong: 'strong', em: 'em', del: 'del', sub: 'sub', sup: 'sup', kbd: 'kbd', mark: 'mark'};

/** A fragment of the whole text. */
export function render_markdown(text) {
  const fragment = document.createDocumentFragment();
  for (const block of parse_blocks(text)) fragment.append(block_node(block, false));
  return fragment;
}

function inline_nodes(nodes) {
  return nodes.map((node) => {
    switch (node.type) {
      case 'text': return node.text;
      case 'code': return el('code', {}, node.text);
      case 'br': return el('br');
      case 'math': return formula_node(node.text, node.display);
      case 'link': return link_node(node);
      default: return el(kElements[node.type], {}, inline_nodes(node.children));
    }
  });
}

/** Images become links: loading one would reveal to its server what is read here. */
function link_node({href, image, children}) {
  const label = image ? ['Image: ', inline_nodes(children)] : inline_nodes(children);
  return el('a', {href, target: '_blank', rel: 'noopener noreferrer nofollow', title: href}, label);
}

function inline(text, open) {
  return inline_nodes(parse_inline(text, open));
}

function block_node(block, open) {
  switch (block.type) {
    case 'paragraph': return el('p', {dir: 'auto'}, inline(block.text, open));
    // The page has its own h1; headings of responses are below it.
    case 'heading': return el(`h${Math.min(6, block.level + 1)}`, {dir: 'auto', data: {level: block.level}}, inline(block.text, open));
    case 'code': return CodeView.whole(block.lang, block.text);
    case 'math': return block.closed ? formula_node(block.text, true) : el('p', {class: 'formula-source'}, block.text);
    case 'rule': return el('hr');
    case 'quote': return el('blockquote', {dir: direction_of(block_text(block)) ?? 'ltr'}, block_nodes(block.children, open));
    case 'list': return list_node(block, open);
    case 'table': return table_node(block, open);
  }
  throw new Error(`unknown block ${block.type}`);
}

function block_nodes(blocks, open) {
  return blocks.map((block, i) => block_node(block, open && i === blocks.length - 1));
}

/** The source text of a block, for its direction: with dir=auto a browser skips children that have a direction of their own. */
function block_text({text = '', children = [], items = [], rows = []}) {
  return [text, children.map(block_text).join(' '), items.map(block_text).join(' '), rows.flat().join(' ')].join(' ');
}

function list_node(list, open) {
  const {start, items} = list;
  const rows = items.map((item, i) => item_node(item, list, open && i === items.length - 1));
  return start === null ? el('ul', {}, rows) : el('ol', {start: start === 1 ? null : start}, rows);
}

function list_direction(list) {
  return list.direction ??= direction_of(block_text(list)) ?? 'ltr';
}

/** Each item has its own direction, and its bullet or number is on the side where it begins. */
function item_node(item, list, open) {
  const {task, children} = item;
  const content = children.map((child, i) => {
    const tail = open && i === children.length - 1;
    return list.tight && child.type === 'paragraph' ? inline(child.text, tail) : block_node(child, tail);
  });
  const box = task === null ? null : el('input', {type: 'checkbox', disabled: true, checked: task, 'aria-label': task ? 'Done' : 'To do'});
  return el('li', {class: task === null ? null : 'task', dir: direction_of(block_text(item)) ?? list_direction(list)}, box, content);
}

function table_node(block, open) {
  const {align, rows} = block;
  const [head, ...body] = rows;
  const label = `Table: ${head.join(', ').slice(0, 80)}`;
  return hint_overflow(el('div', {class: 'table-scroll', tabindex: '0', role: 'group', 'aria-label': label, dir: direction_of(block_text(block)) ?? 'ltr'},
    el('table', {}, el('thead', {}, row_node(head, align, 'th', false)),
       body.length ? el('tbody', {}, body.map((cells, i) => row_node(cells, align, 'td', open && i === body.length - 1))) : null)));
}

function row_node(cells, align, tag, open) {
  return el('tr', {}, cells.map((cell, i) =>
    el(tag, {class: align[i] ? `align-${align[i]}` : null, dir: 'auto', scope: tag === 'th' ? 'col' : null}, inline(cell, open))));
}

/**
 * Draws blocks over `container`'s nodes from the one numbered `first`. Of long lists and tables only those items and rows are
 * made whose source is another than when they were drawn last.
 */
class Painter {
  constructor(container) {
    this.container = container;
    this.sources = new WeakMap();  // Item or row to its source.
  }

  draw(blocks, first, open) {
    blocks.forEach((block, i) => {
      const old = this.container.childNodes[first + i];
      const tail = open && i === blocks.length - 1;
      if (old && this.grow(old, block, tail)) return;
      const node = block_node(block, tail);
      if (old) morph_node(old, node);
      else this.container.append(node);
    });
    while (this.container.childNodes.length > first + blocks.length) this.container.lastChild.remove();
  }

  grow(node, block, open) {
    if (block.type === 'list' && node.localName === (block.start === null ? 'ul' : 'ol') && (block.start ?? 1) === (node.start ?? 1)) {
      this.grow_rows(node, block.items, open, ({source}) => `${block.tight} ${source}`, (item, tail) => item_node(item, block, tail));
      return true;
    }
    const body = block.type === 'table' && block.rows.length > 1 ? node.querySelector?.(':scope > table > tbody') : null;
    if (!body) return false;
    const head = el('thead', {}, row_node(block.rows[0], block.align, 'th', false));
    morph_node(body.previousSibling, head);
    this.grow_rows(body, block.rows.slice(1), open, (cells) => JSON.stringify([block.align, cells]), (cells, tail) => row_node(cells, block.align, 'td', tail));
    return true;
  }

  grow_rows(parent, rows, open, source_of, make) {
    rows.forEach((row, i) => {
      const tail = open && i === rows.length - 1;
      const source = `${tail} ${source_of(row)}`;
      const old = parent.childNodes[i];
      if (old && this.sources.get(old) === source) return;
      const fresh = make(row, tail);
      this.sources.set(old ? morph_node(old, fresh) : parent.appendChild(fresh), source);
    });
    while (parent.childNodes.length > rows.length) parent.lastChild.remove();
  }
}

/**
 * Markdown that grows. Blocks that cannot change any more are left alone; the last one is made again and morphed
 * into place, and code that is being written only gets new lines. Drawing takes a bounded share of the time: the
 * longer the last block took, the longer the next drawing waits.
 */
export class MarkdownStream {
  constructor(container) {
    this.container = container;
    this.painter = new Painter(container);
    this.source = '';
    this.stable_text = 0;  // Characters of the source ...
    this.stable_nodes = 0;  // ... and nodes that are final.
    this.code = null;  // The open block of code at the end: {view, from, fence}.
    this.frame = 0;
    this.not_before = 0;
  }

  append(text) {
    this.source += text;
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.on_frame(now));
  }

  /** Draws all of it as a finished text. */
  finish() {
    if (this.frame) cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.draw(false);
  }

  on_frame(now) {
    this.frame = 0;
    if (now < this.not_before) {
      this.frame = requestAnimationFrame((later) => this.on_frame(later));
      return;
    }
    const begun = performance.now();
    this.draw(true);
    this.not_before = now + 4 * (performance.now() - begun);
  }

  draw(open) {
    if (open && this.code && this.grow_code()) return;
    this.code = null;
    const text = this.source.slice(this.stable_text);
    const blocks = parse_blocks(text, open);
    this.painter.draw(blocks, this.stable_nodes, open);
    if (open) this.settle(text, blocks);
  }

  /** Blocks before the last are done, unless the last is only the beginning of a line that may still join them. */
  settle(text, blocks) {
    const last = blocks.at(-1);
    if (!last) return;
    const starts = line_starts(text);
    const half_line = last.line === starts.length - 1;
    const n_done = Math.max(0, blocks.length - (half_line ? 2 : 1));
    if (n_done > 0) {
      this.stable_text += starts[blocks[n_done].line];
      this.stable_nodes += n_done;
    }
    if (last.type === 'code' && !last.closed && !half_line) {
      const from = this.source.length - text.length + starts[last.line];
      const first = this.source.slice(from, this.source.indexOf('\n', from));
      const fence = /^(`{3,}|~{3,})/.exec(first);  // An indented fence is morphed like other blocks.
      if (!fence) return;
      const view = new CodeView(last.lang);
      view.set_text(last.text);
      this.container.lastChild.replaceWith(view.figure);
      this.code = {view, from: from + first.length + 1, fence: fence[1]};
    }
  }

  grow_code() {
    const text = this.source.slice(this.code.from);
    const done = this.code.view.text.length;
    const changed_from = Math.max(0, text.lastIndexOf('\n', Math.max(0, done - 1)) + 1);
    const mark = this.code.fence[0];
    for (const line of text.slice(changed_from).split('\n')) {
      if (line.trimStart().startsWith(mark.repeat(3))) return false;
    }
    this.code.view.set_text(text);
    return true;
  }
}

function line_starts(text) {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}
