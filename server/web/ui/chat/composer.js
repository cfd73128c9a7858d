// The composer: input field, files, send and stop.
import {el, icon, icon_button} from '../dom.js';
import {announce, toast} from '../surfaces.js';
import {estimate_tokens, new_id} from './conversation.js';
import {bytes_text, media_kind, read_media} from './media.js';
import {chip_node, player} from './message_view.js';

const kMaxFile = 512 * 1024;
const kMaxFiles = 20;
const kMaxText = 2 * 1024 * 1024;
const kMaxMedia = 10 * 1024 * 1024;  // In base64 they are a third larger, and the server reads 16 MB.
const kNearlyFull = 0.8;  // Of the context.
const kFlags = {image: 'vision', audio: 'audio'};  // Names of /props modalities.

/** With fingers alone there is no Shift: there Enter begins a line, and the button sends. */
const kFingers = matchMedia('(hover: none) and (pointer: coarse)');

/** `on`: {send({content, files}), stop(), edit_last()}. Media files have their bytes as `url`. */
export class Composer {
  constructor(on) {
    this.on = on;
    this.files = [];
    this.busy = false;
    this.ready = true;
    this.modalities = {};
    this.context = {n: 0, exact: true, total: 0};
    this.area = el('textarea', {
      id: 'message', rows: '1', placeholder: 'Write a message', 'aria-label': 'Message', dir: 'auto', enterkeyhint: kFingers.matches ? 'enter' : 'send', autocomplete: 'off',
      oninput: () => this.typed(), onkeydown: (event) => this.key(event), onpaste: (event) => this.paste(event),
    });
    this.chips = el('div', {class: 'chips', hidden: true});
    this.picker = el('input', {type: 'file', multiple: true, hidden: true, 'aria-hidden': 'true', tabindex: '-1', onchange: () => this.picked()});
    this.button = el('button', {class: 'send', 'aria-label': 'Send', title: 'Send'}, icon('send'));
    this.attach = icon_button('attach', 'Attach files', () => this.picker.click());
    this.warning = el('p', {class: 'context-warning', role: 'status', hidden: true});
    this.left = el('span', {class: 'composer-note'}, el('kbd', {}, 'Enter'), ' sends, ', el('kbd', {}, 'Shift Enter'), ' adds a line');
    this.meter = el('span', {class: 'context', hidden: true});
    this.node = el('form', {class: 'composer', onsubmit: (event) => { event.preventDefault(); this.submit(); }},
      this.warning,
      el('div', {class: 'composer-box'}, this.chips, this.area,
         el('div', {class: 'composer-row'},
            this.attach, el('span', {class: 'spring'}), this.meter, this.button)),
      this.picker, this.left);
  }

  focus() {
    this.area.focus();
  }

  set_text(text) {
    this.area.value = text;
    this.resize();
  }

  /** While a response is generated the button stops it. */
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

  /** The media that the model takes: {vision, audio}; an unknown one is left to the server. */
  set_modalities(modalities) {
    this.modalities = modalities;
    const kinds = ['text', modalities.vision && 'images', modalities.audio && 'audio'].filter(Boolean);
    const label = `Attach files (${kinds.join(', ')})`;
    this.attach.title = label;
    this.attach.setAttribute('aria-label', label);
    const refused = this.files.filter(({kind}) => this.refuses(kind));
    if (refused.length === 0) return;
    this.files = this.files.filter(({kind}) => !this.refuses(kind));
    this.show_files();
    toast(refused.map(refusal).join(' '));
  }

  refuses(kind) {
    return kind !== undefined && this.modalities[kFlags[kind]] === false;
  }

  /** {n, exact, total}: the tokens of the conversation, and of the context. */
  set_context(context) {
    this.context = context;
    this.show_context();
  }

