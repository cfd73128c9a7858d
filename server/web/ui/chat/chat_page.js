// The page of a conversation: its messages, the composer, and the responses that are being generated.
import {el, icon, icon_button, mark} from '../dom.js';
import {code_buttons_in} from '../markdown/code_view.js';
import {announce, ask_key, toast, toast_slot} from '../surfaces.js';
import {set_key} from '../api.js';
import {Composer, accept_drops} from './composer.js';
import {add_message, choose, context_used, delete_message, drop_oldest_turns, media_ids, new_conversation, path, siblings} from './conversation.js';
import {Generation} from './generation.js';
import {MessageView} from './message_view.js';
import {load_defaults} from './settings.js';

const kDrawnAtOnce = 8;
const kNearEnd = 40;
const kPointer = matchMedia('(hover: hover)');
const kDropTo = 0.7;  // Share of the context that is left filled: the response needs room.
const kDropMore = 0.75;  // Factor of that share each time the estimate was too low.

const kStorageFull = 'This browser has no room for these images and audio: they are lost when the page is closed. Delete conversations to make room.';

const kStarters = [
  ['Explain', 'how a hash map works, with an ASCII diagram'],
  ['Write', 'a Python script that finds duplicate files'],
  ['Compare', 'TCP and UDP in a table'],
  ['Derive', 'the quadratic formula, step by step'],
];

/** `app`: {store, model(), context_size(), on_conversation(conversation), on_response(), on_key()}. */
export class ChatPage {
  constructor(app) {
    this.app = app;
    this.conversation = new_conversation(load_defaults());
    this.views = new Map();
    this.runs = new Map();  // Conversation's id to Generation.
    this.leaving = false;
    this.growing_elsewhere = null;  // The id of a conversation whose response another tab generates.
    this.follow = true;
    this.composer = new Composer({send: (message) => this.send(message), stop: () => this.stop(), edit_last: () => this.edit_last()});
    this.list = el('div', {class: 'thread', role: 'log', 'aria-live': 'off', 'aria-label': 'Conversation'});
    this.empty = this.empty_node();
    this.scroller = el('div', {class: 'scroller', tabindex: '-1'}, this.empty, this.list);
    this.to_end = icon_button('down', 'To the end', () => this.scroll_to_end(true), {class: 'icon-button to-end', hidden: true});
    this.node = el('section', {class: 'chat', 'aria-label': 'Chat'}, this.scroller, el('div', {class: 'dock'}, this.to_end, toast_slot(), this.composer.node),
                   el('div', {class: 'drop-hint', 'aria-hidden': 'true'}, icon('file'), 'Drop files to attach them'));
    this.scroller.addEventListener('scroll', () => this.scrolled(), {passive: true});
    new ResizeObserver(() => { if (this.follow) this.scroll_to_end(false); }).observe(this.list);
    code_buttons_in(this.list);
    accept_drops(this.node, this.composer);
    // A hidden page may be closed or discarded without another event.
    document.addEventListener('visibilitychange', () => document.hidden && this.save_running());
    addEventListener('pagehide', () => this.leave());
    addEventListener('pageshow', () => { this.leaving = false; });
    this.draw();
  }

  save_running() {
    for (const run of this.runs.values()) run.save();
  }

  /** A page that is being closed sees its connections fail: its responses are stored as unfinished, not as failed. */
  leave() {
    this.save_running();
    this.leaving = true;
  }

  get running() {
    return this.runs.get(this.conversation.id) ?? null;
  }

  // The conversation that is shown.

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

  set_model(note, modalities) {
    this.empty_note.textContent = note;
    this.composer.set_modalities(modalities);
    this.show_context();
    this.views.forEach((view) => view.refresh());
  }

  /** Another tab has stored a conversation; `growing`: it generates a response there. */
  async changed_elsewhere(id, growing) {
    if (this.conversation.id !== id || this.runs.has(id) || this.list.querySelector('.editing')) return;
    const fresh = await this.app.store.load(id);
    if (!fresh || this.conversation.id !== id || this.runs.has(id)) return;
    this.growing_elsewhere = growing ? id : null;
    const {follow} = this;
    const top = this.scroller.scrollTop;
    this.show(fresh);
    if (!follow) this.scroller.scrollTo({top, behavior: 'instant'});
    this.follow = follow;
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
    this.draw_context_start(messages);
    this.composer.set_busy(run !== null);
    this.show_context();
  }

