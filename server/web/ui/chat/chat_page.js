// The page of a conversation: its messages, the composer, and the answers that are being written.
import {el, icon, icon_button, mark} from '../dom.js';
import {code_buttons_in} from '../markdown/code_view.js';
import {announce, ask_key} from '../surfaces.js';
import {set_key} from '../api.js';
import {AnswerRun} from './answer_run.js';
import {Composer, accept_drops} from './composer.js';
import {add_message, choose, new_conversation, path, siblings} from './conversation.js';
import {MessageView} from './message_view.js';
import {load_defaults} from './settings.js';

const kDrawnAtOnce = 8;
const kNearEnd = 40;

const kStarters = [
  ['Explain', 'how a hash map works, with a picture in text'],
  ['Write', 'a Python script that finds duplicate files'],
  ['Compare', 'TCP and UDP in a table'],
  ['Derive', 'the quadratic formula, step by step'],
];

/** `app`: {store, models(), model(), context_size(), on_conversation(conversation), on_key()}. */
export class ChatPage {
  constructor(app) {
    this.app = app;
    this.conversation = new_conversation(load_defaults());
    this.views = new Map();
    this.runs = new Map();  // Conversation's id to AnswerRun.
    this.follow = true;
    this.composer = new Composer({send: (message) => this.send(message), stop: () => this.stop(), edit_last: () => this.edit_last()});
    this.list = el('div', {class: 'thread', role: 'log', 'aria-live': 'off', 'aria-label': 'Conversation'});
    this.empty = this.empty_node();
    this.scroller = el('div', {class: 'scroller', tabindex: '-1'}, this.empty, this.list);
    this.to_end = icon_button('down', 'To the end', () => this.scroll_to_end(true), {class: 'icon-button to-end', hidden: true});
    this.node = el('section', {class: 'chat', 'aria-label': 'Chat'}, this.scroller, el('div', {class: 'dock'}, this.to_end, this.composer.node),
                   el('div', {class: 'drop-hint', 'aria-hidden': 'true'}, icon('file'), 'Drop text files to add them'));
    this.scroller.addEventListener('scroll', () => this.scrolled(), {passive: true});
    new ResizeObserver(() => { if (this.follow) this.scroll_to_end(false); }).observe(this.list);
    code_buttons_in(this.list);
    accept_drops(this.node, this.composer);
    this.draw();
  }

  get running() {
    return this.runs.get(this.conversation.id) ?? null;
  }

  // Which conversation is shown.

  open_new() {
    this.show(new_conversation(load_defaults()));
    this.composer.focus();
  }

  /** Returns false where there is none of that id. */
  async open(id) {
    if (this.conversation.id === id) return true;
    const conversation = this.runs.get(id)?.conversation ?? await this.app.store.load(id);
    if (!conversation) return false;
    this.show(conversation);
    return true;
  }

  show(conversation) {
    this.conversation = conversation;
    this.views.clear();
    this.list.replaceChildren();
    this.follow = true;
    this.draw();
    this.scroll_to_end(false);
    this.app.on_conversation(conversation);
  }

  empty_node() {
    const starters = kStarters.map(([verb, rest]) => el('button', {type: 'button', class: 'starter', onclick: () => {
      this.composer.set_text(`${verb} ${rest}`);
      this.composer.focus();
    }}, el('b', {}, verb), ' ', rest));
    this.empty_note = el('p', {class: 'empty-note'});
    return el('div', {class: 'empty'}, el('div', {class: 'empty-mark'}, mark()), el('h1', {}, 'What are you working on?'), this.empty_note,
              el('div', {class: 'starters'}, starters));
  }

  set_model_note(text) {
    this.empty_note.textContent = text;
  }

  // Drawing.

  /** Makes the list equal to the path; views that stay are not touched. */
  draw() {
    const messages = path(this.conversation);
    this.empty.hidden = messages.length > 0;
    this.node.classList.toggle('is-empty', messages.length === 0);
    const run = this.running;
    const views = messages.map((message, i) => {
      let view = run?.message === message ? run.view : this.views.get(message.id);
      if (!view) view = new MessageView(message, this.actions());
      this.views.set(message.id, view);
      view.set_place(siblings(this.conversation, message), i === messages.length - 1);
      return view;
    });
    views.forEach(({node}, i) => {
      if (this.list.childNodes[i] !== node) this.list.insertBefore(node, this.list.childNodes[i] ?? null);
    });
    while (this.list.childNodes.length > views.length) this.list.lastChild.remove();
    this.fill(views);
    this.composer.set_busy(run !== null);
    this.show_context(messages);
  }

