// The server's API as the page uses it: JSON responses, event streams, errors, and the key.

const kKeyName = 'weft.key';
const kMaxBody = 16 * 1024 * 1024;  // The server reads no longer request.
/** The path of the page, with the prefix of a proxy or of --api-prefix. */
const kRoot = new URL('../', import.meta.url);

function url_of(path) {
  return new URL(path.replace(/^\//, ''), kRoot);
}

/**
 * A failed request. `message` is the server's if it sent one. status 0: the server was not reached; `code`: the server's
 * name of the error; retry_after: seconds after which the server asks the client to try again, or null.
 */
export class ApiError extends Error {
  constructor(message, {status = 0, type = '', code = '', retry_after = null} = {}) {
    super(message);
    Object.assign(this, {status, type, code, retry_after});
  }

  get needs_key() {
    return this.status === 401;
  }

  /** The request is too long: fewer messages may fit. */
  get too_long() {
    return this.status === 413 || this.code === 'context_length_exceeded' || this.type === 'exceed_context_size_error';
  }
}

export function get_key() {
  return sessionStorage.getItem(kKeyName) ?? localStorage.getItem(kKeyName) ?? '';
}

/** `keep`: beyond this tab. An empty key is forgotten. */
export function set_key(key, keep) {
  sessionStorage.removeItem(kKeyName);
  localStorage.removeItem(kKeyName);
  if (key) (keep ? localStorage : sessionStorage).setItem(kKeyName, key);
}

/** The response of a request that succeeded. Throws ApiError, or AbortError where `signal` was aborted. */
export async function request(path, {method = 'GET', body, signal, accept} = {}) {
  const headers = {};
  const key = get_key();
  if (key) headers.Authorization = `Bearer ${key}`;
  if (accept) headers.Accept = accept;
  let data;
  if (body !== undefined) {
    headers['Content-Type'] = 'application/json';
    data = new Blob([JSON.stringify(body)]);
    // The server closes the connection of a longer request, which a browser reports as a failure of the network.
    if (data.size > kMaxBody) throw new ApiError(`The request has ${Math.ceil(data.size / 1024 / 1024)} MB, and the server reads 16 MB. Send fewer or smaller files.`, {status: 413});
  }
  let response;
  try {
    response = await fetch(url_of(path), {method, headers, signal, cache: 'no-store', body: data});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError('The server cannot be reached. Is it still running?');
  }
  if (!response.ok) throw await error_of(response);
  return response;
}

async function error_of(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    // The status says enough.
  }
  return new ApiError(message_of(body) ?? `The server answered ${response.status} ${response.statusText}`.trim(), {
    ...names_of(body), status: response.status, retry_after: seconds_until(response.headers.get('Retry-After')),
  });
}

/** Retry-After is a number of seconds or a date; null where it is neither. */
function seconds_until(text) {
  if (!text?.trim()) return null;
  const seconds = Number(text);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const date = Date.parse(text);
  return Number.isNaN(date) ? null : Math.max(0, Math.ceil((date - Date.now()) / 1000));
}

function names_of(body) {
  const {type, code} = body?.error ?? {};
  return {type: typeof type === 'string' ? type : '', code: typeof code === 'string' ? code : ''};
}

function message_of(body) {
  const error = body?.error;
  return typeof error === 'string' ? error : typeof error?.message === 'string' ? error.message : null;
}

export async function get_json(path, options) {
  const response = await request(path, options);
  try {
    return await response.json();
  } catch {
    throw new ApiError(`${path} did not return JSON`, {status: response.status});
  }
}

/** The state of /health: {ready, progress (0 to 1 or null), reached, refused (the server responds, but not to this page), problem (the server's message)}. Never throws. */
export async function health() {
  try {
    const response = await fetch(url_of('/health'), {cache: 'no-store'});
    if (response.ok) return {ready: true, progress: 1, reached: true};
    const body = await response.json().catch(() => null);
    const progress = typeof body?.progress === 'number' ? Math.min(1, Math.max(0, body.progress)) : null;
    return {ready: false, progress, reached: true, refused: response.status < 500, problem: message_of(body) ?? (response.status < 500 ? `The server answered ${response.status}` : null)};
  } catch {
    return {ready: false, progress: null, reached: false};
  }
}

/** The data of each event of a stream, parsed; ends at [DONE] or with the stream. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let data = [];
  try {
    for (;;) {
      const {value, done} = await reader.read().catch((error) => {
        if (error.name === 'AbortError') throw error;
        throw new ApiError('The connection was lost.');
      });
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const raw of lines) {
        const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
        if (line.startsWith('data:')) {
          data.push(line.slice(line[5] === ' ' ? 6 : 5));
        } else if (line === '' && data.length > 0) {
          const text = data.join('\n');
          data = [];
          if (text === '[DONE]') {
            yield null;
            return;
          }
          yield parse_event(text);
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parse_event(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ApiError('The server sent an event that is not JSON.');
  }
  const message = message_of(value);
  if (message !== null) throw new ApiError(message, {...names_of(value), status: Number.isInteger(value.error?.code) ? value.error.code : 500});
  return value;
}

/**
 * Streams one response. Calls on_delta({content, reasoning, tool_calls}) as text comes, and fills `result` as it goes: {finish_reason,
 * usage, timings, model}, so that the caller of a stopped response has its beginning. Throws ApiError also if the
 * stream ends before the response does.
 */
export async function stream_chat(body, {signal, on_delta, result}) {
  const response = await request('/v1/chat/completions', {
    method: 'POST', signal, accept: 'text/event-stream',
    body: {...body, stream: true, stream_options: {include_usage: true}},
  });
  let complete = false;
  for await (const event of events(response)) {
    if (event === null) {
      complete = true;
      break;
    }
    const choice = event.choices?.[0];
    const delta = choice?.delta;
    for (const name of ['model', 'usage', 'timings']) result[name] = event[name] || result[name];
    if (choice?.finish_reason) result.finish_reason = choice.finish_reason;
    if (delta?.content || delta?.reasoning_content || delta?.tool_calls) {
      on_delta({content: delta.content ?? '', reasoning: delta.reasoning_content ?? '', tool_calls: delta.tool_calls ?? []});
    }
  }
  if (!complete && !result.finish_reason) throw new ApiError('The connection was lost before the response was complete.');
}
