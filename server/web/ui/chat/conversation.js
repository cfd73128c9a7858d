// A conversation: a tree of messages, of which one path is shown. Plain data (it is stored and exported as it is).
//
//   conversation {id, title, created, updated, system, settings, messages: {id: message}, chosen: {parent id: child id}}
//   message {id, parent (null: the first), role: 'user' | 'assistant', content, time, files?, reasoning?, reasoning_ms?,
//            tool_calls?, stats?, error?, model?, stopped?}
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

/**
 * Messages as the API takes them. `ending`: the last message of the path that counts. Roles take turns, as many templates
 * insist: what follows a question that was never answered goes with it.
 */
export function api_messages(conversation, ending) {
  const sent = [];
  if (conversation.system.trim()) sent.push({role: 'system', content: conversation.system});
  for (const message of path(conversation)) {
    const content = message.role === 'user' ? with_files(message) : message.content;
    if (message.role === sent.at(-1)?.role) sent.at(-1).content += `\n\n${content}`;
    else if (message.role === 'user' || content) sent.push({role: message.role, content});
    if (message === ending) break;
  }
  return sent;
}

function with_files({content, files = []}) {
  const parts = files.map(({name, text}) => {
    const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
    const fence = '`'.repeat(longest + 1);
    return `File: ${name}\n${fence}\n${text}\n${fence}`;
  });
  return [...parts, content].filter(Boolean).join('\n\n');
}

export function to_markdown(conversation) {
  const parts = [`# ${conversation.title || 'Conversation'}`, `_${new Date(conversation.created).toLocaleString()}_`];
  if (conversation.system.trim()) parts.push(`**System**\n\n${conversation.system}`);
  for (const message of path(conversation)) {
    parts.push(`## ${message.role === 'user' ? 'You' : message.model ?? 'Assistant'}`);
    if (message.reasoning) parts.push(`<details><summary>Reasoning</summary>\n\n${message.reasoning}\n\n</details>`);
    parts.push(message.role === 'user' ? with_files(message) : message.content);
  }
  return `${parts.join('\n\n')}\n`;
}

export const kExportFormat = 'weft-conversations';

export function to_json(conversations) {
  return JSON.stringify({format: kExportFormat, version: 1, exported: new Date().toISOString(), conversations}, null, 1);
}

/** Conversations of an exported file, checked, with new ids so that none is overwritten. Throws Error with the reason. */
export function from_json(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error('This is no JSON file.');
  }
  if (file?.format !== kExportFormat || !Array.isArray(file.conversations)) throw new Error('This is no export of weft.');
  return file.conversations.map(checked_conversation);
}

function checked_conversation(given) {
  const text = (value) => (typeof value === 'string' ? value : '');
  const number = (value, otherwise) => (Number.isFinite(value) ? value : otherwise);
  if (typeof given?.messages !== 'object' || given.messages === null) throw new Error('A conversation has no messages.');
  const made = new_conversation({system: text(given.system), settings: {}});
  made.title = text(given.title).slice(0, 200);
  made.created = number(given.created, made.created);
  made.updated = number(given.updated, made.updated);
  const ids = new Map(Object.keys(given.messages).map((id) => [id, new_id()]));
  for (const [id, message] of Object.entries(given.messages)) {
    if (message?.role !== 'user' && message?.role !== 'assistant') throw new Error('A message is neither of a user nor of an assistant.');
    made.messages[ids.get(id)] = {
      id: ids.get(id), parent: ids.get(message.parent) ?? null, role: message.role, content: text(message.content),
      time: number(message.time, made.created),
      ...(Array.isArray(message.files) && {files: message.files.slice(0, 50).map((file) => ({name: text(file?.name), text: text(file?.text)}))}),
      ...(typeof message.reasoning === 'string' && {reasoning: message.reasoning, reasoning_ms: number(message.reasoning_ms, null)}),
      ...(Array.isArray(message.tool_calls) && {tool_calls: message.tool_calls.map((call) => ({name: text(call?.name), arguments: text(call?.arguments)}))}),
      ...(typeof message.model === 'string' && {model: message.model}),
    };
  }
  for (const [parent, child] of Object.entries(given.chosen ?? {})) {
    const key = parent === kRoot ? kRoot : ids.get(parent);
    if (key && ids.has(child)) made.chosen[key] = ids.get(child);
  }
  return made;
}
