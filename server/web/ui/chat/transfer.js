// Conversations as files: Markdown and JSON out, JSON in. Imported files are not trusted: only fields that are checked
// here become part of a conversation.
import {kRoot, media_files, new_conversation, new_id, path, with_texts} from './conversation.js';
import {is_media_url} from './media.js';
import {checked_settings} from './settings.js';

export function to_markdown(conversation) {
  const parts = [`# ${conversation.title || 'Conversation'}`, `_${new Date(conversation.created).toLocaleString()}_`];
  if (conversation.system.trim()) parts.push(`**System prompt**\n\n${conversation.system}`);
  for (const message of path(conversation)) {
    parts.push(`## ${message.role === 'user' ? 'You' : message.model ?? 'Assistant'}`);
    for (const {name, kind} of media_files(message)) parts.push(`${kind === 'image' ? 'Image' : 'Audio'}: ${name}`);
    if (message.reasoning) parts.push(`<details><summary>Reasoning</summary>\n\n${message.reasoning}\n\n</details>`);
    parts.push(message.role === 'user' ? with_texts(message) : message.content);
  }
  return `${parts.filter(Boolean).join('\n\n')}\n`;
}

const kExportFormat = 'weft-conversations';

/** `media`: a Map of the data: URLs of the conversations' media files. */
export function to_json(conversations, media) {
  const with_urls = (key, value) => (value?.kind && media.has(value.id) ? {...value, url: media.get(value.id)} : value);
  return JSON.stringify({format: kExportFormat, version: 1, exported: new Date().toISOString(), conversations}, with_urls, 1);
}

/**
 * [{conversation, media: Map of data: URLs by id}] of an exported file, checked, with new ids so that nothing is overwritten. Throws Error
 * with the reason.
 */
export function from_json(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error('The file is not JSON.');
  }
  if (file?.format !== kExportFormat || !Array.isArray(file.conversations)) throw new Error('The file is not an export of weft.');
  return file.conversations.map(checked_conversation);
}

const text_of = (value) => (typeof value === 'string' ? value : '');
const number_of = (value, otherwise) => (Number.isFinite(value) ? value : otherwise);
const is_object = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

function checked_conversation(given) {
  if (!is_object(given?.messages)) throw new Error('A conversation has no messages.');
  const made = new_conversation({system: text_of(given.system), settings: checked_settings(given.settings)});
  const media = new Map();
  made.title = text_of(given.title).slice(0, 200);
  made.created = number_of(given.created, made.created);
  made.updated = number_of(given.updated, made.updated);
  const ids = new Map(Object.keys(given.messages).map((id) => [id, new_id()]));
  for (const [id, message] of Object.entries(given.messages)) {
    if (message?.role !== 'user' && message?.role !== 'assistant') throw new Error('The role of a message is neither user nor assistant.');
    const checked = checked_message(message, media);
    made.messages[ids.get(id)] = {id: ids.get(id), parent: ids.get(message.parent) ?? null, time: number_of(message.time, made.created), ...checked};
  }
  for (const [parent, child] of Object.entries(is_object(given.chosen) ? given.chosen : {})) {
    const key = parent === kRoot ? kRoot : ids.get(parent);
    const chosen = made.messages[ids.get(child)];
    if (key && chosen && (chosen.parent ?? kRoot) === key) made.chosen[key] = chosen.id;
  }
  if (ids.has(given.context_from)) made.context_from = ids.get(given.context_from);
  return {conversation: made, media};
}

/** Without its id, parent and time; adds its media to `media`. */
function checked_message(given, media) {
  const files = Array.isArray(given.files) ? given.files.slice(0, 50).map((file) => checked_file(file, media)) : [];
  return {
    role: given.role, content: text_of(given.content),
    ...(files.length && {files}),
    ...(typeof given.reasoning === 'string' && {reasoning: given.reasoning, reasoning_ms: number_of(given.reasoning_ms, null)}),
    ...(Array.isArray(given.tool_calls) && {tool_calls: given.tool_calls.map((call) => ({name: text_of(call?.name), arguments: text_of(call?.arguments)}))}),
    ...(typeof given.model === 'string' && {model: given.model}),
    ...(typeof given.finish_reason === 'string' && {finish_reason: given.finish_reason}),
    ...(given.stopped === true && {stopped: true}),
    ...(given.unfinished === true && {unfinished: true}),
    ...(typeof given.error?.message === 'string' && {error: {message: given.error.message}}),
    ...(is_object(given.stats) && {stats: checked_stats(given.stats)}),
  };
}

/** Figures to show; the tokens of the context are counted again. */
function checked_stats(given) {
  const names = ['n_prompt', 'n_cached', 'n_generated', 'per_second', 'first_ms'];
  return Object.fromEntries(names.filter((name) => Number.isFinite(given[name])).map((name) => [name, given[name]]));
}

function checked_file(given, media) {
  const name = text_of(given?.name).slice(0, 500);
  if (!given?.kind) return {name, text: text_of(given?.text)};
  const {kind, format, url} = given;
  if (!['image', 'audio'].includes(kind) || !is_media_url(url, kind)) throw new Error(`The data of ${name || 'a file'} are neither an image nor audio.`);
  const id = new_id();
  media.set(id, url);
  return {name, kind, format: text_of(format).slice(0, 10), id, n_bytes: Math.floor((url.length - url.indexOf(',') - 1) * 3 / 4)};
}
