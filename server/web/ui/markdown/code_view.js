// A block of code: its language, buttons to wrap and copy, and highlighted lines. Grows line by line: complete lines are highlighted
// once.
import {append, el, icon} from '../dom.js';
import {Highlighter, language_name} from './highlight.js';

/** One setting for all blocks of code. */
const wraps = () => document.documentElement.dataset.wrapCode === 'true';

export class CodeView {
  constructor(lang) {
    this.text = '';
    this.highlighter = new Highlighter(lang);
    this.n_done = 0;  // Characters of complete lines, whose nodes are final ...
    this.n_nodes = 0;  // ... and the number of these nodes.
    this.code = el('code', {});
    this.figure = el('figure', {class: 'code'},
                     el('figcaption', {}, el('span', {class: 'code-language'}, language_name(lang)),
                        el('button', {type: 'button', class: 'code-button wrap-code', 'aria-label': 'Wrap long lines', 'aria-pressed': String(wraps())}, icon('wrap'), el('span', {}, 'Wrap')),
                        el('button', {type: 'button', class: 'code-button copy-code', 'aria-label': 'Copy the code'}, icon('copy'), el('span', {}, 'Copy'))),
                     el('pre', {tabindex: '0', dir: 'ltr'}, this.code));
  }

  /** A figure with all of the code. */
  static whole(lang, text) {
    const view = new CodeView(lang);
    view.set_text(text);
    return view.figure;
  }

  /** `text` begins with the complete lines of the previous one. */
  set_text(text) {
    this.text = text;
    while (this.code.childNodes.length > this.n_nodes) this.code.lastChild.remove();
    const end = text.lastIndexOf('\n') + 1;
    if (end > this.n_done) {
      for (const line of text.slice(this.n_done, end - 1).split('\n')) append(this.code, this.highlighter.line(line), '\n');
      this.n_done = end;
      this.n_nodes = this.code.childNodes.length;
    }
    const tail = text.slice(end);
    if (!/^ {0,3}(`{1,2}|~{1,2})$/.test(tail)) append(this.code, this.highlighter.preview(tail));  // Else half a fence.
  }
}

/** One listener for the buttons of all blocks of code below `root`. */
export function code_buttons_in(root) {
  root.addEventListener('click', (event) => {
    const button = event.target.closest?.('.code-button');
    if (button?.matches('.copy-code')) copy(button);
    else if (button) wrap(root, !wraps());
  });
}

function wrap(root, on) {
  document.documentElement.dataset.wrapCode = String(on);
  root.querySelectorAll('.wrap-code').forEach((button) => button.setAttribute('aria-pressed', String(on)));
}

async function copy(button) {
  const label = button.querySelector('span');
  try {
    await navigator.clipboard.writeText(button.closest('figure').querySelector('code').textContent);
    label.textContent = 'Copied';
  } catch {
    label.textContent = 'Not allowed';
  }
  setTimeout(() => { label.textContent = 'Copy'; }, 1600);
}
