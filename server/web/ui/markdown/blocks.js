// Markdown to blocks: CommonMark with GFM's tables and task lists, and TeX formulas on lines of their own.
// HTML is shown as it is. Some common habits of models differ from CommonMark (bullets two columns under a number); these
// are read as the model means them. Depth is bounded, and each line is read once per level.
//
// A block is `{type, line, ...}`; `line` is its first line. The types:
//   `paragraph {text}`, `heading {level, text}`, `code {lang, text, closed}`, `math {text, closed}`, `rule`,
//   `quote {children}`, `list {start (null: bullets), tight, items: [{task: null | bool, children, source}]}`,
//   `table {align: ['', 'left', ...], rows: [[text]]}`; the first row is the head.

const kMaxDepth = 20;
const kMaxMathLines = 100;
const kMaxColumns = 200;

const kFence = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const kHeading = /^ {0,3}(#{1,6})(?:[ \t]|$)/;
const kRule = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const kQuote = /^ {0,3}>[ ]?/;
const kItem = /^( {0,3})([-*+]|\d{1,9}[.)])(?:( +)(.*)|)$/;
const kTask = /^\[([ xX])\][ ]+(?=\S)/;

/** `open`: the source still grows, so its last line may continue. */
export function parse_blocks(text, open = false) {
  const lines = text.replace(/\r\n?/g, '\n').split('\n');
  return parse_lines(lines, 0, open);
}

function parse_lines(lines, depth, open) {
  if (depth > kMaxDepth) return [{type: 'paragraph', line: 0, text: lines.join('\n').trim()}];
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (blank(lines[at])) {
      ++at;
      continue;
    }
    const block = fence(lines, at) ?? formula(lines, at, open) ?? heading(lines, at) ?? rule(lines, at) ??
        quote(lines, at, depth, open) ?? list(lines, at, depth, open) ?? table(lines, at, open) ??
        indented(lines, at) ?? paragraph(lines, at, open);
    block.value.line = at;
    blocks.push(block.value);
    at = block.end;
  }
  return blocks;
}

function blank(line) {
  return /^\s*$/.test(line);
}

function indent_of(line) {
  let n = 0;
  for (const c of line) {
    if (c === ' ') ++n;
    else if (c === '\t') n += 4 - n % 4;
    else break;
  }
  return n;
}

/** The line without its first n columns of white space. */
function dedent(line, n) {
  let column = 0, at = 0;
  while (at < line.length && column < n) {
    if (line[at] === ' ') ++column;
    else if (line[at] === '\t') column += 4 - column % 4;
    else break;
    ++at;
  }
  return ' '.repeat(Math.max(0, column - n)) + line.slice(at);
}