  /** Marks the first message that requests contain, if older turns were dropped. */
  draw_context_start(messages) {
    const at = messages.findIndex(({id}) => id === this.conversation.context_from);
    this.views.forEach((view) => view.set_context_start(null));
    if (at < 1) return;
    this.views.get(messages[at].id).set_context_start(`Requests leave out the ${at === 1 ? 'message' : `${at} messages`} above, which the context had no room for.`, () => {
      delete this.conversation.context_from;
      this.draw();
      this.save(this.conversation);
    });
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
      go_on: (message) => this.generate_into(message),
      drop_turns: (message) => this.drop_turns(message),
      remove: (message) => this.remove(message),
      is_full: ({finish_reason, stats}) => finish_reason === 'length' && stats?.n_context >= this.app.context_size() - 1 && this.app.context_size() > 0,
      is_growing_elsewhere: () => this.growing_elsewhere === this.conversation.id,
      load_media: (ids) => this.app.store.load_media(ids),
      choose: (message) => {
        choose(this.conversation, message);
        this.draw();
        this.save(this.conversation);
      },
    };
  }

  show_context() {
    this.composer.set_context({...context_used(this.conversation), total: this.app.context_size()});
  }

  scrolled() {
    const {scrollTop, scrollHeight, clientHeight} = this.scroller;
    const left = scrollHeight - scrollTop - clientHeight;
    // Growing content scrolls too, so only scrolling up ends the following.
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

  // Actions of the user.

  send({content, files}) {
    const last = path(this.conversation).at(-1);
    const media = files.filter(({kind}) => kind);
    // The message names its media, whose bytes are stored once.
    const named = files.map(({url, ...file}) => file);
    const message = add_message(this.conversation, last?.id ?? null, 'user', {content, ...(named.length && {files: named})});
    this.app.store.save_media(new Map(media.map(({id, url}) => [id, url]))).catch(() => toast(kStorageFull));
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

  /** Another version of a response; one without a token is replaced. */
  retry(message) {
    if (this.running) return;
    const question = this.conversation.messages[message.parent];
    if ((message.error || message.unfinished) && !message.content && !message.reasoning) {
      delete this.conversation.messages[message.id];
      this.views.delete(message.id);
    }
    if (question) this.ask(question);
  }

  ask(question) {
    const message = add_message(this.conversation, question.id, 'assistant', {model: this.app.model()});
    return this.generate_into(message);
  }

  /** Leaves the oldest turns out of requests, and asks again until the request fits. */
  async drop_turns(message) {
    const {conversation} = this;
    if (this.running) return;
    let n_most = kDropTo * (this.app.context_size() || context_used(conversation).n);
    let too_long = null;
    do {
      if (drop_oldest_turns(conversation, message, n_most) === 0) {
        too_long ??= message.error?.message;
        message.error = {message: `${too_long ? `${too_long} ` : ''}Only this turn is left. Shorten the message or the system prompt, or start the server with a larger --ctx-size.`};
        if (this.conversation === conversation) this.draw();
        this.views.get(message.id)?.show_end();
        return void this.save(conversation);
      }
      too_long = message.error?.message;
      n_most *= kDropMore;
      await this.generate_into(message, conversation);
    } while (message.error?.too_long);
  }

  async remove(message) {
    const {conversation} = this;
    const {store} = this.app;
    if (this.running) return;
    const before = media_ids(conversation);
    const undo = delete_message(conversation, message);
    const kept = new Set(media_ids(conversation));
    const lost = before.filter((id) => !kept.has(id));
    this.redraw(conversation);
    if (kPointer.matches) this.composer.focus();  // On a phone that opens the keyboard.
    const media = await store.load_media(lost);
    toast(message.role === 'user' ? 'The message and its response were deleted.' : 'The response was deleted.', {label: 'Undo', act: () => {
      undo();
      this.redraw(conversation);
      store.save_media(media).catch(() => toast(kStorageFull));
    }});
    await store.remove_media(lost);
  }

  /** After messages were deleted or came back. */
  redraw(conversation) {
    if (this.conversation === conversation) this.draw();
    this.save(conversation).then(() => this.app.on_conversation(conversation));
  }

  async generate_into(message, conversation = this.conversation) {
    if (this.runs.has(conversation.id)) return;
    const view = this.views.get(message.id) ?? new MessageView(message, this.actions());
    this.views.set(message.id, view);
    conversation.updated = Date.now();
    const run = new Generation({
      conversation, message, view, model: this.app.model(), load_media: (ids) => this.app.store.load_media(ids),
      save: () => this.save(conversation, this.runs.get(conversation.id) === run && message.unfinished === true),
    });
    this.runs.set(conversation.id, run);
    message.unfinished = true;
    this.draw();
    this.save(conversation, true).then(() => this.app.on_conversation(conversation));
    this.scroll_to_end(false);
    announce('Generating a response');
    let key_missing = false;
    try {
      await run.run();
    } catch (error) {
      if (!error.needs_key) throw error;
      key_missing = true;
    }
    if (this.runs.get(conversation.id) === run) this.runs.delete(conversation.id);
    if (this.conversation === conversation) this.draw();
    if (this.leaving) return undefined;
    if (key_missing) return this.ask_for_key(message);
    this.app.on_response();
    run.count_context().then(() => this.show_context());
    announce(message.error ? 'The response failed' : message.stopped ? 'Stopped' : 'The response is complete');
  }

  async ask_for_key(message) {
    const given = await ask_key(message.key_asked === true);
    if (!given) {
      message.error = {message: 'The server needs an API key.'};
      this.views.get(message.id)?.show_end();
      return;
    }
    set_key(given.key, given.keep);
    message.key_asked = true;
    this.app.on_key();
    await this.generate_into(message);
    delete message.key_asked;
  }

  stop() {
    this.running?.stop();
  }

  /** Before a conversation is removed: a response that is being generated must not bring it back. Returns it if it is in use. */
  forget(id) {
    const run = this.runs.get(id);
    if (run) {
      run.save = () => {};
      run.stop();
    }
    return run?.conversation ?? (this.conversation.id === id ? this.conversation : null);
  }

  async save(conversation, growing = false) {
    if (this.leaving) return undefined;
    return this.app.store.save(conversation, growing).catch(() => {
      if (!this.warned) toast('This browser could not store the conversation. Export it, and delete others to make room.');
      this.warned = true;
    });
  }
}
