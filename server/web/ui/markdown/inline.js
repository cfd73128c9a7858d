// Inline Markdown to a tree: CommonMark's emphasis and links, GFM's strikethrough and bare links, TeX formulas.
// A node is `{type, text?, href?, children?}` with `type`: `text code strong em del link br math sub sup kbd mark`.
// Time is linear in the length of the source, and the depth is always bounded.

const kMaxDepth = 24;
const kMaxBrackets = 64;
const kSpace = /[\s\u00a0]/;
const kPunctuation = /[\p{P}\p{S}]/u;
const kEscapable = /[!-/:-@[-`{-~]/;
const kPlain = /[^\\`*_~[\]!<$\n&hw(]+/y;
const kBareLink = /(?:https?:\/\/|www\.)[^\s<>"'`|]+/y;
const kAngleLink = /<((?:https?:\/\/|mailto:)[^\s<>]*)>/y;
const kTag = /<(\/?)(br|sub|sup|kbd|mark|b|strong|i|em|u|s|del|code)\s*\/?>/iy;
const kEntity = /&(amp|lt|gt|quot|nbsp|copy|mdash|ndash|hellip|times|rarr|larr|le|ge|ne|deg|#\d{1,7}|#x[0-9a-f]{1,6});/iy;
const kEntities = {
  amp: '&', lt: '<', gt: '>', quot: '"', nbsp: '\u00a0', copy: '©', mdash: '—', ndash: '–', hellip: '…', times: '×',
  rarr: '→', larr: '←', le: '≤', ge: '≥', ne: '≠', deg: '°',
};
const kTagTypes = {b: 'strong', strong: 'strong', i: 'em', em: 'em', s: 'del', del: 'del', sub: 'sub', sup: 'sup', kbd: 'kbd', mark: 'mark', u: 'em', code: 'kbd'};

/** The address of a link if it is allowed; null for others (javascript:, data:, files). */
export function safe_href(href) {
  const text = href.trim().replace(/ /g, '%20');
  if (/^www\./i.test(text)) return `https://${text}`;
  return /^(https?:\/\/|mailto:)/i.test(text) ? text : null;
}

/** `open`: the source still grows, so open marks are shown as if they were closed. */
export function parse_inline(text, open = false) {
  if (open) text = without_half_marks(text);
  return new Inline(text, open).parse();
}

function without_half_marks(text) {
  return text.replace(/!?\[([^[\]\n]{0,500})\]\([^()\s]{0,2000}$/, '$1').replace(/(^|[^\\])[*_~`]{1,4}$/, '$1');
}

class Inline {
  constructor(text, open) {
    this.text = text;
    this.open = open;
    this.at = 0;
    this.tokens = [];
    this.buffer = '';
    this.last_delimiter = null;  // A list through prev and next, as tokens of its inside go away in O(1).
    this.brackets = [];
    this.absent = new Set();  // Closers that do not come any more.
  }

  parse() {
    const {text} = this;
    while (this.at < text.length) {
      kPlain.lastIndex = this.at;
      const plain = kPlain.exec(text);
      if (plain) {
        this.buffer += plain[0];
        this.at = kPlain.lastIndex;
      } else if (!this.special(text[this.at])) {
        this.buffer += text[this.at++];
      }
    }
    this.flush();
    this.match_emphasis(null);
    if (this.open) this.close_open_emphasis();
    return this.tree();
  }

  flush() {
    if (this.buffer) this.tokens.push({type: 'text', text: this.buffer});
    this.buffer = '';
  }

  push(token) {
    this.flush();
    this.tokens.push(token);
    return true;
  }

  special(c) {
    switch (c) {
      case '\\': return this.backslash();
      case '`': return this.code();
      case '*':
      case '_':
      case '~': return this.delimiter(c);
      case '[': return this.bracket(1);
      case '!': return this.text[this.at + 1] === '[' && this.bracket(2);
      case ']': return this.close_bracket();
      case '$': return this.dollars();
      case '<': return this.angle();
      case '&': return this.entity();
      case '\n': return this.line_end();
      case 'h':
      case 'w': return this.bare_link();
      default: return false;
    }
  }

  backslash() {
    const next = this.text[this.at + 1];
    if (next === '(' && this.formula('\\(', '\\)', false)) return true;
    if (next === '[' && this.formula('\\[', '\\]', true)) return true;
    if (next === '\n') {
      this.at += 2;
      return this.push({type: 'br'});
    }
    if (next === undefined || !kEscapable.test(next)) return false;
    this.buffer += next;
    this.at += 2;
    return true;
  }

  /** The end of the next `closer`, or -1; a closer that was missed once is not searched again. */
  find(closer, from) {
    if (this.absent.has(closer)) return -1;
    const found = this.text.indexOf(closer, from);
    if (found < 0) this.absent.add(closer);
    return found;
  }

  formula(opener, closer, display) {
    const start = this.at + opener.length;
    const end = this.find(closer, start);
    if (end < 0 || !this.text.slice(start, end).trim()) return false;
    this.push({type: 'math', text: this.text.slice(start, end), display});
    this.at = end + closer.length;
    return true;
  }

  /** `$x$` is a formula, "from $5 to $10" is not: no space inside the marks, no digit after them, one paragraph. */
  dollars() {
    const {text, at} = this;
    if (text.startsWith('$$', at)) {
      if (this.formula('$$', '$$', true)) return true;
      this.buffer += '$$';
      this.at += 2;
      return true;
    }
    const first = text[at + 1];
    if (first === undefined || kSpace.test(first) || this.absent.has('$')) return false;
    for (let end = at + 1; end < text.length; ++end) {
      if (text[end] === '\\') {
        ++end;
      } else if (text[end] === '$') {
        if (kSpace.test(text[end - 1]) || /[0-9]/.test(text[end + 1] ?? '')) return false;
        this.push({type: 'math', text: text.slice(at + 1, end), display: false});
        this.at = end + 1;
        return true;
      }
    }
    this.absent.add('$');
    return false;
  }

  code() {
    const {text, at} = this;
    let n = 1;
    while (text[at + n] === '`') ++n;
    const ticks = '`'.repeat(n);
    let end = this.absent.has(ticks) ? -1 : this.closing_ticks(at + n, n);
    if (end < 0) this.absent.add(ticks);
    if (end < 0 && this.open) end = text.length;
    if (end < 0) {
      this.buffer += ticks;
      this.at += n;
      return true;
    }
    let inside = text.slice(at + n, end).replace(/\n/g, ' ');
    if (inside.length > 2 && inside[0] === ' ' && inside.at(-1) === ' ' && inside.trim()) inside = inside.slice(1, -1);
    this.push({type: 'code', text: inside});
    this.at = end + n;
    return true;
  }

  closing_ticks(from, n) {
    const run = /`+/g;
    run.lastIndex = from;
    for (let found; (found = run.exec(this.text));) {
      if (found[0].length === n) return found.index;
    }
    return -1;
  }

  delimiter(c) {
    const {text, at} = this;
    let n = 1;
    while (text[at + n] === c) ++n;
    const before = at > 0 ? this.char_before(at) : ' ';
    const after = at + n < text.length ? String.fromCodePoint(text.codePointAt(at + n)) : ' ';
    const space_before = kSpace.test(before), space_after = kSpace.test(after);
    const mark_before = kPunctuation.test(before), mark_after = kPunctuation.test(after);
    const left = !space_after && (!mark_after || space_before || mark_before);
    const right = !space_before && (!mark_before || space_after || mark_after);
    const token = {
      type: 'delimiter', c, n, length: n, opens: [], closes: [],
      can_open: c === '_' ? left && (!right || mark_before) : left,
      can_close: c === '_' ? right && (!left || mark_after) : right,
      at_word_start: space_before || mark_before,
    };
    this.at += n;
    if (c === '~' && n > 2) {
      this.buffer += c.repeat(n);
      return true;
    }
    this.push(token);
    token.prev = this.last_delimiter;
    token.next = null;
    if (token.prev) token.prev.next = token;
    this.last_delimiter = token;
    return true;
  }

  char_before(at) {
    const low = this.text.charCodeAt(at - 1);
    return low >= 0xdc00 && low < 0xe000 ? this.text.slice(at - 2, at) : this.text[at - 1];
  }

  bracket(width) {
    this.push({type: 'text', text: this.text.slice(this.at, this.at + width)});
    if (this.brackets.length === kMaxBrackets) this.brackets.shift();
    this.brackets.push({token: this.tokens.at(-1), image: width === 2, below: this.last_delimiter, active: true});
    this.at += width;
    return true;
  }

  close_bracket() {
    const bracket = this.brackets.pop();
    if (!bracket || !bracket.active) return false;
    const target = this.link_target(this.at + 1);
    if (!target) return false;
    const href = safe_href(target.href);
    this.flush();
    this.match_emphasis(bracket.below);
    if (href) {
      Object.assign(bracket.token, {type: 'open', node: {type: 'link', href, image: bracket.image, children: []}});
      this.tokens.push({type: 'close'});
    } else {
      bracket.token.text = '';
    }
    if (!bracket.image) for (const other of this.brackets) other.active = other.image;
    this.at = target.end;
    return true;
  }

  /** The part after `[text]`: (address), (<address>), (address "title"). */
  link_target(at) {
    if (this.text[at] !== '(') return null;
    const form = /\(\s*(?:<([^<>\n]{0,2000})>|((?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.){0,500}\)){0,2000}))(?:\s+(?:"[^"]{0,500}"|'[^']{0,500}'))?\s*\)/y;
    form.lastIndex = at;
    const found = form.exec(this.text);
    return found && {href: found[1] ?? found[2].replace(/\\([!-/:-@[-`{-~])/g, '$1'), end: form.lastIndex};
  }

  angle() {
    kAngleLink.lastIndex = this.at;
    const link = kAngleLink.exec(this.text);
    if (link) {
      this.push({type: 'node', node: {type: 'link', href: link[1], children: [{type: 'text', text: link[1]}]}});
      this.at = kAngleLink.lastIndex;
      return true;
    }
    kTag.lastIndex = this.at;
    const tag = kTag.exec(this.text);
    if (!tag) return false;
    this.at = kTag.lastIndex;
    const name = tag[2].toLowerCase();
    if (name === 'br') return this.push({type: 'br'});
    return this.push({type: tag[1] ? 'close_tag' : 'open_tag', name: kTagTypes[name], text: tag[0]});
  }

  entity() {
    kEntity.lastIndex = this.at;
    const found = kEntity.exec(this.text);
    if (!found) return false;
    const name = found[1].toLowerCase();
    if (name[0] === '#') {
      const code = name[1] === 'x' ? parseInt(name.slice(2), 16) : parseInt(name.slice(1), 10);
      this.buffer += code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000) ? String.fromCodePoint(code) : '\ufffd';
    } else {
      this.buffer += kEntities[name];
    }
    this.at = kEntity.lastIndex;
    return true;
  }

  line_end() {
    const hard = / {2,}$/.test(this.buffer.slice(-3));
    this.buffer = this.buffer.replace(/ {1,200}$/, '');
    ++this.at;
    if (hard) return this.push({type: 'br'});
    this.buffer += '\n';
    return true;
  }

  bare_link() {
    const before = this.text[this.at - 1];
    if (before !== undefined && /[\w/:.]/.test(before)) return false;
    kBareLink.lastIndex = this.at;
    const found = kBareLink.exec(this.text);
    if (!found || this.brackets.some((b) => b.active && !b.image)) return false;
    let address = found[0].replace(/[?!.,:;*_~]{1,50}$/, '');
    for (let n = 0; n < 20 && address.endsWith(')') && count(address, ')') > count(address, '('); ++n) address = address.slice(0, -1);
    const href = safe_href(address);
    if (!href || !/[^/.]/.test(address.replace(/^(https?:\/\/|www\.)/, ''))) return false;
    this.push({type: 'node', node: {type: 'link', href, children: [{type: 'text', text: address}]}});
    this.at += address.length;
    return true;
  }

  /** CommonMark's rule: each closer takes the nearest opener; where one finds none, later ones stop there too. */
  match_emphasis(below) {
    const bottoms = new Map();
    let closer = below ? below.next : this.first_delimiter();
    while (closer) {
      if (!closer.can_close || closer.n === 0) {
        closer = closer.next;
        continue;
      }
      const key = `${closer.c}${closer.can_open}${closer.length % 3}${closer.c === '~' ? closer.n : ''}`;
      const bottom = bottoms.has(key) ? bottoms.get(key) : below;
      let opener = closer.prev;
      while (opener && opener !== bottom && opener !== below && !matches(opener, closer)) opener = opener.prev;
      if (!opener || opener === bottom || opener === below) {
        bottoms.set(key, closer.prev);
        closer = closer.next;
        continue;
      }
      const n = closer.c === '~' ? closer.n : Math.min(2, opener.n, closer.n);
      const type = closer.c === '~' ? 'del' : n === 2 ? 'strong' : 'em';
      opener.opens.unshift(type);
      closer.closes.push(type);
      opener.n -= n;
      closer.n -= n;
      opener.next = closer;
      closer.prev = opener;
      if (opener.n === 0) this.unlink(opener);
      if (closer.n === 0) {
        const next = closer.next;
        this.unlink(closer);
        closer = next;
      }
    }
    this.last_delimiter = below;
    if (below) below.next = null;
  }

  first_delimiter() {
    let token = this.last_delimiter;
    while (token?.prev) token = token.prev;
    return token;
  }

  unlink(token) {
    if (token.prev) token.prev.next = token.next;
    if (token.next) token.next.prev = token.prev;
    if (this.last_delimiter === token) this.last_delimiter = token.prev;
  }

  close_open_emphasis() {
    for (const token of this.tokens) {
      if (token.type !== 'delimiter' || token.n === 0 || !token.can_open || !token.at_word_start) continue;
      if (token.c === '~' ? token.n !== 2 : token.n > 3) continue;
      const types = token.c === '~' ? ['del'] : token.n === 1 ? ['em'] : token.n === 2 ? ['strong'] : ['em', 'strong'];
      token.opens.unshift(...types);
      token.n = 0;
    }
  }

  tree() {
    const root = [];
    const stack = [{type: 'root', children: root}];
    let too_deep = 0;
    const add = (node) => {
      const children = stack.at(-1).children;
      const last = children.at(-1);
      if (node.type === 'text' && last?.type === 'text') last.text += node.text;
      else if (node.type !== 'text' || node.text) children.push(node);
    };
    const enter = (node) => {
      if (stack.length > kMaxDepth) return void ++too_deep;
      add(node);
      stack.push(node);
    };
    const leave = () => {
      if (too_deep > 0) return void --too_deep;
      while (stack.at(-1).tag) stack.pop();  // Left open inside.
      if (stack.length > 1) stack.pop();
    };
    for (const token of this.tokens) {
      switch (token.type) {
        case 'delimiter':
          token.closes.forEach(leave);
          add({type: 'text', text: token.c.repeat(token.n)});
          for (const type of token.opens) enter({type, children: []});
          break;
        case 'open': enter(token.node); break;
        case 'close': leave(); break;
        case 'open_tag':
          if (stack.length <= kMaxDepth) enter({type: token.name, children: [], tag: true});
          break;
        case 'close_tag':
          if (too_deep === 0 && stack.at(-1).tag && stack.at(-1).type === token.name) stack.pop();
          break;
        case 'node': add(token.node); break;
        default: add(token);
      }
    }
    return root;
  }
}

function matches(opener, closer) {
  if (opener.c !== closer.c || !opener.can_open || opener.n === 0) return false;
  if (opener.c === '~') return opener.n === closer.n;
  const odd = (opener.can_close || closer.can_open) && (opener.length + closer.length) % 3 === 0;
  return !odd || (opener.length % 3 === 0 && closer.length % 3 === 0);
}

function count(text, c) {
  return text.split(c).length - 1;
}