  /** The ring, and a warning where the next request may not fit. */
  show_context() {
    const {n, exact, total} = this.context;
    const draft = estimate_tokens(this.area.value) + this.files.reduce((sum, {text = ''}) => sum + estimate_tokens(text), 0);
    const count = (value) => value.toLocaleString('en-US');
    const share = Math.min(1, n / Math.max(1, total));
    const too_long = draft > 0 && n + draft >= total;
    const near = share >= kNearlyFull || too_long;
    this.meter.hidden = !n || !total;
    const ring = el('span', {class: `ring${share > 0.9 ? ' full' : near ? ' near' : ''}`, 'aria-hidden': 'true'});
    ring.style.setProperty('--share', share);
    this.meter.replaceChildren(ring, el('span', {}, `${Math.round(share * 100)} %`));
    this.meter.title = `The conversation takes ${exact ? count(Math.min(n, total)) : `about ${count(n)}`} of ${count(total)} tokens of the context`;
    this.meter.setAttribute('aria-label', this.meter.title);
    this.meter.setAttribute('role', 'img');
    const text = !total || !near ? ''
        : too_long ? `With this message the conversation takes about ${count(n + draft)} tokens; the context has ${count(total)}.`
        : `The context is ${Math.round(share * 100)} % full. When it is full, the oldest turns can be dropped.`;
    if (this.warning.textContent !== text) this.warning.textContent = text;
    this.warning.hidden = !text;
  }

  typed() {
    this.resize();
    clearTimeout(this.context_timer);
    this.context_timer = setTimeout(() => this.show_context(), 300);
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

  /** Office programs add an image to a copied text: then only the text is pasted. */
  paste(event) {
    const {files = [], types = []} = event.clipboardData ?? {};
    if (files.length === 0 || types.includes('text/plain')) return;
    event.preventDefault();
    this.add_files([...files]);
  }

  picked() {
    this.add_files([...this.picker.files]);
    this.picker.value = '';
  }

  async add_files(list) {
    const problems = [];
    for (const file of list) {
      try {
        this.files.push(await this.read_file(file));
      } catch (error) {
        problems.push(error.message);
      }
    }
    this.show_files();
    this.focus();
    if (problems.length) toast(problems.slice(0, 3).join(' '));
    else announce(`${list.length === 1 ? list[0].name : `${list.length} files`} attached`);
  }

  /** Throws Error that says why a file is not taken, and what to do. */
  async read_file(file) {
    if (this.files.length >= kMaxFiles) throw new Error(`A message has at most ${kMaxFiles} files.`);
    const kind = media_kind(file);
    return kind ? this.read_media(file, kind) : this.read_text(file);
  }

  async read_media(file, kind) {
    if (kind === 'video') throw new Error(`${file.name} is a video, which models here do not take; attach single frames as images.`);
    if (this.refuses(kind)) throw new Error(refusal({name: file.name, kind}));
    const made = await read_media(file, kind);
    const n_bytes = this.files.reduce((sum, other) => sum + (other.n_bytes ?? 0), made.n_bytes);
    if (n_bytes > kMaxMedia) throw new Error(`${file.name}: images and audio of a message have at most ${bytes_text(kMaxMedia)} together.`);
    return {...made, id: new_id()};
  }

  async read_text(file) {
    if (file.size > kMaxFile) throw new Error(`${file.name} has ${bytes_text(file.size)}; text files have at most ${bytes_text(kMaxFile)}.`);
    const n_letters = this.files.reduce((sum, {text = ''}) => sum + text.length, file.size);
    if (n_letters > kMaxText) throw new Error(`${file.name}: text files of a message have at most ${bytes_text(kMaxText)} together.`);
    let text;
    try {
      text = new TextDecoder('utf-8', {fatal: true}).decode(await file.arrayBuffer());
    } catch {
      text = '\0';
    }
    if (text.includes('\0')) throw new Error(`${file.name} is not a text file in UTF-8; convert it to text.`);
    return {name: file.name, text: text.replace(/\r\n/g, '\n').replace(/\n$/, '')};
  }

  show_files() {
    this.chips.hidden = this.files.length === 0;
    this.chips.replaceChildren(...this.files.map((file) => this.chip(file)));
    this.update();
    this.show_context();
  }

  chip(file) {
    const chip = file.kind === 'audio' ? player(file, file.url) : chip_node(file);
    if (file.kind === 'image') chip.querySelector('.icon').replaceWith(el('img', {src: file.url, alt: ''}));
    chip.append(el('small', {}, bytes_text(file.n_bytes ?? file.text.length)), icon_button('close', `Remove ${file.name}`, () => {
      this.files = this.files.filter((other) => other !== file);
      this.show_files();
      this.focus();
    }));
    return chip;
  }
}

function refusal({name, kind}) {
  const flag = kFlags[kind];
  return `${name}: this model cannot read ${kind === 'image' ? 'images' : 'audio'}. Choose a model with ${flag}, or start the server with --mmproj and the model's ${flag} file.`;
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
