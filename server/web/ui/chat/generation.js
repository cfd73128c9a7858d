// One response that is being generated: sends the request, keeps the message up to date, and reports to a view. It does
// not depend on the page, which may show another conversation.
import {get_json, stream_chat} from '../api.js';
import {api_messages, media_ids, request_name, sent_path} from './conversation.js';
import {api_fields} from './settings.js';

const kSaveEvery = 256;  // Characters; more in long conversations, as all of one is saved each time.
const kMaxTries = 10;

/**
 * `message` is the assistant's message that is filled; one that has content already is continued. save() is called at the first
 * token, as text grows, and at the end; load_media(ids) gives a Map of data: URLs.
 */
export class Generation {
  constructor({conversation, message, view, model, save, load_media}) {
    Object.assign(this, {conversation, message, view, model, save, load_media});
    this.controller = new AbortController();
    this.result = {};
    this.n_pieces = 0;
    this.save_every = Math.max(kSaveEvery, Object.values(conversation.messages).reduce((sum, {content}) => sum + content.length, 0) / 64);
    this.save_at = 0;
  }

  stop() {
    this.controller.abort();
  }

  /** Resolves when the response has ended, however. Rejects only with an ApiError that needs_key. */
  async run() {
    const {message, view} = this;
    this.n_before = message.content && message.stats?.n_generated || 0;
    for (const name of ['error', 'stopped', 'finish_reason']) delete message[name];
    message.unfinished = true;
    view.begin();
    try {
      await this.request();
      message.finish_reason = this.result.finish_reason;
    } catch (error) {
      if (error.needs_key) throw error;
      if (error.name === 'AbortError') message.stopped = true;
      else message.error = {message: error.message, retry_after: error.retry_after ?? null, too_long: error.too_long === true};
    } finally {
      if (this.result.model) message.model = this.result.model;
      if (this.n_pieces > 0 || this.result.usage) message.stats = this.stats();
      this.end_reasoning();
      delete message.unfinished;
      view.end();
      this.save();
    }
  }

  async messages() {
    const {conversation, message} = this;
    return api_messages(conversation, message, await this.load_media(media_ids(conversation, sent_path(conversation, message))));
  }

  /** Tries again as long as the server names a time to retry. */
  async request() {
    const {conversation, message} = this;
    const body = {model: this.model, messages: await this.messages(), ...api_fields(conversation.settings)};
    if (message.content) Object.assign(body, {continue_final_message: true, add_generation_prompt: false});
    this.request_name = request_name(sent_path(conversation, message));
    for (let n_tries = 1; ; ++n_tries) {
      this.begun = performance.now();
      try {
        return await stream_chat(body, {signal: this.controller.signal, on_delta: (delta) => this.add(delta), result: this.result});
      } catch (error) {
        if (error.retry_after === null || error.retry_after === undefined || this.n_pieces > 0 || n_tries === kMaxTries) throw error;
        await this.wait(error);
      }
    }
  }

  /** Waits as long as the server asked for. Rejects with `error` if the user cancels, and with AbortError if they stop. */
  wait(error) {
    const {signal} = this.controller;
    const until = Date.now() + 1000 * Math.max(1, error.retry_after);
    return new Promise((resolve, reject) => {
      const end = (settle, value) => {
        clearInterval(timer);
        this.view.end_waiting();
        signal.removeEventListener('abort', on_abort);
        settle(value);
      };
      const on_abort = () => end(reject, signal.reason);
      const left = () => Math.ceil((until - Date.now()) / 1000);
      const show = this.view.begin_waiting(error.message, () => end(reject, error));
      const timer = setInterval(() => (left() > 0 ? show(left()) : end(resolve)), 200);
      signal.addEventListener('abort', on_abort);
      show(left());
    });
  }

  add({content, reasoning, tool_calls}) {
    const {message, view} = this;
    const now = performance.now();
    this.first_ms ??= now - this.begun;
    ++this.n_pieces;
    if (reasoning) {
      this.reasoning_since ??= now;
      message.reasoning = (message.reasoning ?? '') + reasoning;
      view.add_reasoning(reasoning);
    }
    if (content || tool_calls.length) this.end_reasoning();
    if (content) {
      message.content += content;
      view.add_content(content);
    }
    if (tool_calls.length) {
      add_tool_calls(message, tool_calls);
      view.show_tools();
    }
    const length = message.content.length + (message.reasoning?.length ?? 0) + tool_calls.length;
    if (length < this.save_at) return;
    this.save_at = length + this.save_every;
    this.save();
  }

  end_reasoning() {
    if (this.reasoning_since && !this.message.reasoning_ms) this.message.reasoning_ms = performance.now() - this.reasoning_since;
  }

  /** Has the server count the context's tokens after a stopped response. Never rejects: the count is an estimate then. */
  async count_context() {
    const {stats} = this.message;
    if (!stats || stats.n_context !== null) return;
    try {
      const {tokens} = await get_json('/apply-template', {method: 'POST', body: {model: this.model, messages: await this.messages(), add_generation_prompt: false}});
      stats.n_context = tokens.length;
      this.save();
    } catch {
      // The server is gone, or its template takes no media here.
    }
  }

  /** Figures from the server; it sends none for a stopped response. n_context: tokens of the request and the response. */
  stats() {
    const {usage, timings} = this.result;
    const n_generated = usage?.completion_tokens ?? timings?.predicted_n ?? this.n_pieces;
    const n_prompt = usage?.prompt_tokens ?? (timings ? timings.prompt_n + timings.cache_n : null);
    const generating = performance.now() - this.begun - (this.first_ms ?? 0);
    return {
      n_prompt, n_generated: this.n_before + n_generated,
      n_context: n_prompt === null ? null : n_prompt + n_generated,
      n_cached: usage?.prompt_tokens_details?.cached_tokens ?? timings?.cache_n ?? null,
      per_second: timings?.predicted_per_second ?? (generating > 200 ? (n_generated - 1) / generating * 1000 : null),
      first_ms: this.first_ms ?? null, request: this.request_name,
    };
  }
}

function add_tool_calls(message, deltas) {
  message.tool_calls ??= [];
  for (const delta of deltas) {
    const at = Number.isInteger(delta.index) && delta.index >= 0 && delta.index < 128 ? delta.index : message.tool_calls.length;
    const call = message.tool_calls[at] ??= {name: '', arguments: ''};
    call.name += delta.function?.name ?? '';
    call.arguments += delta.function?.arguments ?? '';
  }
}
