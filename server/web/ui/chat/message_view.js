// One message as it is shown, finished or growing.
import {el, icon, icon_button, mark} from '../dom.js';
import {MarkdownStream, render_markdown} from '../markdown/render.js';
import {copy_text} from '../surfaces.js';
import {media_files} from './conversation.js';
import {bytes_text, is_media_url} from './media.js';

const kFinishReasons = {
  length: 'Length limit reached',
  content_filter: 'Stopped by a content filter',
  tool_calls: 'Waiting for the tool',
};

export function duration(ms) {
  const s = ms / 1000;
  return s < 10 ? `${s.toFixed(1)} s` : s < 60 ? `${Math.round(s)} s` : `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
}

const count = (n) => n.toLocaleString('en-US');

/**
 * `actions`: functions of the message: edit, retry, go_on, drop_turns, choose, remove, is_full (whether the context has no room for
 * more of it), is_growing_elsewhere (in another tab); and load_media(ids). A message is drawn by fill(), which may come later than the
 * view itself, so that long conversations open at once.
 */
export class MessageView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.filled = false;
    this.content = el('div', {class: 'prose'});
    this.reasoning = null;
    this.tools = el('div', {class: 'tool-calls'});
    this.foot = el('div', {class: 'message-foot'});
    this.problem = el('div', {});
    const user = message.role === 'user';
    this.node = el('article', {class: `message ${message.role}`, 'aria-label': user ? 'You' : message.model ?? 'Response', data: {id: message.id}},
                   user ? null : el('div', {class: 'message-mark'}, mark()),
                   el('div', {class: 'message-main'}, this.content_nodes(), this.foot));
  }

  content_nodes() {
    if (this.message.role === 'user') {
      const {files = []} = this.message;
      const chips = files.filter(({kind}) => !kind).map(chip_node);
      this.media = el('div', {class: 'media', hidden: true});
      return [this.media, chips.length ? el('div', {class: 'chips'}, chips) : null, this.content];
    }
    this.before = el('div', {});
    return [this.before, this.content, this.tools, this.problem];
  }

  fill() {
    if (this.filled) return;
    this.filled = true;
    const {message} = this;
    if (message.role === 'user') {
      this.content.append(el('p', {class: 'as-written', dir: 'auto'}, message.content));
      this.content.hidden = !message.content;
      this.fill_media();
    } else {
      if (message.reasoning) {
        this.reasoning = reasoning_node();
        this.reasoning.body.append(render_markdown(message.reasoning));
        this.reasoning.finish(message.reasoning_ms);
        this.before.append(this.reasoning.node);
      }
      this.content.append(render_markdown(message.content));
    }
    this.show_end();
  }

  async fill_media() {
    const files = media_files(this.message);
    if (files.length === 0) return;
    const urls = await this.actions.load_media(files.map(({id}) => id));
    this.media.append(...files.map((file) => media_node(file, urls.get(file.id))));
    this.media.hidden = false;
  }

  // A response that grows: begin, then add_* and show_tools, then end.

  begin() {
    this.filled = true;
    this.node.classList.add('growing');
    this.waiting = el('div', {class: 'dots', 'aria-hidden': 'true'}, el('span'), el('span'), el('span'));
    this.content.replaceChildren(this.waiting);
    this.problem.replaceChildren();
    this.foot.replaceChildren();
    this.stream = new MarkdownStream(this.content);
    if (this.message.content) {
      this.waiting.remove();
      this.stream.append(this.message.content);
    }
  }

  add_content(text) {
    this.waiting.remove();
    this.reasoning?.finish(this.message.reasoning_ms);
    this.stream.append(text);
  }

  add_reasoning(text) {
    this.waiting.remove();
    if (!this.reasoning) {
      this.reasoning = reasoning_node();
      this.before.replaceChildren(this.reasoning.node);
      this.reasoning.begin();
      this.reasoning_stream = new MarkdownStream(this.reasoning.body);
    }
    this.reasoning_stream.append(text);
  }

  /** While a request waits for its next try; `cancel` ends that. Returns a function that shows the seconds left. */
  begin_waiting(message, cancel) {
    const seconds = el('span', {'aria-hidden': 'true'});
    this.problem.replaceChildren(notice('waiting', el('p', {}, message, ' ', seconds), ['Cancel', 'close', cancel]));
    return (left) => { seconds.textContent = `Trying again in ${left} s.`; };
  }

  end_waiting() {
    this.problem.replaceChildren();
  }

  show_tools() {
    this.waiting?.remove();
    const {tool_calls = []} = this.message;
    this.tools.replaceChildren(...tool_calls.map(tool_node));
  }

  end() {
    this.node.classList.remove('growing');
    this.waiting.remove();
    this.stream.finish();
    this.reasoning_stream?.finish();
    this.reasoning?.finish(this.message.reasoning_ms);
    this.show_end();
  }

  show_end() {
    const {message} = this;
    if (message.role === 'assistant') {
      this.show_tools();
      this.show_problem();
    }
    this.show_foot();
  }

  /** After the size of the context became known. */
  refresh() {
    if (this.filled && this.message.role === 'assistant' && !this.node.classList.contains('growing')) this.show_problem();
  }

  /** Shows why the response is not complete, and the actions for it. */
  show_problem() {
    const {message, actions} = this;
    const retry = ['Try again', 'retry', () => actions.retry(message)];
    const go_on = ['Continue', 'forward', () => actions.go_on(message)];
    const drop = ['Drop the oldest turns', 'fold', () => actions.drop_turns(message)];
    const again = this.can_go_on() ? [go_on, retry] : [retry];
    let node = '';
    if (message.error?.too_long) node = notice('error', message.error.message, drop);
    else if (message.error) node = notice('error', message.error.message, ...again);
    else if (message.unfinished && actions.is_growing_elsewhere(message)) node = notice('waiting', 'Another tab is generating this response.');
    else if (message.unfinished) node = notice('unfinished', 'This response was interrupted before it was complete.', ...again);
    else if (this.is_last && actions.is_full(message)) node = notice('unfinished', 'The response ends here because the context is full.', drop);
    this.problem.replaceChildren(node);
  }

  can_go_on() {
    return this.is_last && this.message.content !== '' && !this.message.tool_calls?.length;
  }

  /** The row below a message: branches, actions, figures. */
  show_foot() {
    const {message, actions} = this;
    const user = message.role === 'user';
    const copy = icon_button('copy', user ? 'Copy the message' : 'Copy the response', () => copy_text(message.content, copy));
    const buttons = [copy];
    if (user) {
      buttons.push(icon_button('edit', 'Edit and send again', () => actions.edit(message)));
    } else {
      buttons.push(icon_button('retry', 'Regenerate', () => actions.retry(message)));
      if (this.can_go_on()) buttons.push(icon_button('forward', 'Continue', () => actions.go_on(message)));
    }
    buttons.push(icon_button('trash', user ? 'Delete the message and its response' : 'Delete the response', () => actions.remove(message)));
    this.foot.replaceChildren(...[this.branch_node(), el('div', {class: 'actions'}, buttons), user ? null : figures_node(message)].filter(Boolean));
  }

  /** `others`: the messages in this place; `is_last`: no message follows. */
  set_place(others, is_last) {
    const changed = this.is_last !== is_last || this.others?.length !== others.length;
    this.others = others;
    this.is_last = is_last;
    this.node.classList.toggle('last', is_last);
    if (changed && this.filled && !this.node.classList.contains('growing')) this.show_end();
  }

  /** A line above the message at which the context begins, with a button to send all messages again; null: none. */
  set_context_start(text, send_all) {
    this.context_start?.remove();
    this.context_start = text && el('div', {class: 'context-start'}, el('p', {}, text), el('button', {type: 'button', class: 'button small', onclick: send_all}, 'Send all'));
    if (this.context_start) this.node.prepend(this.context_start);
  }

  branch_node() {
    if (!this.others || this.others.length < 2) return null;
    const at = this.others.findIndex(({id}) => id === this.message.id);
    const go = (to) => this.actions.choose(this.others[to]);
    return el('div', {class: 'branches', role: 'group', 'aria-label': 'Versions'},
              icon_button('left', 'Previous version', () => go(at - 1), {disabled: at === 0}),
              el('span', {}, `${at + 1} / ${this.others.length}`),
              icon_button('right', 'Next version', () => go(at + 1), {disabled: at + 1 === this.others.length}));
  }

  /** Replaces the content by an editor; done(text or null). */
  edit(done) {
    const area = el('textarea', {class: 'field edit-area', rows: '3', value: this.message.content, 'aria-label': 'Edit the message', dir: 'auto'});
    const close = (text) => {
      editor.remove();
      this.node.classList.remove('editing');
      done(text);
    };
    const editor = el('form', {class: 'editor', onsubmit: (event) => { event.preventDefault(); close(area.value); }}, area,
      el('div', {class: 'editor-foot'}, el('button', {type: 'button', class: 'button', onclick: () => close(null)}, 'Cancel'),
         el('button', {class: 'button primary'}, 'Send')));
    area.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        close(null);
      } else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        close(area.value);
      }
    });
    this.node.classList.add('editing');
    this.content.after(editor);
    area.style.height = `${Math.min(area.scrollHeight + 4, innerHeight / 2)}px`;
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}

function reasoning_node() {
  const label = el('span', {class: 'reasoning-label'}, 'Thinking');
  const body = el('div', {class: 'prose reasoning-body'});
  const node = el('details', {class: 'reasoning'}, el('summary', {}, icon('down'), label), body);
  let timer = 0;
  const since = performance.now();
  return {
    node, body,
    begin() {
      node.classList.add('thinking');
      timer = setInterval(() => { label.textContent = `Thinking · ${duration(performance.now() - since)}`; }, 200);
    },
    finish(ms) {
      clearInterval(timer);
      node.classList.remove('thinking');
      label.textContent = ms ? `Thought for ${duration(ms)}` : 'Thought';
    },
  };
}

function tool_node({name, arguments: text}) {
  let shown = text;
  try {
    shown = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // Not complete yet, or no JSON: as it is.
  }
  return el('details', {class: 'tool-call', open: true},
            el('summary', {}, icon('tool'), el('span', {}, 'Calls ', el('code', {}, name || '…'))),
            el('pre', {tabindex: '0'}, el('code', {}, shown)));
}

/** A box below a response; `actions`: [label, icon, function]. */
function notice(kind, text, ...actions) {
  const buttons = actions.map(([label, name, act]) => el('button', {type: 'button', class: 'button', onclick: act}, icon(name), label));
  return el('div', {class: `problem ${kind}`, role: kind === 'error' ? 'alert' : 'status'}, typeof text === 'string' ? el('p', {}, text) : text,
            buttons.length ? el('div', {class: 'problem-actions'}, buttons) : null);
}

export function chip_node({name, text, kind, n_bytes}) {
  return el('span', {class: 'chip', title: kind ? bytes_text(n_bytes) : `${count(text.length)} characters`}, icon(kind === 'audio' ? 'sound' : 'file'), el('bdi', {}, name));
}

/** An image or a player; without `url` a note. */
function media_node(file, url) {
  const {name, kind} = file;
  if (!is_media_url(url, kind)) return el('p', {class: 'note'}, `${name} is no longer stored in this browser.`);
  return kind === 'image' ? el('img', {src: url, alt: name, title: name}) : player(file, url);
}

export function player(file, url) {
  const chip = chip_node(file);
  chip.append(el('audio', {src: url, controls: true, 'aria-label': file.name}));
  return chip;
}

function figures_node({stats, stopped, finish_reason}) {
  const parts = [];
  if (stats?.n_generated) parts.push(`${count(stats.n_generated)} tokens`);
  if (stats?.per_second) parts.push(`${stats.per_second >= 100 ? Math.round(stats.per_second) : stats.per_second.toFixed(1)} tokens/s`);
  if (stopped) parts.push('Stopped');
  else if (kFinishReasons[finish_reason]) parts.push(kFinishReasons[finish_reason]);
  if (parts.length === 0) return null;
  const more = [];
  if (stats?.n_prompt) more.push(`Prompt: ${count(stats.n_prompt)} tokens${stats.n_cached ? `, ${count(stats.n_cached)} of them cached` : ''}`);
  if (stats?.first_ms) more.push(`first token after ${duration(stats.first_ms)}`);
  return el('span', {class: 'figures', title: more.join('; ')}, parts.join(' · '));
}