function fence(lines, at) {
  const begin = kFence.exec(lines[at]);
  if (!begin || (begin[1][0] === '~' && begin[2].includes('~~~'))) return null;
  const mark = begin[1];
  const closing = new RegExp(`^ {0,3}\\${mark[0]}{${mark.length},}[ \\t]*$`);
  const indent = indent_of(lines[at]);
  const text = [];
  let end = at + 1;
  for (; end < lines.length; ++end) {
    if (closing.test(lines[end])) break;
    text.push(dedent(lines[end], indent));
  }
  const closed = end < lines.length;
  return {value: {type: 'code', lang: begin[2].trim().split(/[\s,{]/)[0].slice(0, 40), text: text.join('\n'), closed},
          end: closed ? end + 1 : end};
}

/** A formula that has its lines to itself: from $$ to $$, from \[ to \], or an environment. */
function formula(lines, at, open) {
  const first = lines[at].trimStart();
  let opener, closer;
  if (first.startsWith('$$')) [opener, closer] = ['$$', '$$'];
  else if (first.startsWith('\\[')) [opener, closer] = ['\\[', '\\]'];
  else {
    const name = /^\\begin\{((?:equation|align|aligned|gather|cases|[bpvBV]?matrix|multline|array)\*?)\}/.exec(first);
    if (!name) return null;
    [opener, closer] = ['', `\\end{${name[1]}}`];
  }
  const text = [];
  const last = Math.min(lines.length, at + kMaxMathLines);
  for (let i = at; i < last; ++i) {
    const line = i === at ? first.slice(opener.length) : lines[i];
    const found = line.indexOf(closer);
    if (found < 0) {
      text.push(line);
      continue;
    }
    if (!blank(line.slice(found + closer.length))) return null;
    text.push(line.slice(0, opener ? found : found + closer.length));
    return {value: {type: 'math', text: text.join('\n'), closed: true}, end: i + 1};
  }
  if (!open || last < lines.length) return null;
  return {value: {type: 'math', text: text.join('\n'), closed: false}, end: last};
}

function heading(lines, at) {
  const found = kHeading.exec(lines[at]);
  if (!found) return null;
  let text = lines[at].slice(found[0].length).trim();
  let end = text.length;
  while (end > 0 && text[end - 1] === '#') --end;
  if (end === 0 || text[end - 1] === ' ' || text[end - 1] === '\t') text = text.slice(0, end).trimEnd();
  return {value: {type: 'heading', level: found[1].length, text}, end: at + 1};
}

function rule(lines, at) {
  return kRule.test(lines[at]) ? {value: {type: 'rule'}, end: at + 1} : null;
}

function quote(lines, at, depth, open) {
  if (!kQuote.test(lines[at])) return null;
  const inside = [];
  let end = at;
  for (; end < lines.length; ++end) {
    const line = lines[end];
    if (kQuote.test(line)) inside.push(line.replace(kQuote, ''));
    else if (blank(line) || blank(inside.at(-1)) || starts_block(line)) break;
    else inside.push(line);
  }
  return {value: {type: 'quote', children: parse_lines(inside, depth + 1, open && end === lines.length)}, end};
}

function item_start(line) {
  if (kRule.test(line)) return null;
  const found = kItem.exec(line);
  if (!found) return null;
  const [, indent, marker, space, rest] = found;
  const gap = space && rest && space.length <= 4 ? space.length : 1;
  const number = /\d/.test(marker) ? parseInt(marker, 10) : null;
  return {kind: marker.at(-1), number, content: indent.length + marker.length + gap,
          rest: rest ? ' '.repeat((space?.length ?? gap) - gap) + rest : ''};
}

function list(lines, at, depth, open) {
  const first = item_start(lines[at]);
  if (!first) return null;
  const items = [];
  let tight = true;
  let end = at;
  let start = first;
  while (start) {
    const inside = [start.rest];
    // Bullets under a number need three columns in CommonMark; models write two.
    const nested = Math.min(start.content, 2);
    let blanks = 0;
    let next = null;
    for (++end; end < lines.length; ++end) {
      const line = lines[end];
      if (blank(line)) {
        ++blanks;
        continue;
      }
      const indent = indent_of(line);
      const item = indent < 4 ? item_start(line) : null;
      if (indent >= start.content || (item && indent >= nested)) {
        if (inside.length === 1 && inside[0] === '' && blanks > 0) break;
        for (; blanks > 0; --blanks) inside.push('');
        inside.push(dedent(line, Math.min(indent, start.content)));
      } else if (item) {
        next = item.kind === first.kind ? item : null;
        break;
      } else if (blanks === 0 && !starts_block(line) && !blank(inside.at(-1))) {
        inside.push(line);
      } else {
        break;
      }
    }
    const task = kTask.exec(inside[0]);
    const source = inside.join('\n');
    if (task) inside[0] = inside[0].slice(task[0].length);
    const children = parse_lines(inside, depth + 1, open && end === lines.length);
    if ((next && blanks > 0) || loose(children, inside)) tight = false;
    items.push({task: task ? task[1] !== ' ' : null, children, source});
    start = next;
  }
  return {value: {type: 'list', start: first.number, tight, items}, end};
}

/** Whether a blank line parts two blocks of an item. */
function loose(children, lines) {
  return children.some((child, i) => i > 0 && lines[child.line - 1] !== undefined && blank(lines[child.line - 1]));
}

function table(lines, at, open) {
  if (!lines[at].includes('|')) return null;
  const next = lines[at + 1];
  if (next === undefined || (open && at + 2 === lines.length && /^[ \t|:-]*$/.test(next))) {
    if (!open || !/^ {0,3}\|.*\S/.test(lines[at])) return null;
    const head = cells(lines[at]);  // A line that begins like a table is shown as its head until more is known.
    return {value: {type: 'table', align: head.map(() => ''), rows: [head]}, end: lines.length};
  }
  if (!/^[ \t|:-]+$/.test(next)) return null;
  const head = cells(lines[at]);
  const marks = cells(next);
  if (!marks.every((cell) => /^:?-+:?$/.test(cell))) return null;
  const align = marks.map((cell) => (cell.endsWith(':') ? (cell.startsWith(':') ? 'center' : 'right') : cell.startsWith(':') ? 'left' : ''));
  if (align.length !== head.length || head.length > kMaxColumns) return null;
  const rows = [head];
  let end = at + 2;
  for (; end < lines.length && !blank(lines[end]) && !starts_block(lines[end]); ++end) {
    const row = cells(lines[end]).slice(0, head.length);
    while (row.length < head.length) row.push('');
    rows.push(row);
  }
  return {value: {type: 'table', align, rows}, end};
}

function cells(line) {
  const parts = [];
  let cell = '';
  const text = line.trim().replace(/^\|/, '');
  for (let i = 0; i < text.length; ++i) {
    if (text[i] === '\\' && text[i + 1] === '|') {
      cell += '|';
      ++i;
    } else if (text[i] === '|') {
      parts.push(cell.trim());
      cell = '';
    } else {
      cell += text[i];
    }
  }
  if (cell.trim() || !text.endsWith('|')) parts.push(cell.trim());
  return parts;
}

function indented(lines, at) {
  if (indent_of(lines[at]) < 4) return null;
  const text = [];
  let end = at, last = at;
  for (; end < lines.length && (blank(lines[end]) || indent_of(lines[end]) >= 4); ++end) {
    text.push(dedent(lines[end], 4));
    if (!blank(lines[end])) last = end;
  }
  return {value: {type: 'code', lang: '', text: text.slice(0, last - at + 1).join('\n'), closed: true}, end: last + 1};
}

/** Whether a line ends a paragraph without a blank line. */
function starts_block(line) {
  if (kFence.test(line) || kHeading.test(line) || kQuote.test(line) || kRule.test(line)) return true;
  if (/^\s*(\$\$|\\\[)/.test(line)) return true;
  const item = item_start(line);
  return item !== null && item.rest !== '' && (item.number === null || item.number === 1);
}

function paragraph(lines, at, open) {
  const text = [lines[at].trimStart()];
  let end = at + 1;
  for (; end < lines.length; ++end) {
    const line = lines[end];
    const written = !open || end + 1 < lines.length;
    const underline = /^ {0,3}(=+|-+)[ \t]*$/.exec(line);
    if (underline && written) {
      return {value: {type: 'heading', level: underline[1][0] === '=' ? 1 : 2, text: text.join('\n')}, end: end + 1};
    }
    if (blank(line) || starts_block(line)) break;
    if (line.includes('|') && lines[end + 1] !== undefined && table(lines, end, false)) break;
    text.push(line.trimStart());
  }
  text[text.length - 1] = text.at(-1).trimEnd();
  return {value: {type: 'paragraph', text: text.join('\n')}, end};
}
