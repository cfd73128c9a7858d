// Where messages are written: text, files, send and stop.
import {el, icon, icon_button} from '../dom.js';
import {announce, toast} from '../surfaces.js';

const kMaxFile = 512 * 1024;
const kMaxFiles = 20;
const kMaxTotal = 2 * 1024 * 1024;

/** With fingers alone there is no Shift: there Enter begins a line, and the button sends. */
const kFingers = matchMedia('(hover: none) and (pointer: coarse)');

const size_text = (n) => (n < 1024 ? `${n} B` : n < 1024 * 1024 ? `${Math.round(n / 1024)} KB` : `${(n / 1024 / 1024).toFixed(1)} MB`);

/** `on`: {send({content, files}), stop(), edit_last()}. */
export class Composer {
  constructor(on) {
    this.on = on;
    this.files = [];
    this.busy = false;
    this.ready = true;
    this.area = el('textarea', {
      id: 'message', rows: '1', placeholder: 'Write a message', 'aria-label': 'Message', dir: 'auto', enterkeyhint: kFingers.matches ? 'enter' : 'send', autocomplete: 'off',
      oninput: () => this.resize(), onkeydown: (event) => this.key(event), onpaste: (event) => this.paste(event),
    });
    this.chips = el('div', {class: 'chips', hidden: true});
    this.picker = el('input', {type: 'file', multiple: true, hidden: true, 'aria-hidden': 'true', tabindex: '-1', onchange: () => this.picked()});
    this.button = el('button', {class: 'send', 'aria-label': 'Send', title: 'Send'}, icon('send'));
    this.left = el('span', {class: 'composer-note'}, el('kbd', {}, 'Enter'), ' sends, ', el('kbd', {}, 'Shift Enter'), ' begins a line');
    this.meter = el('span', {class: 'context', hidden: true});
    this.node = el('form', {class: 'composer', onsubmit: (event) => { event.preventDefault(); this.submit(); }},
      el('div', {class: 'composer-box'}, this.chips, this.area,
         el('div', {class: 'composer-row'},
            icon_button('attach', 'Add text files', () => this.picker.click()), el('span', {class: 'spring'}), this.meter, this.button)),
      this.picker, this.left);
  }

  focus() {
    this.area.focus();
  }

  set_text(text) {
    this.area.value = text;
    this.resize();
  }

  /** While an answer is written the button stops it. */
  set_busy(busy) {
    this.busy = busy;
    this.button.replaceChildren(icon(busy ? 'stop' : 'send'));
    this.button.setAttribute('aria-label', busy ? 'Stop' : 'Send');
    this.button.title = busy ? 'Stop (Esc)' : 'Send';
    this.button.classList.toggle('stopping', busy);
    this.update();
  }

  set_ready(ready) {
    this.ready = ready;
    this.update();
  }

  update() {
    this.button.disabled = !this.busy && (!this.ready || (!this.area.value.trim() && this.files.length === 0));
  }

  /** What of the context the conversation takes; null: not known. */
  set_context(used, total) {
    this.meter.hidden = !used || !total;
    if (this.meter.hidden) return;
    const share = Math.min(1, used / total);
    const text = `${used.toLocaleString('en-US')} of ${total.toLocaleString('en-US')} tokens`;
    const ring = el('span', {class: `ring${share > 0.9 ? ' full' : ''}`, 'aria-hidden': 'true'});
    ring.style.setProperty('--share', share);
    this.meter.replaceChildren(ring, el('span', {}, `${Math.round(share * 100)} %`));
    this.meter.title = `The conversation takes ${text} of the context`;
    this.meter.setAttribute('aria-label', this.meter.title);
    this.meter.setAttribute('role', 'img');
  }

  resize() {
    this.area.style.height = 'auto';
    this.area.style.height = `${Math.min(this.area.scrollHeight, innerHeight * 0.4)}px`;
    this.update();
  }

  key(event) {
    if (event.key === 'Enter' && !event.shiftKey && !kFingers.matches && !event.isComposing && event.keyCode !== 229) {
      event.preventDefault();
      if (!this.busy) this.submit();
    } else if (event.key === 'ArrowUp' && !this.area.value) {
      event.preventDefault();
      this.on.edit_last();
    }
  }

  submit() {
    if (this.busy) return this.on.stop();
    if (this.button.disabled) return undefined;
    const message = {content: this.area.value.trim(), files: this.files};
    this.files = [];
    this.set_text('');
    this.show_files();
    if (!kFingers.matches) this.focus();
    return this.on.send(message);
  }

  paste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    this.add_files(files);
  }

  picked() {
    this.add_files([...this.picker.files]);
    this.picker.value = '';
  }

  async add_files(list) {
    const problems = [];
    for (const file of list) {
      const problem = await this.add_file(file);
      if (problem) problems.push(problem);
    }
    this.show_files();
    this.focus();
    if (problems.length) toast(problems.slice(0, 3).join(' '));
    else announce(`${list.length === 1 ? list[0].name : `${list.length} files`} added`);
  }

  /** Why a file was not taken, or null. */
  async add_file(file) {
    if (/^(image|audio|video)\//.test(file.type)) return `${file.name}: this page sends text only, so pictures, sound and video cannot be read here.`;
    if (file.size > kMaxFile) return `${file.name} has ${size_text(file.size)}; at most ${size_text(kMaxFile)} are taken.`;
    if (this.files.length >= kMaxFiles) return `At most ${kMaxFiles} files go with a message.`;
    if (this.files.reduce((sum, {text}) => sum + text.length, file.size) > kMaxTotal) return `Files of a message have at most ${size_text(kMaxTotal)} together.`;
    try {
      const text = new TextDecoder('utf-8', {fatal: true}).decode(await file.arrayBuffer());
      if (text.includes('\0')) throw new Error('binary');
      this.files.push({name: file.name, text: text.replace(/\r\n/g, '\n').replace(/\n$/, '')});
      return null;
    } catch {
      return `${file.name} is no text in UTF-8.`;
    }
  }

  show_files() {
    this.chips.hidden = this.files.length === 0;
    this.chips.replaceChildren(...this.files.map((file) => el('span', {class: 'chip'}, icon('file'), file.name, el('small', {}, size_text(file.text.length)),
      icon_button('close', `Remove ${file.name}`, () => {
        this.files = this.files.filter((other) => other !== file);
        this.show_files();
        this.focus();
      }))));
    this.update();
  }
}

/** Files dropped anywhere on `target` go to the composer. */
export function accept_drops(target, composer) {
  let depth = 0;
  const has_files = (event) => [...(event.dataTransfer?.types ?? [])].includes('Files');
  target.addEventListener('dragenter', (event) => {
    if (has_files(event) && depth++ === 0) target.classList.add('dropping');
  });
  target.addEventListener('dragleave', (event) => {
    if (has_files(event) && --depth <= 0) {
      depth = 0;
      target.classList.remove('dropping');
    }
  });
  target.addEventListener('dragover', (event) => {
    if (has_files(event)) event.preventDefault();
  });
  target.addEventListener('drop', (event) => {
    if (!has_files(event)) return;
    event.preventDefault();
    depth = 0;
    target.classList.remove('dropping');
    composer.add_files([...event.dataTransfer.files]);
  });
}
