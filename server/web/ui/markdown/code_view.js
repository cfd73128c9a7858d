// A block of code: its language, a copy button, and highlighted lines. Grows line by line: lines that are whole are
// highlighted once.
import {el, icon} from '../dom.js';
import {Highlighter, language_name} from './highlight.js';

export class CodeView {
  constructor(lang) {
    this.text = '';
    this.highlighter = new Highlighter(lang);
    this.n_done = 0;  // Characters in whole lines, drawn for good ...
    this.n_nodes = 0;  // ... as so many nodes.
    this.code = el('code', {});
    this.figure = el('figure', {class: 'code'},
                     el('figcaption', {}, el('span', {class: 'code-language'}, language_name(lang)),
                        el('button', {type: 'button', class: 'copy-code', 'aria-label': 'Copy the code'}, icon('copy'), el('span', {}, 'Copy'))),
                     el('pre', {tabindex: '0', dir: 'ltr'}, this.code));
  }

  /** A figure with all of a text. */
  static whole(lang, text) {
    const view = new CodeView(lang);
    view.set_text(text);
    return view.figure;
  }

  /** `text` begins with the whole lines of the text before. */
  set_text(text) {
    this.text = text;
    while (this.code.childNodes.length > this.n_nodes) this.code.lastChild.remove();
    const end = text.lastIndexOf('\n') + 1;
    if (end > this.n_done) {
      for (const line of text.slice(this.n_done, end - 1).split('\n')) this.code.append(...this.highlighter.line(line), '\n');
      this.n_done = end;
      this.n_nodes = this.code.childNodes.length;
    }
    const tail = text.slice(end);
    if (!/^ {0,3}(`{1,2}|~{1,2})$/.test(tail)) this.code.append(...this.highlighter.preview(tail));  // Else half a fence.
  }
}

/** One listener for all copy buttons below `root`. */
export function copy_code_in(root) {
  root.addEventListener('click', async (event) => {
    const button = event.target.closest?.('.copy-code');
    if (!button) return;
    const label = button.querySelector('span');
    try {
      await navigator.clipboard.writeText(button.closest('figure').querySelector('code').textContent);
      label.textContent = 'Copied';
    } catch {
      label.textContent = 'Not allowed';
    }
    setTimeout(() => { label.textContent = 'Copy'; }, 1600);
  });
}
