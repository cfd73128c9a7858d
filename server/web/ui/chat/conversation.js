// A conversation: a tree of messages, of which one path is shown. Plain data, stored and exported as it is.
//
//   conversation {id, title, created, updated, system, settings, messages: {id: message}, chosen: {parent id: child id},
//                 context_from? (id of the first message that requests contain, after the oldest turns were dropped)}
//   message {id, parent (null: the first), role: 'user' | 'assistant', content, time, files?, reasoning?, reasoning_ms?,
//            tool_calls?, stats?, error?, model?, finish_reason?, stopped?, unfinished? (the response is being generated, or
//            its page was closed before it was complete)}
//   `file {name, text}`, or a media file (media.js)
// The key of the first message's parent in `chosen` is kRoot.

export const kRoot = 'root';
const kTitleLength = 60;

export function new_id() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function new_conversation({system = '', settings = {}} = {}) {
  const now = Date.now();
  return {id: new_id(), title: '', created: now, updated: now, system, settings: {...settings}, messages: {}, chosen: {}};
}

/** Adds a message below `parent` (null: at the beginning) and shows its branch. */
export function add_message(conversation, parent, role, fields) {
  const message = {id: new_id(), parent, role, content: '', time: Date.now(), ...fields};
  conversation.messages[message.id] = message;
  conversation.chosen[parent ?? kRoot] = message.id;
  if (!conversation.title && role === 'user') conversation.title = title_of(message);
  return message;
}

function title_of(message) {
  const line = message.content.trim().split('\n')[0].replace(/\s+/g, ' ') || message.files?.[0]?.name || 'New chat';
  return line.length <= kTitleLength ? line : `${line.slice(0, kTitleLength - 1).trimEnd()}…`;
}

/** The other messages in the place of one, oldest first, itself among them. */
export function siblings(conversation, message) {
  return Object.values(conversation.messages)
      .filter((other) => other.parent === message.parent)
      .sort((a, b) => a.time - b.time || (a.id < b.id ? -1 : 1));
}

/** The messages that are shown, first to last. */
export function path(conversation) {
  const messages = [];
  const seen = new Set();
  for (let key = kRoot; conversation.chosen[key] && !seen.has(key); key = conversation.chosen[key]) {
    const message = conversation.messages[conversation.chosen[key]];
    if (!message) break;
    seen.add(key);
    messages.push(message);
  }
  return messages;
}

export function choose(conversation, message) {
  conversation.chosen[message.parent ?? kRoot] = message.id;
}

/** The messages of the path that a request for `ending` (default: the last message) contains. */
export function sent_path(conversation, ending) {
  const shown = path(conversation);
  const last = ending ? shown.findIndex(({id}) => id === ending.id) : shown.length - 1;
  const first = Math.max(0, shown.findIndex(({id}) => id === conversation.context_from));
  return shown.slice(first, last + 1);
}

/**
 * Messages as the API takes them, up to `ending`; `media`: a Map of the data: URLs of their media files. Many templates insist that
 * roles alternate, so messages of one role in a row become one: a question without a response is sent with the next one.
 */
export function api_messages(conversation, ending, media) {
  const sent = [];
  if (conversation.system.trim()) sent.push({role: 'system', content: conversation.system});
  for (const message of sent_path(conversation, ending)) {
    const content = message.role === 'user' ? content_of(message, media) : message.content;
    const before = sent.at(-1);
    if (message.role === before?.role) before.content = joined(before.content, content);
    else if (message.role === 'user' || content) sent.push({role: message.role, content});
  }
  return sent;
}

const parts_of = (content) => (typeof content === 'string' ? [{type: 'text', text: content}] : content);

function joined(a, b) {
  return typeof a === 'string' && typeof b === 'string' ? `${a}\n\n${b}` : [...parts_of(a), ...parts_of(b)];
}

/** A string, or parts if there are media. */
function content_of(message, media) {
  const text = with_texts(message);
  const parts = media_files(message).map((file) => media_part(file, media.get(file.id)));
  if (parts.length === 0) return text;
  return text ? [...parts, {type: 'text', text}] : parts;
}

function media_part({name, kind, format}, url) {
  if (!url) throw new Error(`${name} is no longer in this browser's storage. Edit or delete its message, and attach it again.`);
  if (kind === 'image') return {type: 'image_url', image_url: {url}};
  return {type: 'input_audio', input_audio: {data: url.slice(url.indexOf(',') + 1), format}};
}

export function media_files({files = []}) {
  return files.filter(({kind}) => kind);
}

