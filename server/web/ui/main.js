// The page: puts its parts together, follows the address (#, #c/ID, #live), and keeps an eye on the server.
import {get_json, health, set_key} from './api.js';
import {ChatPage} from './chat/chat_page.js';
import {open_settings} from './chat/settings_sheet.js';
import {n_changed, save_defaults} from './chat/settings.js';
import {Sidebar} from './chat/sidebar.js';
import {Store} from './chat/store.js';
import {el, icon, icon_button} from './dom.js';
import {LivePage} from './live/live_page.js';
import {announce, ask_key, open_menu} from './surfaces.js';

const kModelName = 'weft.model';
const kThemeName = 'weft.theme';
const kThemes = {auto: 'System', light: 'Light', dark: 'Dark'};
const kThemeIcons = {auto: 'auto', light: 'sun', dark: 'moon'};
const kNarrow = matchMedia('(max-width: 860px)');

class App {
  constructor(store) {
    this.store = store;
    this.models_ = [];
    this.props = {};
    this.chat = new ChatPage({
      store, model: () => this.model(), context_size: () => this.props.n_ctx ?? 0,
      on_conversation: (conversation) => this.conversation_changed(conversation), on_key: () => this.read_server(),
      on_response: () => { if (this.props.model !== this.model()) this.read_props(); },  // The model is loaded now.
    });
    this.live = new LivePage();
    this.sidebar = new Sidebar(store, {
      create: () => this.create(),
      removing: (id) => this.chat.forget(id),
      removed: (id) => { if (this.chat.conversation.id === id) this.create(); },
      restored: (id) => { location.hash = `#c/${id}`; },
      renamed: (id, title) => this.rename(id, title),
    });
    store.on_change = (id, growing) => {
      this.sidebar.refresh();
      this.chat.changed_elsewhere(id, growing);
    };
    this.sidebar.node.append(this.sidebar_foot());
    this.build();
  }

  build() {
    this.menu_button = icon_button('menu', 'Conversations', () => this.toggle_sidebar(), {'aria-controls': 'sidebar'});
    this.model_slot = el('div', {class: 'model-slot'});
    this.heading = el('h1', {class: 'conversation-title', dir: 'auto', hidden: true});
    this.changed = el('span', {class: 'badge', hidden: true});
    this.parameters = icon_button('sliders', 'Parameters', () => this.open_parameters());
    this.parameters.append(this.changed);
    this.share = icon_button('share', 'Share or export', () => open_menu(this.share, this.sidebar.share_items(this.chat.conversation.id)), {'aria-haspopup': 'menu', hidden: true});
    this.new_button = icon_button('compose', 'New chat (Ctrl Shift O)', () => this.create(), {class: 'icon-button when-closed'});
    this.back = el('a', {class: 'side-link back', href: '#'}, icon('chat'), 'Chat');
    this.topbar = el('header', {class: 'topbar'}, this.menu_button, this.new_button, this.back, el('div', {class: 'heading'}, this.heading, this.model_slot), this.share, this.parameters);
    this.banner = el('div', {class: 'banner', role: 'status', hidden: true});
    this.main = el('main', {class: 'main', id: 'main'}, this.topbar, this.banner, this.chat.node, this.live.node);
    this.scrim = el('div', {class: 'scrim', onclick: () => this.close_drawer()});
    this.root = document.getElementById('app');
    this.root.append(el('a', {class: 'skip', href: '#message', onclick: (event) => { event.preventDefault(); this.chat.composer.focus(); }}, 'Skip to the message'),
                     this.sidebar.node, this.scrim, this.main);
    this.root.classList.toggle('closed', kNarrow.matches || localStorage.getItem('weft.sidebar') === 'closed');
    kNarrow.addEventListener('change', () => this.root.classList.toggle('closed', kNarrow.matches));
    this.sidebar_state();
    document.addEventListener('keydown', (event) => this.key(event));
    addEventListener('hashchange', () => {
      document.querySelectorAll('dialog[open]').forEach((dialog) => dialog.close());
      this.route();
    });
  }

  sidebar_foot() {
    this.live_link = el('a', {class: 'side-link', href: '#live'}, icon('pulse'), 'Live');
    this.theme_button = el('button', {type: 'button', class: 'icon-button', onclick: () => this.next_theme()});
    this.show_theme();
    return el('div', {class: 'sidebar-foot'}, this.live_link, el('span', {class: 'spring'}), this.theme_button);
  }

  // The server.

  model() {
    return this.model_ ?? this.models_[0]?.id ?? 'default';
  }