  /** The last views at once, the others when there is time, from the end upwards. */
  fill(views) {
    views.slice(-kDrawnAtOnce).forEach((view) => view.fill());
    const rest = views.slice(0, -kDrawnAtOnce).filter((view) => !view.filled);
    const later = globalThis.requestIdleCallback ?? ((call) => setTimeout(() => call({timeRemaining: () => 8}), 16));
    const go_on = (deadline) => {
      do rest.pop().fill();
      while (rest.length > 0 && deadline.timeRemaining() > 2);
      if (rest.length > 0) later(go_on, {timeout: 200});
    };
    if (rest.length > 0) later(go_on, {timeout: 200});
  }

  actions() {
    return {
      edit: (message) => this.edit(message),
      retry: (message) => this.retry(message),
      go_on: (message) => this.answer_into(message),
      choose: (message) => {
        choose(this.conversation, message);
        this.draw();
        this.save(this.conversation);
      },
    };
  }

  show_context(messages) {
    const {stats} = messages.findLast((message) => message.stats?.n_prompt) ?? {};
    this.composer.set_context(stats ? stats.n_prompt + stats.n_generated : 0, this.app.context_size());
  }

  scrolled() {
    const {scrollTop, scrollHeight, clientHeight} = this.scroller;
    const left = scrollHeight - scrollTop - clientHeight;
    // Growing content is no scrolling of the user: only a way up ends the following.
    if (left < kNearEnd) this.follow = true;
    else if (scrollTop < this.last_top) this.follow = false;
    this.last_top = scrollTop;
    this.to_end.hidden = left < kNearEnd * 6;
  }

  scroll_to_end(smooth) {
    this.follow = true;
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.scroller.scrollTo({top: this.scroller.scrollHeight, behavior: smooth && !calm ? 'smooth' : 'instant'});
  }

  // What the user does.

  send({content, files}) {
    const last = path(this.conversation).at(-1);
    const message = add_message(this.conversation, last?.id ?? null, 'user', {content, ...(files.length && {files})});
    this.follow = true;
    this.ask(message);
  }

  edit(message) {
    if (this.running) return;
    this.views.get(message.id).edit((text) => {
      this.composer.focus();
      if (text === null || !text.trim()) return;
      this.ask(add_message(this.conversation, message.parent, 'user', {content: text.trim(), ...(message.files && {files: message.files})}));
    });
  }

  edit_last() {
    const message = path(this.conversation).findLast(({role}) => role === 'user');
    if (message) this.edit(message);
  }

  /** Another answer beside one; one that failed before its first word is replaced. */
  retry(message) {
    if (this.running) return;
    const question = this.conversation.messages[message.parent];
    if (message.error && !message.content && !message.reasoning) {
      delete this.conversation.messages[message.id];
      this.views.delete(message.id);
    }
    if (question) this.ask(question);
  }

  ask(question) {
    const message = add_message(this.conversation, question.id, 'assistant', {model: this.app.model()});
    return this.answer_into(message);
  }

  async answer_into(message) {
    const {conversation} = this;
    if (this.runs.has(conversation.id)) return;
    const view = this.views.get(message.id) ?? new MessageView(message, this.actions());
    this.views.set(message.id, view);
    conversation.updated = Date.now();
    const run = new AnswerRun({conversation, message, view, model: this.app.model(), save: () => this.save(conversation)});
    this.runs.set(conversation.id, run);
    this.draw();
    this.save(conversation).then(() => this.app.on_conversation(conversation));
    this.scroll_to_end(false);
    announce('The answer begins');
    let key_missing = false;
    try {
      await run.run();
    } catch (error) {
      if (!error.needs_key) throw error;
      key_missing = true;
    }
    if (this.runs.get(conversation.id) === run) this.runs.delete(conversation.id);
    if (this.conversation === conversation) this.draw();
    if (key_missing) return this.ask_for_key(message);
    announce(message.error ? 'The answer failed' : message.stopped ? 'Stopped' : 'The answer is complete');
  }

  async ask_for_key(message) {
    const given = await ask_key(message.key_asked === true);
    if (!given) {
      message.error = {message: 'The server asks for an API key.'};
      this.views.get(message.id)?.show_end();
      return;
    }
    set_key(given.key, given.keep);
    message.key_asked = true;
    this.app.on_key();
    await this.answer_into(message);
    delete message.key_asked;
  }

  stop() {
    this.running?.stop();
  }

  /** Before a conversation is removed: what still writes into it must not bring it back. */
  forget(id) {
    const run = this.runs.get(id);
    if (!run) return;
    run.save = () => {};
    run.stop();
  }

  save(conversation) {
    return this.app.store.save(conversation).catch(() => announce('The browser could not keep this conversation'));
  }
}
