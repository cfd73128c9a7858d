// Conversations in the browser's IndexedDB; where that is denied (some private windows), in memory. Heads (title and
// times) are stored apart from bodies, so that the list of thousands is read at once. Media have a database of their own: a
// response that is being generated saves its conversation often, and images do not change.
import {media_ids} from './conversation.js';

const kDatabase = 'weft';
const kMediaDatabase = 'weft.media';

export class Store {
  /** Never rejects. */
  static async open() {
    const store = new Store();
    try {
      store.db = await open_database(kDatabase, {heads: {keyPath: 'id'}, bodies: {keyPath: 'id'}});
    } catch {
      store.memory = new Map();
    }
    store.channel = typeof BroadcastChannel === 'function' ? new BroadcastChannel('weft.conversations') : null;
    if (store.channel) store.channel.onmessage = ({data}) => store.on_change?.(data.id, data.growing);
    return store;
  }

  constructor() {
    this.db = null;
    this.memory = null;
    this.channel = null;
    this.media = new Map();  // Data: URLs by id, of the media that were used in this tab.
    this.on_change = null;  // Called with (id, growing) when another tab has changed a conversation.
  }

  get lasting() {
    return this.db !== null;
  }

  /** {id, title, created, updated}, latest first. */
  async heads() {
    const heads = this.memory ? [...this.memory.values()].map(head_of) : await this.all('heads');
    return heads.sort((a, b) => b.updated - a.updated);
  }

  async load(id) {
    if (this.memory) return structuredClone(this.memory.get(id) ?? null);
    return (await done(this.db.transaction('bodies').objectStore('bodies').get(id))) ?? null;
  }

  /** `growing`: a response of it is being generated. */
  async save(conversation, growing = false) {
    if (this.memory) {
      this.memory.set(conversation.id, structuredClone(conversation));
      return;
    }
    const transaction = this.db.transaction(['heads', 'bodies'], 'readwrite');
    transaction.objectStore('heads').put(head_of(conversation));
    transaction.objectStore('bodies').put(conversation);
    transaction.commit?.();  // A page that is being closed sees no events any more.
    await finished(transaction);
    this.channel?.postMessage({id: conversation.id, growing});
  }

  /** Its media as well. */
  async remove(conversation) {
    const {id} = conversation;
    if (this.memory) {
      this.memory.delete(id);
      return;
    }
    const transaction = this.db.transaction(['heads', 'bodies'], 'readwrite');
    transaction.objectStore('heads').delete(id);
    transaction.objectStore('bodies').delete(id);
    await finished(transaction);
    this.channel?.postMessage({id, growing: false});
    await this.remove_media(media_ids(conversation));
  }

  /** Keeps a Map of data: URLs by id. Rejects where the browser has no room; they remain in memory then. */
  async save_media(urls) {
    for (const [id, url] of urls) this.media.set(id, url);
    if (this.memory || urls.size === 0) return;
    navigator.storage?.persist?.().catch(() => {});  // Else a browser that is short of room may delete all conversations.
    const transaction = (await this.open_media()).transaction('urls', 'readwrite');
    for (const [id, url] of urls) transaction.objectStore('urls').put({id, url});
    await finished(transaction);
  }

  /** A Map of the data: URLs of those ids that are stored. */
  async load_media(ids) {
    const missing = ids.filter((id) => !this.media.has(id));
    if (missing.length > 0 && !this.memory) {
      const urls = (await this.open_media()).transaction('urls').objectStore('urls');
      for (const row of await Promise.all(missing.map((id) => done(urls.get(id))))) {
        if (row) this.media.set(row.id, row.url);
      }
    }
    return new Map(ids.filter((id) => this.media.has(id)).map((id) => [id, this.media.get(id)]));
  }

  async remove_media(ids) {
    for (const id of ids) this.media.delete(id);
    if (this.memory || ids.length === 0) return;
    const transaction = (await this.open_media()).transaction('urls', 'readwrite');
    for (const id of ids) transaction.objectStore('urls').delete(id);
    await finished(transaction);
  }

  open_media() {
    return this.media_db ??= open_database(kMediaDatabase, {urls: {keyPath: 'id'}});
  }

  async load_all() {
    return this.memory ? [...this.memory.values()] : this.all('bodies');
  }

  /** Ids of conversations whose text holds all the words, with the text around the first of them: {id: excerpt}. */
  async search(words, signal) {
    const found = {};
    const look = (conversation) => {
      const texts = [conversation.title, ...Object.values(conversation.messages).map((message) => message.content)];
      const lower = texts.map((text) => text.toLowerCase());
      if (!words.every((word) => lower.some((text) => text.includes(word)))) return;
      const at = lower.findIndex((text, i) => i > 0 && text.includes(words[0]));
      found[conversation.id] = at < 0 ? '' : excerpt(texts[at], lower[at].indexOf(words[0]));
    };
    if (this.memory) {
      this.memory.forEach(look);
      return found;
    }
    await new Promise((resolve, reject) => {
      const cursor = this.db.transaction('bodies').objectStore('bodies').openCursor();
      cursor.onerror = () => reject(cursor.error);
      cursor.onsuccess = () => {
        if (!cursor.result || signal?.aborted) return resolve();
        look(cursor.result.value);
        cursor.result.continue();
      };
    });
    return found;
  }

  all(name) {
    return done(this.db.transaction(name).objectStore(name).getAll());
  }
}

function head_of({id, title, created, updated}) {
  return {id, title, created, updated};
}

function excerpt(text, at) {
  const from = Math.max(0, at - 30);
  return `${from > 0 ? '…' : ''}${text.slice(from, at + 60).replace(/\s+/g, ' ')}`;
}

function open_database(name, stores) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => {
      for (const [store, options] of Object.entries(stores)) opening.result.createObjectStore(store, options);
    };
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
    opening.onblocked = () => reject(new Error('blocked'));
  });
}

function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function finished(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onerror = () => reject(transaction.error);
    transaction.onabort = () => reject(transaction.error);
  });
}
