// The list of conversations: open, search, rename, export, delete, import.
import {append, el, icon, icon_button, mark} from '../dom.js';
import {announce, copy_text, file_name, open_menu, save_file, toast, toast_slot} from '../surfaces.js';
import {media_ids} from './conversation.js';
import {from_json, to_json, to_markdown} from './transfer.js';

const kMaxImport = 64 * 1024 * 1024;
const kDay = 24 * 3600 * 1000;

function group_of(time) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (time >= midnight) return 'Today';
  if (time >= midnight - kDay) return 'Yesterday';
  if (time >= midnight - 7 * kDay) return 'This week';
  if (time >= midnight - 30 * kDay) return 'This month';
  return new Date(time).toLocaleDateString('en', {month: 'long', year: 'numeric'});
}

/**
 * `on`: {create(), removing(id) (returns the conversation if it is open), removed(id), restored(id), renamed(id, title)}.
 */
export class Sidebar {
  constructor(store, on) {
    this.store = store;
    this.on = on;
    this.current = null;
    this.searching = null;
    this.list = el('nav', {class: 'conversations', 'aria-label': 'Conversations'});
    this.input = el('input', {type: 'search', class: 'search-field', placeholder: 'Search', 'aria-label': 'Search conversations',
                              oninput: () => this.search(), onkeydown: (event) => { if (event.key === 'Escape') this.end_search(event); }});
    this.picker = el('input', {type: 'file', accept: '.json,application/json', hidden: true, tabindex: '-1', 'aria-hidden': 'true', onchange: () => this.import_file()});
    const more = icon_button('more', 'Import and export', () => this.library_menu(more), {'aria-haspopup': 'menu'});
    this.node = el('aside', {class: 'sidebar', id: 'sidebar', 'aria-label': 'Conversations'},
      el('div', {class: 'sidebar-head'}, el('a', {class: 'brand', href: '#', 'aria-label': 'weft: new chat'}, mark(), el('span', {}, 'weft')), el('span', {class: 'spring'}), more),
      el('button', {type: 'button', class: 'new-chat', title: 'New chat (Ctrl Shift O)', onclick: () => on.create()}, icon('compose'), 'New chat'),
      el('label', {class: 'search'}, icon('search'), this.input, el('kbd', {'aria-hidden': 'true'}, 'Ctrl K')),
      this.list, this.picker, toast_slot());
  }

  set_current(id) {
    this.current = id;
    for (const row of this.list.querySelectorAll('[data-id]')) this.mark_row(row);
  }

  mark_row(row) {
    const here = row.dataset.id === this.current;
    row.classList.toggle('current', here);
    const link = row.querySelector('a');
    if (here) link?.setAttribute('aria-current', 'page');
    else link?.removeAttribute('aria-current');
  }

  focus_search() {
    this.input.focus();
    this.input.select();
  }

  async refresh() {
    const heads = await this.store.heads();
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = null;
    if (words.length > 0) {
      this.searching?.abort();
      const search = this.searching = new AbortController();
      found = await this.store.search(words, search.signal);
      if (search.signal.aborted) return;
      announce(`${Object.keys(found).length} conversations found`);
    }
    const nodes = [];
    let group = null;
    for (const head of heads) {
      if (found && !(head.id in found)) continue;
      const name = group_of(head.updated);
      if (name !== group) {
        group = name;
        nodes.push(el('h2', {}, name));
      }
      nodes.push(this.row(head, found?.[head.id]));
    }
    if (nodes.length === 0) nodes.push(el('p', {class: 'note'}, found ? 'No conversations found.' : 'Conversations are stored in this browser and appear here.'));
    this.list.replaceChildren();
    append(this.list, nodes);
  }

  row({id, title}, excerpt) {
    const more = icon_button('more', `More for ${title}`, () => this.menu(more, id, title), {'aria-haspopup': 'menu'});
    const row = el('div', {class: 'conversation', data: {id}},
                   el('a', {href: `#c/${id}`, dir: 'auto', title}, el('span', {}, title || 'New chat'), excerpt ? el('small', {}, excerpt) : null), more);
    this.mark_row(row);
    return row;
  }

  menu(button, id, title) {
    open_menu(button, [{label: 'Rename', icon: 'edit', action: () => this.rename(id, title)}, ...this.share_items(id),
                       {label: 'Delete', icon: 'trash', danger: true, action: () => this.remove(id, title)}]);
  }

