// TeX formulas to MathML, which browsers draw themselves. Supports the part of LaTeX that models write. Unknown
// commands are shown by name. Malformed formulas (unmatched braces, too long, too deep) are shown as source.
import {el, mathml as m} from '../dom.js';
import {
  in_alphabet, is_alphabet, kAccents, kBig, kDelimiters, kFunctions, kIntegrals, kLetters, kLimits, kOperators, kSpaces, kUnder,
  kUpright,
} from './symbols.js';

const kMaxLength = 10000;
const kMaxDepth = 60;
const kRelation = /^[=<>≤≥≠≈≡∼≃≅∝→←⇒⟹∈⊂⊆]$/;

const kSigns = /^[−+±∓]$/;

class TexError extends Error {}

/** An element with the formula; display: on a line of its own. */
export function formula_node(source, display) {
  const text = source.trim();
  try {
    if (text.length > kMaxLength) throw new TexError('too long');
    const row = new TexParser(text).all();
    const math = m('math', {display: display ? 'block' : null},
                   m('semantics', {}, m('mrow', {}, row), m('annotation', {encoding: 'application/x-tex'}, text)));
    return el(display ? 'div' : 'span', {class: display ? 'formula' : 'formula-inline', dir: 'ltr', tabindex: display ? '0' : null}, math);
  } catch (error) {
    if (!(error instanceof TexError)) throw error;
    return el(display ? 'div' : 'code', {class: 'formula-source', dir: 'ltr'}, text);
  }
}

function tokenize(text) {
  return text.match(/\\[a-zA-Z]+\*?|\\[^]|%[^\n]*|[^]/gu)?.filter((token) => token[0] !== '%') ?? [];
}

const group = (nodes) => (nodes.length === 1 ? nodes[0] : m('mrow', {}, nodes));
const space = (em) => m('mspace', {width: `${em}em`});
const operator = (text, props) => m('mo', props, text);
const fence = (text) => operator(text, {stretchy: 'true', fence: 'true', symmetric: 'true'});

/** Whether a plus or minus after this node is the sign of the next one. */
function is_sign_place(node) {
  return !node || (node.localName === 'mo' && !/^[)\]}|!′‖⟩⌋⌉]$/.test(node.textContent));
}

/** In scripts signs stand close to their sides, as in TeX. */
function tighten(script) {
  for (const sign of [script, ...script.querySelectorAll('mo')]) {
    if (sign.localName !== 'mo') continue;
    sign.setAttribute('lspace', '0');
    sign.setAttribute('rspace', '0');
  }
  return script;
}

class TexParser {
  constructor(text) {
    this.tokens = tokenize(text);
    this.at = 0;
    this.depth = 0;
    this.alphabet = null;
  }

  all() {
    const rows = this.rows(() => this.at >= this.tokens.length);
    if (this.at < this.tokens.length) throw new TexError('left over');
    return rows.length === 1 && rows[0].length === 1 ? rows[0][0] : [this.table(rows, 'rl', true)];
  }

  peek() {
    return this.tokens[this.at];
  }

  skip_space() {
    while (this.at < this.tokens.length && /^\s$/.test(this.peek())) ++this.at;
  }

  /** Rows of cells, parted by \\ and &, until `done()`. */
  rows(done) {
    const rows = [[]];
    for (;;) {
      rows.at(-1).push(this.row((token) => token === '&' || token === '\\\\' || token === '\\cr' || token === '\\newline' || done()));
      const token = this.peek();
      if (token === undefined || done()) break;
      ++this.at;
      if (token !== '&') {
        if (this.peek() === '[') this.optional_source();
        rows.push([]);
      }
    }
    const last = rows.at(-1);
    if (rows.length > 1 && last.length === 1 && last[0].length === 0) rows.pop();
    return rows;
  }