/** The ids of all media files of a conversation, or of the messages `among`. */
export function media_ids(conversation, among = Object.values(conversation.messages)) {
  return among.flatMap(media_files).map(({id}) => id);
}

/** A message's content, after the contents of its text files. */
export function with_texts({content, files = []}) {
  const parts = files.filter(({kind}) => !kind).map(({name, text}) => {
    let longest = 2;
    for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
    const fence = '`'.repeat(longest + 1);
    return `File: ${name}\n${fence}\n${text}\n${fence}`;
  });
  return [...parts, content].filter(Boolean).join('\n\n');
}

// The context.

const kMediaTokens = 300;

/** Estimates the tokens of a string. English has four letters a token, other scripts less than two. */
export function estimate_tokens(text) {
  let n_ascii = 0;
  for (const [run] of text.matchAll(/[\0-\x7f]+/g)) n_ascii += run.length;
  return Math.ceil(n_ascii / 4 + (text.length - n_ascii) / 1.5);
}

function estimate_message(message) {
  return 8 + estimate_tokens(with_texts(message)) + kMediaTokens * media_files(message).length;
}

/** Names the messages of a request up to one: figures of a response hold while its request would be the same. */
export function request_name(sent) {
  return `${sent.length} ${sent[0]?.id} ${sent.at(-1)?.id}`;
}

/** {n, exact}: the tokens of the context that the conversation takes; exact where the server has counted all of them. */
export function context_used(conversation) {
  const sent = sent_path(conversation);
  const at = sent.findLastIndex(({stats}, i) => stats?.n_context && stats.request === request_name(sent.slice(0, i + 1)));
  const counted = at < 0 ? estimate_tokens(conversation.system) : sent[at].stats.n_context;
  const rest = sent.slice(at + 1).reduce((sum, message) => sum + estimate_message(message), 0);
  return {n: sent.length ? counted + rest : 0, exact: rest === 0};
}

/**
 * Leaves the oldest turns before `ending` out of requests until about `most` tokens remain, and at least one turn. The system prompt
 * stays, and the messages remain stored. Returns how many messages were left out; 0: only the last turn remains.
 */
export function drop_oldest_turns(conversation, ending, most) {
  const sent = sent_path(conversation, ending);
  let n_left = estimate_tokens(conversation.system) + sent.reduce((sum, message) => sum + estimate_message(message), 0);
  let n_dropped = 0;
  for (let i = 1; i < sent.length && (n_dropped === 0 || n_left > most); ++i) {
    n_left -= estimate_message(sent[i - 1]);
    if (sent[i].role === 'user' && sent[i - 1].role === 'assistant') n_dropped = i;
  }
  if (n_dropped > 0) conversation.context_from = sent[n_dropped].id;
  return n_dropped;
}

// Deleting.

/**
 * Deletes a message, one of a user with its responses, and joins its successors to its predecessor. Returns a function that undoes it.
 */
export function delete_message(conversation, message) {
  const {messages, chosen} = conversation;
  const all = Object.values(messages);
  const gone = message.role === 'user' ? [message, ...all.filter(({parent, role}) => parent === message.id && role === 'assistant')] : [message];
  const is_gone = (id) => gone.some((one) => one.id === id);
  const other = siblings(conversation, message).findLast(({id}) => id !== message.id);
  const heir = message.role === 'assistant' && other ? other.id : message.parent;  // Takes the successors.
  const moved = all.filter(({id, parent}) => is_gone(parent) && !is_gone(id)).map((child) => ({child, parent: child.parent}));
  const before = {chosen: {...chosen}, context_from: conversation.context_from};
  let next = chosen[message.id];
  while (next && is_gone(next)) next = chosen[next];
  for (const {child} of moved) child.parent = heir;
  for (const {id} of gone) {
    delete messages[id];
    delete chosen[id];
  }
  const choose_below = (parent, id) => {
    if (id) chosen[parent ?? kRoot] = id;
    else if (!messages[chosen[parent ?? kRoot]]) delete chosen[parent ?? kRoot];
  };
  if (heir !== message.parent) choose_below(message.parent, heir);
  choose_below(heir, next ?? (heir === message.parent ? other?.id : undefined));
  if (is_gone(conversation.context_from)) conversation.context_from = next;
  return () => {
    for (const one of gone) messages[one.id] = one;
    for (const {child, parent} of moved) child.parent = parent;
    Object.assign(chosen, before.chosen);
    conversation.context_from = before.context_from;
  };
}
