// The server's API as the page uses it: JSON answers, event streams, errors, and the key.

const kKeyName = 'weft.key';
/** Where the page lies; below a prefix where a proxy or --api-prefix put it there. */
const kRoot = new URL('../', import.meta.url);

function url_of(path) {
  return new URL(path.replace(/^\//, ''), kRoot);
}

/** What went wrong, for people. status 0: the server was not reached; retry_after in seconds, if it said so. */
export class ApiError extends Error {
  constructor(message, {status = 0, type = '', retry_after = null} = {}) {
    super(message);
    this.status = status;
    this.type = type;
    this.retry_after = retry_after;
  }

  get needs_key() {
    return this.status === 401;
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

/** The response of a request that went well; throws ApiError, or AbortError where `signal` says so. */
export async function request(path, {method = 'GET', body, signal, accept} = {}) {
  const headers = {};
  const key = get_key();
  if (key) headers.Authorization = `Bearer ${key}`;
  if (accept) headers.Accept = accept;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(url_of(path), {method, headers, signal, cache: 'no-store', body: body === undefined ? undefined : JSON.stringify(body)});
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
  const after = parseInt(response.headers.get('Retry-After') ?? '', 10);
  return new ApiError(message_of(body) ?? `The server answered ${response.status} ${response.statusText}`.trim(), {
    status: response.status, type: body?.error?.type ?? '', retry_after: Number.isFinite(after) ? after : null,
  });
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
    throw new ApiError(`${path} did not answer with JSON`, {status: response.status});
  }
}

/** The state of /health: {ready, progress (0 to 1 or null), reached, problem (why there is no model)}. Never throws. */
export async function health() {
  try {
    const response = await fetch(url_of('/health'), {cache: 'no-store'});
    if (response.ok) return {ready: true, progress: 1, reached: true};
    const body = await response.json().catch(() => null);
    const progress = typeof body?.progress === 'number' ? Math.min(1, Math.max(0, body.progress)) : null;
    return {ready: false, progress, reached: true, problem: message_of(body)};
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
    throw new ApiError('The server sent an event that is no JSON');
  }
  const message = message_of(value);
  if (message !== null) throw new ApiError(message, {status: value.error.code ?? 500, type: value.error.type ?? ''});
  return value;
}

/**
 * One answer, streamed. Calls on_delta({content, reasoning, tool_calls}) as text comes and resolves to
 * {finish_reason, usage, timings, model}. Throws ApiError also where the stream ends before the answer does.
 */
export async function stream_chat(body, {signal, on_delta}) {
  const response = await request('/v1/chat/completions', {
    method: 'POST', signal, accept: 'text/event-stream',
    body: {...body, stream: true, stream_options: {include_usage: true}},
  });
  const result = {finish_reason: null, usage: null, timings: null, model: null};
  let complete = false;
  for await (const event of events(response)) {
    if (event === null) {
      complete = true;
      break;
    }
    const choice = event.choices?.[0];
    const delta = choice?.delta;
    if (event.model) result.model = event.model;
    if (event.usage) result.usage = event.usage;
    if (event.timings) result.timings = event.timings;
    if (choice?.finish_reason) result.finish_reason = choice.finish_reason;
    if (delta?.content || delta?.reasoning_content || delta?.tool_calls) {
      on_delta({content: delta.content ?? '', reasoning: delta.reasoning_content ?? '', tool_calls: delta.tool_calls ?? []});
    }
  }
  if (!complete && !result.finish_reason) throw new ApiError('The connection ended before the answer did.');
  return result;
}