  /** Waits until the model is loaded, then reads the models and their properties. */
  async start() {
    await this.sidebar.refresh();
    await this.route();
    for (;;) {
      const state = await health();
      if (state.ready) break;
      this.chat.composer.set_ready(false);
      this.show_loading(state);
      await new Promise((resolve) => setTimeout(resolve, state.reached && !state.refused ? 500 : 2000));
    }
    this.banner.hidden = true;
    this.chat.composer.set_ready(true);
    await this.read_server();
  }

  show_loading({progress, reached, refused, problem}) {
    const text = !reached ? 'The server cannot be reached. Trying again.' : refused ? problem : problem ? `The server has no model: ${problem}` : 'The model is being loaded';
    const is_new = this.banner.hidden || this.banner_text !== text;
    if (is_new) this.progress = el('progress', {max: 1, 'aria-label': text});
    if (is_new) this.show_banner(text, reached && !problem ? this.progress : null, this.percent = el('span', {class: 'percent', 'aria-hidden': 'true'}));
    if (progress === null) this.progress.removeAttribute('value');
    else this.progress.value = progress;
    this.percent.textContent = progress === null ? '' : `${Math.round(progress * 100)} %`;
  }

  show_banner(text, ...more) {
    this.banner_text = text;
    this.banner.replaceChildren(el('span', {}, text), ...more.filter(Boolean));
    this.banner.hidden = false;
  }

  /** Asks for a key only where the server wants one (401); other refusals are shown as the server words them. */
  async read_server(wrong = false) {
    try {
      const models = await get_json('/v1/models');
      this.models_ = Array.isArray(models.data) ? models.data : [];
    } catch (error) {
      if (!error.needs_key) return this.show_banner(error.message);
      const given = await ask_key(wrong);
      if (!given) return this.show_banner('The server needs an API key: Parameters, API key.');
      set_key(given.key, given.keep);
      return this.read_server(true);
    }
    this.banner.hidden = true;
    const wanted = localStorage.getItem(kModelName);
    this.model_ = this.models_.some(({id}) => id === wanted) ? wanted : this.models_[0]?.id;
    this.show_models();
    return this.read_props();
  }

  /** The context and the modalities of the chosen model. The server returns another model's while that one is not loaded. */
  async read_props() {
    const name = this.model();
    const props = await get_json(`/props?model=${encodeURIComponent(name)}`).catch(() => ({}));
    if (name !== this.model()) return;
    this.props = {...props, n_ctx: props.n_ctx ?? props.default_generation_settings?.n_ctx ?? 0};
    this.note_model();
  }

  show_models() {
    const names = this.models_.map(({id}) => id);
    if (names.length > 1) {
      const select = el('select', {class: 'model-picker', 'aria-label': 'Model', onchange: () => {
        this.model_ = select.value;
        localStorage.setItem(kModelName, select.value);
        this.read_props();
      }}, names.map((name) => el('option', {value: name}, name)));
      select.value = this.model();
      this.model_slot.replaceChildren(select, icon('down'));
    } else {
      this.model_slot.replaceChildren(el('span', {class: 'model-name'}, names[0] ?? ''));
    }
    this.note_model();
  }

  note_model() {
    const kept = this.store.lasting ? 'Conversations are stored in this browser.' : 'This window stores nothing: conversations are lost when it is closed.';
    const known = !this.props.model || this.props.model === this.model();
    this.chat.set_model(`Model: ${this.model()}. ${kept}`, known ? this.props.modalities ?? {} : {});
  }

  // Where we are.

  async route() {
    const hash = location.hash.slice(1);
    const live = hash === 'live';
    this.live.node.hidden = !live;
    this.chat.node.hidden = live;
    this.parameters.hidden = live;
    this.heading.parentNode.hidden = live;
    this.root.classList.toggle('at-live', live);
    if (live) this.live_link.setAttribute('aria-current', 'page');
    else this.live_link.removeAttribute('aria-current');
    if (live) {
      document.title = 'Live · weft';
      const {id, messages} = this.chat.conversation;
      this.back.href = Object.keys(messages).length > 0 ? `#c/${id}` : '#';
      this.live.start();
      this.sidebar.set_current(null);
      this.share.hidden = true;
    } else {
      this.live.stop();
      const id = /^c\/([0-9a-f]+)$/.exec(hash)?.[1];
      if (id && !await this.chat.open(id)) history.replaceState(null, '', '#');
      if (!location.hash.startsWith('#c/') && Object.keys(this.chat.conversation.messages).length > 0) this.chat.open_new();
      this.conversation_changed(this.chat.conversation);
    }
    if (kNarrow.matches) this.close_drawer();
    if (!live && !kNarrow.matches) this.chat.composer.focus();
  }

