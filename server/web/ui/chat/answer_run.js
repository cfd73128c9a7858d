// One answer being written: asks the server, keeps the message up to date, and tells a view. Knows no page, so that it
// goes on while another conversation is looked at.
import {stream_chat} from '../api.js';
import {api_messages} from './conversation.js';
import {api_fields} from './settings.js';

const kSaveEvery = 3000;

/**
 * `message` is the assistant's message that is filled; one that has content already is gone on with. `save` is called now
 * and then and at the end.
 */
export class AnswerRun {
  constructor({conversation, message, view, model, save}) {
    this.conversation = conversation;
    this.message = message;
    this.view = view;
    this.model = model;
    this.save = save;
    this.controller = new AbortController();
    this.n_pieces = 0;
  }

  stop() {
    this.controller.abort();
  }

  /** Resolves when the answer has ended, however. Rejects only with an ApiError that needs_key. */
  async run() {
    const {message, view, conversation} = this;
    const begun = performance.now();
    const going_on = message.content !== '';
    let saved = begun;
    let reasoning_since = null;
    for (const name of ['error', 'stopped', 'finish_reason']) delete message[name];
    view.begin();
    const on_delta = ({content, reasoning, tool_calls}) => {
      const now = performance.now();
      this.first_ms ??= now - begun;
      ++this.n_pieces;
      if (reasoning) {
        reasoning_since ??= now;
        message.reasoning = (message.reasoning ?? '') + reasoning;
        view.add_reasoning(reasoning);
      }
      if ((content || tool_calls.length) && reasoning_since !== null && !message.reasoning_ms) message.reasoning_ms = now - reasoning_since;
      if (content) {
        message.content += content;
        view.add_content(content);
      }
      if (tool_calls.length) {
        add_tool_calls(message, tool_calls);
        view.show_tools();
      }
      if (now - saved > kSaveEvery) {
        saved = now;
        this.save();
      }
    };
    try {
      const messages = api_messages(conversation, message);
      const body = {model: this.model, messages, ...api_fields(conversation.settings)};
      if (going_on) Object.assign(body, {continue_final_message: true, add_generation_prompt: false});
      const result = await stream_chat(body, {signal: this.controller.signal, on_delta});
      message.finish_reason = result.finish_reason;
      if (result.model) message.model = result.model;
      message.stats = this.stats(result, performance.now() - begun);
    } catch (error) {
      if (error.name === 'AbortError') {
        message.stopped = true;
        message.stats = this.stats({}, performance.now() - begun);
      } else {
        if (error.needs_key) throw error;
        message.error = {message: error.message, retry_after: error.retry_after ?? null};
      }
    } finally {
      if (reasoning_since !== null && !message.reasoning_ms) message.reasoning_ms = performance.now() - reasoning_since;
      view.end();
      this.save();
    }
  }

  /** Figures from the server where it gives them; of a stopped answer only what was seen. */
  stats({usage, timings}, ms) {
    const n_generated = usage?.completion_tokens ?? timings?.predicted_n ?? this.n_pieces;
    const writing = ms - (this.first_ms ?? ms);
    return {
      n_prompt: usage?.prompt_tokens ?? null,
      n_cached: usage?.prompt_tokens_details?.cached_tokens ?? timings?.cache_n ?? null,
      n_generated,
      per_second: timings?.predicted_per_second ?? (writing > 200 ? (n_generated - 1) / writing * 1000 : null),
      first_ms: this.first_ms ?? null,
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