  /** Nodes until `stop(token)`, which is not taken. */
  row(stop) {
    if (++this.depth > kMaxDepth) throw new TexError('too deep');
    const nodes = [];
    const outer = this.alphabet;
    for (this.skip_space(); this.at < this.tokens.length && !stop(this.peek()); this.skip_space()) {
      const token = this.peek();
      if (token === '\\displaystyle' || token === '\\textstyle') {
        ++this.at;
        nodes.push(m('mstyle', {displaystyle: token === '\\displaystyle' ? 'true' : 'false'}, this.row(stop)));
        break;
      }
      if (token === '}' || token === '\\right' || token === '\\end') throw new TexError(`${token} without a beginning`);
      const made = this.scripted();
      if (kSigns.test(made[0]?.textContent) && is_sign_place(nodes.at(-1))) made[0].setAttribute('form', 'prefix');
      if (made.is_function && /^(mi|mn|msub|msup|msubsup)$/.test(nodes.at(-1)?.localName)) nodes.push(space(0.1667));
      nodes.push(...made);
    }
    this.alphabet = outer;
    --this.depth;
    return nodes;
  }

  /** An atom with its scripts and limits. */
  scripted() {
    let base = this.peek() === '^' || this.peek() === '_' ? {nodes: [m('mrow', {})]} : this.atom();
    if (base.nodes.length === 0) return [];
    let sub = null, sup = null, limits = base.limits ?? false;
    for (;;) {
      this.skip_space();
      const token = this.peek();
      if (token === '\\limits' || token === '\\nolimits') {
        limits = token === '\\limits' ? 'always' : false;
        ++this.at;
      } else if (token === '_' && !sub) {
        ++this.at;
        sub = tighten(this.argument());
      } else if (token === '^' && !sup) {
        ++this.at;
        sup = tighten(this.argument());
      } else if (token === "'" && !sup) {
        let primes = '';
        for (; this.peek() === "'"; ++this.at) primes += '′';
        sup = operator(primes, {});
        if (this.peek() === '^') {
          ++this.at;
          sup = m('mrow', {}, sup, this.argument());
        }
      } else {
        break;
      }
    }
    const tail = base.nodes.slice(1);
    const [head] = base.nodes;
    const [name_sub, name_sup, name_both] = limits ? ['munder', 'mover', 'munderover'] : ['msub', 'msup', 'msubsup'];
    if (limits === 'always' && head.localName === 'mo') head.setAttribute('movablelimits', 'false');
    const node = sub && sup ? m(name_both, {}, head, sub, sup) : sub ? m(name_sub, {}, head, sub) : sup ? m(name_sup, {}, head, sup) : head;
    if (base.function_name && this.at < this.tokens.length && !/^([()[\]|,.;:^_&}=+-]|\\(right|left|end|\\|,).*)$/.test(this.peek())) tail.push(space(0.1667));
    return Object.assign([node, ...tail], {is_function: base.function_name});
  }

  /** One argument: a group, or one atom. */
  argument() {
    this.skip_space();
    if (this.peek() === undefined) throw new TexError('an argument is missing');
    if (this.peek() === '{') return group(this.braces());
    if (/^[0-9]$/.test(this.peek())) return m('mn', {}, this.tokens[this.at++]);
    return group(this.atom().nodes);
  }

  braces() {
    ++this.at;
    const nodes = this.row((token) => token === '}');
    if (this.peek() !== '}') throw new TexError('a brace is not closed');
    ++this.at;
    return nodes;
  }

  /** The source of an argument. */
  source() {
    this.skip_space();
    if (this.peek() !== '{') return this.tokens[this.at++] ?? '';
    let depth = 0, text = '';
    for (++this.at; this.at < this.tokens.length; ++this.at) {
      const token = this.peek();
      if (token === '{') ++depth;
      if (token === '}' && depth-- === 0) {
        ++this.at;
        return text;
      }
      text += token;
    }
    throw new TexError('a brace is not closed');
  }

  optional_source() {
    this.skip_space();
    if (this.peek() !== '[') return null;
    const end = this.tokens.indexOf(']', this.at);
    if (end < 0) return null;
    const text = this.tokens.slice(this.at + 1, end).join('');
    this.at = end + 1;
    return text;
  }

  optional_argument() {
    this.skip_space();
    if (this.peek() !== '[') return null;
    ++this.at;
    const nodes = this.row((token) => token === ']');
    if (this.peek() !== ']') throw new TexError('a bracket is not closed');
    ++this.at;
    return group(nodes);
  }

  /** {nodes, limits?, function_name?} */
  atom() {
    if (++this.depth > kMaxDepth) throw new TexError('too deep');
    const token = this.tokens[this.at];
    if (token === '{') {
      const nodes = this.braces();
      --this.depth;
      return {nodes: [group(nodes)]};
    }
    ++this.at;
    const made = token[0] === '\\' && token.length > 1 ? this.command(token.slice(1)) : this.character(token);
    --this.depth;
    return Array.isArray(made) ? {nodes: made} : made instanceof Node ? {nodes: [made]} : made;
  }

  character(c) {
    if (/[0-9]/.test(c)) {
      let number = c;
      while (/^[0-9.]$/.test(this.peek() ?? '') && !(this.peek() === '.' && !/[0-9]/.test(this.tokens[this.at + 1] ?? ''))) number += this.tokens[this.at++];
      return m('mn', {}, this.alphabet ? [...number].map((d) => this.letter(d)).join('') : number);
    }
    if (/\p{L}/u.test(c)) return this.variable(c);
    switch (c) {
      case '-': return operator('−');
      case '*': return operator('∗');
      case '~': return space(0.25);
      case '(':
      case ')':
      case '[':
      case ']': return operator(c, {stretchy: 'false'});
      case '|': return operator(c, {stretchy: 'false', lspace: '0', rspace: '0'});
      case '/': return operator('/', {lspace: '0', rspace: '0'});
      case ':': return operator(':');
      default: return operator(c, kRelation.test(c) ? {} : null);
    }
  }

  letter(c) {
    return this.alphabet && is_alphabet(this.alphabet) ? in_alphabet(this.alphabet, c) : c;
  }

  variable(c) {
    return m('mi', {mathvariant: this.alphabet === 'mathrm' ? 'normal' : null}, this.letter(c));
  }

  command(name) {
    const plain = name.endsWith('*') ? name.slice(0, -1) : name;
    if (kLetters.has(name)) return this.variable(kLetters.get(name));
    if (kUpright.has(name)) return m('mi', {mathvariant: 'normal'}, this.letter(kUpright.get(name)));
    if (kSpaces.has(name)) return space(kSpaces.get(name));
    if (kBig.has(name)) return {nodes: [operator(kBig.get(name), {largeop: 'true', movablelimits: 'true'})], limits: true};
    if (kIntegrals.has(name)) return operator(kIntegrals.get(name), {largeop: 'true'});
    if (kLimits.has(name)) return {nodes: [operator(kLimits.get(name), {movablelimits: 'true', lspace: '0.1667em', rspace: '0.1667em'})], limits: true};
    if (kFunctions.has(name)) return {nodes: [m('mi', {mathvariant: 'normal'}, name)], function_name: true};
    if (kOperators.has(name)) return operator(kOperators.get(name), {stretchy: 'false'});
    if (kAccents.has(name)) return this.accent(name);
    if (kUnder.has(name)) return {nodes: [m('munder', {}, this.argument(), operator(kUnder.get(name), {stretchy: 'true'}))], limits: name === 'underbrace' && 'always'};
    if (is_alphabet(name) || name === 'mathrm' || name === 'mathit' || name === 'mathnormal') return this.in_alphabet(name);
    if (kDelimiters.has(name)) return operator(kDelimiters.get(name), {stretchy: 'false', lspace: '0', rspace: '0'});
    return this.structure(plain);
  }

  in_alphabet(name) {
    const outer = this.alphabet;
    this.alphabet = name === 'mathit' || name === 'mathnormal' ? null : name;
    this.skip_space();
    const nodes = this.peek() === '{' ? this.braces() : [this.argument()];
    this.alphabet = outer;
    const word = nodes.length > 1 && name === 'mathrm' && nodes.every((node) => node.localName === 'mi');
    return word ? m('mi', {mathvariant: 'normal'}, nodes.map((node) => node.textContent).join('')) : group(nodes);
  }

  accent(name) {
    const wide = /^(wide|over)/.test(name);
    const over = operator(kAccents.get(name), {stretchy: wide ? 'true' : 'false'});
    return {nodes: [m('mover', {accent: name === 'overbrace' ? null : 'true'}, this.argument(), over)], limits: name === 'overbrace' && 'always'};
  }

  structure(name) {
    switch (name) {
      case 'frac': return m('mfrac', {}, this.argument(), this.argument());
      case 'dfrac':
      case 'cfrac': return m('mstyle', {displaystyle: 'true'}, m('mfrac', {}, this.argument(), this.argument()));
      case 'tfrac': return m('mstyle', {displaystyle: 'false'}, m('mfrac', {}, this.argument(), this.argument()));
      case 'binom':
      case 'dbinom':
      case 'tbinom': return m('mrow', {}, fence('('), m('mfrac', {linethickness: '0'}, this.argument(), this.argument()), fence(')'));
      case 'sqrt': {
        const index = this.optional_argument();
        return index ? m('mroot', {}, this.argument(), index) : m('msqrt', {}, this.argument());
      }
      case 'text':
      case 'textrm':
      case 'textit':
      case 'textsf':
      case 'texttt':
      case 'mbox':
      case 'hbox':
      case 'textnormal': return m('mtext', {}, this.source().replace(/\\([ _%&#$])/g, '$1').replace(/\$/g, '').replace(/^ | $/g, '\u00a0'));
      case 'operatorname': {
        const text = this.source().replace(/\\[,;:! ]/g, ' ');
        return {nodes: [m('mi', {mathvariant: 'normal'}, text)], function_name: true};
      }
      case 'left': return this.left();
      case 'big': case 'bigl': case 'bigr': case 'bigm': return this.sized(1.2);
      case 'Big': case 'Bigl': case 'Bigr': case 'Bigm': return this.sized(1.8);
      case 'bigg': case 'biggl': case 'biggr': case 'biggm': return this.sized(2.4);
      case 'Bigg': case 'Biggl': case 'Biggr': case 'Biggm': return this.sized(3);
      case 'begin': return this.environment();
      case 'overset':
      case 'stackrel': {
        const over = this.argument();
        return m('mover', {}, this.argument(), over);
      }
      case 'underset': {
        const under = this.argument();
        return {nodes: [m('munder', {}, this.argument(), under)]};
      }
      case 'xrightarrow':
      case 'xleftarrow': {
        const under = this.optional_argument();
        const arrow = operator(name === 'xrightarrow' ? '→' : '←', {stretchy: 'true', minsize: '2em'});
        const over = m('mpadded', {lspace: '0.3em', width: '+0.6em'}, this.argument());
        return under ? m('munderover', {}, arrow, under, over) : m('mover', {}, arrow, over);
      }
      case 'not': {
        const [node] = this.atom().nodes;
        if (node?.localName === 'mo') node.textContent += '\u0338';
        return node ?? [];
      }
      case 'bmod': return operator('mod', {lspace: '0.2778em', rspace: '0.2778em'});
      case 'mod': return [space(1), operator('mod', {rspace: '0.2778em'})];
      case 'pmod': return m('mrow', {}, space(1), operator('(', {stretchy: 'false'}), operator('mod', {rspace: '0.3333em'}), this.argument(), operator(')', {stretchy: 'false'}));
      case 'overline':
      case 'underline': return m('mrow', {class: name}, this.argument());
      case 'boxed':
      case 'fbox': return m('mrow', {class: 'boxed'}, this.argument());
      case 'phantom':
      case 'hphantom':
      case 'vphantom': return m('mphantom', {}, this.argument());
      case 'substack': {
        if (this.peek() !== '{') throw new TexError('an argument is missing');
        ++this.at;
        const rows = this.rows(() => this.peek() === '}');
        if (this.tokens[this.at++] !== '}') throw new TexError('a brace is not closed');
        return this.table(rows, 'c', false);
      }
      case 'tag': return [space(2), m('mtext', {}, `(${this.source()})`)];
      case 'color':
        this.source();
        return [];
      case 'textcolor':
        this.source();
        return this.argument();
      case 'cancel':
      case 'mathop':
      case 'mathrel':
      case 'mathbin':
      case 'mathord':
      case 'smash': return this.argument();
      case 'label':
      case 'hspace':
      case 'vspace':
        this.source();
        return [];
      case 'limits':
      case 'nolimits':
      case 'nonumber':
      case 'notag':
      case 'hline':
      case 'scriptstyle':
      case 'scriptscriptstyle':
      case 'displaylimits': return [];
      case 'middle': return fence(this.delimiter());
      default: return m('mtext', {class: 'unknown'}, `\\${name}`);
    }
  }

  delimiter() {
    this.skip_space();
    const token = this.tokens[this.at++];
    if (token === undefined) throw new TexError('a delimiter is missing');
    if (token === '.') return '';
    if (token === '<') return '⟨';
    if (token === '>') return '⟩';
    if (token[0] !== '\\') return token;
    const found = kDelimiters.get(token.slice(1));
    if (!found) throw new TexError(`${token} is no delimiter`);
    return found;
  }

  left() {
    const open = this.delimiter();
    const nodes = this.row((token) => token === '\\right');
    if (this.peek() !== '\\right') throw new TexError('\\left without \\right');
    ++this.at;
    const close = this.delimiter();
    return m('mrow', {}, open && fence(open), nodes, close && fence(close));
  }

  sized(em) {
    const text = this.delimiter();
    return text ? operator(text, {stretchy: 'true', symmetric: 'true', minsize: `${em}em`, maxsize: `${em}em`}) : [];
  }

  environment() {
    const name = this.source();
    const plain = name.replace(/\*$/, '');
    let columns = '';
    if (/^(array|alignedat|alignat)$/.test(plain)) {
      this.optional_source();
      columns = this.source().replace(/[^lcr]/g, '');
    }
    const rows = this.rows(() => this.peek() === '\\end');
    if (this.tokens[this.at++] !== '\\end' || this.source() !== name) throw new TexError(`${name} is not ended`);
    const fences = {pmatrix: '()', bmatrix: '[]', Bmatrix: '{}', vmatrix: '||', Vmatrix: '‖‖', cases: '{', rcases: ' }'}[plain];
    switch (plain) {
      case 'matrix': case 'smallmatrix': case 'pmatrix': case 'bmatrix': case 'Bmatrix': case 'vmatrix': case 'Vmatrix': {
        const table = this.table(rows, 'c', false);
        return fences ? m('mrow', {}, fence(fences[0]), table, fence(fences[1])) : table;
      }
      case 'cases':
      case 'rcases': {
        const [open, close] = [fences[0].trim(), fences[1] ?? ''];
        return m('mrow', {}, open && fence(open), this.table(rows, 'l', false), close && fence(close));
      }
      case 'array': return this.table(rows, columns || 'c', false);
      case 'gather': case 'gathered': case 'multline': return this.table(rows, 'c', true);
      case 'equation': case 'math': case 'displaymath':
        return rows.length === 1 && rows[0].length === 1 ? group(rows[0][0]) : this.table(rows, 'rl', true);
      case 'align': case 'aligned': case 'alignat': case 'alignedat': case 'split': case 'eqnarray': return this.table(rows, 'rl', true);
      default: throw new TexError(`${name} is not known`);
    }
  }

  /** `columns`: l, c or r for each column, beginning again at the end. */
  table(rows, columns, wide) {
    const kinds = {l: 'left', c: null, r: 'right'};
    return m('mtable', {class: wide ? 'aligned' : null, displaystyle: wide ? 'true' : null}, rows.map((cells) =>
      m('mtr', {}, cells.map((nodes, i) => m('mtd', {class: kinds[columns[i % columns.length]]}, nodes)))));
  }
}