  create() {
    if (location.hash && location.hash !== '#') location.hash = '#';
    else this.chat.open_new();
    if (kNarrow.matches) this.close_drawer();
    this.chat.composer.focus();
  }

  /** A conversation was opened, began, or has a new message. */
  conversation_changed(conversation) {
    if (this.chat.conversation !== conversation) return void this.sidebar.refresh();
    const begun = Object.keys(conversation.messages).length > 0;
    if (location.hash !== '#live') {
      if (begun && location.hash !== `#c/${conversation.id}`) history.replaceState(null, '', `#c/${conversation.id}`);
      document.title = begun && conversation.title ? `${conversation.title} · weft` : 'weft';
    }
    this.sidebar.set_current(begun ? conversation.id : null);
    this.show_title();
    this.show_changed();
    this.sidebar.refresh();
  }

  /** The heading of a conversation; an empty one has its own. */
  show_title() {
    const {messages, title} = this.chat.conversation;
    const begun = Object.keys(messages).length > 0;
    this.heading.hidden = !begun;
    this.heading.textContent = this.heading.title = title || 'New chat';
    this.share.hidden = !begun || location.hash === '#live';
  }

  async rename(id, title) {
    const shown = this.chat.conversation.id === id ? this.chat.conversation : this.chat.runs.get(id)?.conversation;
    const conversation = shown ?? await this.store.load(id);
    if (!conversation) return;
    conversation.title = title;
    await this.store.save(conversation);
    if (shown !== this.chat.conversation) return;
    document.title = `${title} · weft`;
    this.show_title();
  }

  // Parameters, theme, sidebar, keys.

  open_parameters() {
    const {conversation} = this.chat;
    const defaults = this.props.default_generation_settings?.params ?? this.props.default_generation_settings ?? {};
    open_settings({
      conversation, defaults, caps: this.props.chat_template_caps ?? {},
      on_change: () => {
        save_defaults(conversation.system, conversation.settings);
        this.show_changed();
      },
      on_key: () => this.read_server(),
      onclose: () => {
        if (Object.keys(conversation.messages).length > 0) this.store.save(conversation).catch(() => {});
      },
    });
  }

  show_changed() {
    const {settings, system} = this.chat.conversation;
    const n = n_changed(settings) + (system.trim() ? 1 : 0);
    this.changed.hidden = n === 0;
    this.changed.textContent = n;
    this.parameters.setAttribute('aria-label', n ? `Parameters, ${n} set` : 'Parameters');
  }

  theme() {
    return document.documentElement.dataset.theme ?? 'auto';
  }

  next_theme() {
    const names = Object.keys(kThemes);
    const next = names[(names.indexOf(this.theme()) + 1) % names.length];
    if (next === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    localStorage.setItem(kThemeName, next);
    this.show_theme();
    this.live.theme_changed();
    announce(`Colours: ${kThemes[next]}`);
  }

  show_theme() {
    const label = `Colours: ${kThemes[this.theme()]}`;
    this.theme_button.replaceChildren(icon(kThemeIcons[this.theme()]));
    this.theme_button.title = label;
    this.theme_button.setAttribute('aria-label', label);
  }

  toggle_sidebar() {
    this.root.classList.toggle('closed');
    if (!kNarrow.matches) localStorage.setItem('weft.sidebar', this.root.classList.contains('closed') ? 'closed' : 'open');
    this.sidebar_state();
    if (kNarrow.matches && !this.root.classList.contains('closed')) this.sidebar.node.querySelector('.new-chat').focus();
  }

  close_drawer() {
    this.root.classList.add('closed');
    this.sidebar_state();
  }

  sidebar_state() {
    const open = !this.root.classList.contains('closed');
    this.menu_button.setAttribute('aria-expanded', String(open));
    this.sidebar.node.inert = !open;
    this.main.inert = open && kNarrow.matches;
  }

  key(event) {
    const command = event.ctrlKey || event.metaKey;
    if (command && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      if (this.root.classList.contains('closed')) this.toggle_sidebar();
      this.sidebar.focus_search();
    } else if (command && event.shiftKey && event.key.toLowerCase() === 'o') {
      event.preventDefault();
      this.create();
    } else if (event.key === 'Escape' && !document.querySelector('dialog[open], .menu')) {
      if (kNarrow.matches && !this.root.classList.contains('closed')) {
        this.close_drawer();
        this.menu_button.focus();
      } else {
        this.chat.stop();
      }
    }
  }
}

const app = new App(await Store.open());
app.start();
