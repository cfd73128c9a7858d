// Conversations in the browser's IndexedDB; where that is denied (some private windows), in memory. Heads (title and
// times) lie apart from bodies, so that the list of thousands is read at once.

const kDatabase = 'weft';

export class Store {
  /** Never rejects. */
  static async open() {
    const store = new Store();
    try {
      store.db = await open_database();
    } catch {
      store.memory = new Map();
    }
    store.channel = typeof BroadcastChannel === 'function' ? new BroadcastChannel('weft.conversations') : null;
    if (store.channel) store.channel.onmessage = ({data}) => store.on_change?.(data);
    return store;
  }

  constructor() {
    this.db = null;
    this.memory = null;
    this.channel = null;
    this.on_change = null;  // Called with an id when another tab has changed it.
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

  async save(conversation) {
    if (this.memory) {
      this.memory.set(conversation.id, structuredClone(conversation));
      return;
    }
    const transaction = this.db.transaction(['heads', 'bodies'], 'readwrite');
    transaction.objectStore('heads').put(head_of(conversation));
    transaction.objectStore('bodies').put(conversation);
    await finished(transaction);
    this.channel?.postMessage(conversation.id);
  }

  async remove(id) {
    if (this.memory) {
      this.memory.delete(id);
      return;
    }
    const transaction = this.db.transaction(['heads', 'bodies'], 'readwrite');
    transaction.objectStore('heads').delete(id);
    transaction.objectStore('bodies').delete(id);
    await finished(transaction);
    this.channel?.postMessage(id);
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

function open_database() {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(kDatabase, 1);
    opening.onupgradeneeded = () => {
      opening.result.createObjectStore('heads', {keyPath: 'id'});
      opening.result.createObjectStore('bodies', {keyPath: 'id'});
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
