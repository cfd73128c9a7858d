// Colours code, a line at a time. An open comment or string is the state for the next line. Not a parser: it knows
// comments, strings, numbers, words and names that are called.
import {el} from '../dom.js';
import {find_language} from './languages.js';

const kMaxLine = 4000;  // Longer ones stay plain.
const kWord = /[A-Za-z_$\u00aa-\uffff][\w$\u00aa-\uffff]*/y;
const kNumber = /(?:0[xX][\da-fA-F_']+|0[bB][01_']+|\d[\d_']*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)[a-zA-Z%]*/y;
const kSpace = /\s+/y;

export function language_name(lang) {
  return find_language(lang)?.names[0] ?? (lang || 'text');
}

export class Highlighter {
  constructor(lang) {
    this.language = find_language(lang);
    this.until = null;  // `{text, kind}`: the end of the open comment or string.
  }

  /** Nodes of a whole line. */
  line(text) {
    if (!this.language || text.length > kMaxLine) return text ? [text] : [];
    if (this.language.diff) return diff_line(text);
    const out = new Spans();
    let at = 0;
    while (at < text.length) at = this.token(text, at, out);
    return out.nodes();
  }

  /** Nodes of a line that may still grow; the state stays. */
  preview(text) {
    const until = this.until;
    const nodes = this.line(text);
    this.until = until;
    return nodes;
  }

  token(text, at, out) {
    const language = this.language;
    if (this.until) return this.rest_of(text, at, out);
    for (const mark of language.line) {
      if (text.startsWith(mark, at) && (!language.spaced_comment || at === 0 || /\s/.test(text[at - 1]))) {
        return out.add('comment', text, at, text.length);
      }
    }
    if (language.block && text.startsWith(language.block[0], at)) {
      this.until = {text: language.block[1], kind: 'comment'};
      out.add('comment', text, at, at + language.block[0].length);
      return this.rest_of(text, at + language.block[0].length, out);
    }
    if (language.markup) return this.markup(text, at, out);
    if (language.keys) {
      language.keys.lastIndex = at;
      const key = language.keys.exec(text);
      if (key && !(at > 0 && /[\w-]/.test(text[at - 1]))) return out.add('name', text, at, at + key[0].length);
    }
    for (const mark of language.strings) {
      if (text.startsWith(mark, at)) return this.string(text, at, mark, out);
    }
    return this.word(text, at, out);
  }

  /** The part of this line that belongs to the open comment or string. */
  rest_of(text, at, out) {
    const {text: end, kind} = this.until;
    let found = text.indexOf(end, at);
    while (kind === 'string' && found > 0 && text[found - 1] === '\\') found = text.indexOf(end, found + 1);
    if (found < 0) return out.add(kind, text, at, text.length);
    this.until = null;
    return out.add(kind, text, at, found + end.length);
  }

  string(text, at, mark, out) {
    if (mark.length === 3 || mark === '`') {
      this.until = {text: mark, kind: 'string'};
      out.add('string', text, at, at + mark.length);
      return this.rest_of(text, at + mark.length, out);
    }
    let end = at + 1;
    while (end < text.length && text[end] !== mark) end += text[end] === '\\' ? 2 : 1;
    return out.add('string', text, at, Math.min(text.length, end + 1));
  }

  word(text, at, out) {
    const {language} = this;
    const c = text[at];
    kSpace.lastIndex = at;
    if (kSpace.test(text)) return out.add('', text, at, kSpace.lastIndex);
    const next = text[at + 1] ?? '';
    if (language.preprocessor && c === '#' && text.slice(0, at).trim() === '') {
      const end = /^#\s*\w*/.exec(text.slice(at))[0].length;
      return out.add('keyword', text, at, at + end);
    }
    if (language.lifetimes && c === "'") {
      const found = /^'(?:\\.|[^\\'])'|^'\w+/.exec(text.slice(at, at + 40));
      return found ? out.add(found[0].endsWith("'") ? 'string' : 'name', text, at, at + found[0].length) : out.add('', text, at, at + 1);
    }
    if ((language.decorators && (c === '@' || (c === '#' && next === '['))) || (language.sigils?.includes(c) && /[\w{(]/.test(next))) {
      kWord.lastIndex = at + 1;
      const end = kWord.test(text) ? kWord.lastIndex : at + 2;
      return out.add('name', text, at, end);
    }
    if (language.css && c === '#') {
      const found = /^#[\w-]+/.exec(text.slice(at, at + 60));
      return out.add('number', text, at, at + (found ? found[0].length : 1));
    }
    kNumber.lastIndex = at;
    if (kNumber.test(text)) return out.add('number', text, at, kNumber.lastIndex);
    kWord.lastIndex = at;
    if (kWord.test(text)) {
      const end = kWord.lastIndex;
      const word = text.slice(at, end);
      const known = language.any_case ? word.toLowerCase() : word;
      if (language.words.has(known)) return out.add('keyword', text, at, end);
      if (language.more.has(known)) return out.add('builtin', text, at, end);
      if (text[end] === '(' || text.startsWith('::<', end)) return out.add('function', text, at, end);
      if (/^[A-Z][a-z]/.test(word)) return out.add('type', text, at, end);
      return out.add('', text, at, end);
    }
    return out.add(/[{}()[\];,.:]/.test(c) ? 'mark' : '', text, at, at + 1);
  }

  markup(text, at, out) {
    const tag = /^<\/?[\w:!?-]+/.exec(text.slice(at, at + 80));
    if (tag) return out.add('keyword', text, at, at + tag[0].length);
    const attribute = /^[\w:@.-]+(?==["'{])/.exec(text.slice(at, at + 80));
    if (attribute) return out.add('name', text, at, at + attribute[0].length);
    if ((text[at] === '"' || text[at] === "'") && text[at - 1] === '=') return this.string(text, at, text[at], out);
    if (text[at] === '>' || text.startsWith('/>', at)) return out.add('keyword', text, at, at + (text[at] === '>' ? 1 : 2));
    const plain = /^(?:[\w:@.-]+|\s+|.)/.exec(text.slice(at, at + 200));
    return out.add('', text, at, at + plain[0].length);
  }
}

function diff_line(text) {
  if (!text) return [];
  const kind = /^(\+\+\+|---|diff |index )/.test(text) ? 'comment' : text[0] === '+' ? 'added' : text[0] === '-' ? 'removed' : text.startsWith('@@') ? 'name' : '';
  return kind ? [el('span', {class: `hl-${kind}`}, text)] : [text];
}

/** Joins neighbours of one kind. */
class Spans {
  constructor() {
    this.parts = [];
  }

  add(kind, text, from, to) {
    const last = this.parts.at(-1);
    const piece = text.slice(from, to);
    if (last && last.kind === kind) last.text += piece;
    else this.parts.push({kind, text: piece});
    return to;
  }

  nodes() {
    return this.parts.map(({kind, text}) => (kind ? el('span', {class: `hl-${kind}`}, text) : text));
  }
}