  /** Rows of a menu that give a conversation away. */
  share_items(id) {
    const share = {label: 'Share', icon: 'share', action: () => this.share(id)};
    return [...(navigator.share ? [share] : []),
            {label: 'Copy as Markdown', icon: 'copy', action: () => this.copy(id)},
            {label: 'Export as Markdown', icon: 'download', action: () => this.export_one(id, 'md')},
            {label: 'Export as JSON', icon: 'download', action: () => this.export_one(id, 'json')}];
  }

  async share(id) {
    const conversation = await this.store.load(id);
    if (!conversation) return;
    try {
      await navigator.share({title: conversation.title, text: to_markdown(conversation)});
    } catch (error) {
      if (error.name !== 'AbortError') toast('The browser did not share the conversation. Export it instead.');
    }
  }

  async copy(id) {
    const conversation = await this.store.load(id);
    if (conversation && await copy_text(to_markdown(conversation))) toast('The conversation was copied as Markdown.');
  }

  library_menu(button) {
    open_menu(button, [
      {label: 'Import conversations', icon: 'upload', action: () => this.picker.click()},
      {label: 'Export all as JSON', icon: 'download', action: () => this.export_all()},
    ]);
  }

  rename(id, title) {
    const row = this.list.querySelector(`[data-id="${id}"]`);
    if (!row) return;
    const input = el('input', {class: 'field rename', value: title, 'aria-label': 'New title', dir: 'auto', maxlength: '200'});
    let over = false;
    const finish = async (keep) => {
      if (over) return;
      over = true;
      const text = input.value.trim();
      if (keep && text && text !== title) await this.on.renamed(id, text);
      await this.refresh();
      this.list.querySelector(`[data-id="${id}"] a`)?.focus();
    };
    input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' || event.key === 'Escape') {
        event.stopPropagation();
        finish(event.key === 'Enter');
      }
    });
    input.addEventListener('blur', () => finish(true));
    row.replaceChildren(input);
    input.focus();
    input.select();
  }

  /** Deletes at once; the toast takes it back. */
  async remove(id, title) {
    const conversation = this.on.removing(id) ?? await this.store.load(id);
    if (!conversation) return;
    const media = await this.store.load_media(media_ids(conversation));
    await this.store.remove(conversation);
    await this.refresh();
    this.on.removed(id);
    toast(`“${title || 'New chat'}” was deleted.`, {label: 'Undo', act: () => this.restore(conversation, media)});
  }

  async restore(conversation, media) {
    await this.keep(conversation, media);
    await this.refresh();
    this.on.restored(conversation.id);
  }

  keep(conversation, media) {
    return Promise.all([this.store.save(conversation), this.store.save_media(media)]);
  }

  async export_one(id, kind) {
    const conversation = await this.store.load(id);
    if (!conversation) return;
    if (kind === 'md') save_file(file_name(conversation.title, 'md'), 'text/markdown', to_markdown(conversation));
    else save_file(file_name(conversation.title, 'json'), 'application/json', await this.json_of([conversation]));
  }

  async export_all() {
    save_file('weft-conversations.json', 'application/json', await this.json_of(await this.store.load_all()));
  }

  async json_of(conversations) {
    return to_json(conversations, await this.store.load_media(conversations.flatMap((one) => media_ids(one))));
  }

  async import_file() {
    const [file] = this.picker.files;
    this.picker.value = '';
    if (!file) return;
    try {
      if (file.size > kMaxImport) throw new Error('The file is larger than 64 MB.');
      const imported = from_json(await file.text());
      for (const {conversation, media} of imported) await this.keep(conversation, media);
      toast(`${imported.length} ${imported.length === 1 ? 'conversation was' : 'conversations were'} imported.`);
    } catch (error) {
      toast(`${file.name} was not imported completely. ${error.name === 'QuotaExceededError' ? 'The browser has no room; delete conversations.' : error.message}`);
    }
    await this.refresh();
  }

  search() {
    clearTimeout(this.search_timer);
    this.search_timer = setTimeout(() => this.refresh(), 120);
  }

  end_search(event) {
    if (!this.input.value) return;
    event.stopPropagation();
    this.input.value = '';
    this.refresh();
  }
}
