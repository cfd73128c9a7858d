// Settings of conversations and presets of system prompts. A parameter that is not set is not sent: the server's default
// applies.

const kSettingsName = 'weft.settings';
const kPresetsName = 'weft.presets';
const kMaxPresets = 50;

/** THE table of parameters: name of the API, label, kind and bounds; `hint` explains it. */
export const kParameters = [
  {name: 'temperature', label: 'Temperature', kind: 'number', min: 0, max: 2, step: 0.05, hint: 'Randomness of sampling. 0: always the most likely token.'},
  {name: 'top_p', label: 'Top P', kind: 'number', min: 0, max: 1, step: 0.01, hint: 'Samples from the most likely tokens that together have this probability.'},
  {name: 'top_k', label: 'Top K', kind: 'integer', min: 0, max: 200, step: 1, hint: 'Samples from this many of the most likely tokens. 0: all.'},
  {name: 'min_p', label: 'Min P', kind: 'number', min: 0, max: 1, step: 0.01, hint: 'Drops tokens below this share of the most likely token’s probability.'},
  {name: 'repeat_penalty', label: 'Repeat penalty', kind: 'number', min: 1, max: 2, step: 0.01, hint: 'Above 1, recent tokens become less likely.'},
  {name: 'max_tokens', label: 'Max tokens', kind: 'integer', min: 1, max: 1000000, step: 1, plain: true, hint: 'Longer responses are cut.'},
  {name: 'seed', label: 'Seed', kind: 'integer', min: 0, max: 4294967295, step: 1, plain: true, hint: 'The same seed gives the same response.'},
];

export const kEfforts = ['none', 'low', 'medium', 'high'];

/** The body's fields for settings {temperature, ..., stop: [..], schema: text, reasoning_effort}. Throws where the schema is no JSON. */
export function api_fields(settings) {
  const fields = {};
  for (const {name} of kParameters) {
    if (typeof settings[name] === 'number') fields[name] = settings[name];
  }
  if (settings.stop?.length) fields.stop = settings.stop;
  if (settings.reasoning_effort) fields.reasoning_effort = settings.reasoning_effort;
  if (settings.schema?.trim()) {
    fields.response_format = {type: 'json_schema', json_schema: {name: 'answer', strict: true, schema: parse_schema(settings.schema)}};
  }
  return fields;
}

export function parse_schema(text) {
  let schema;
  try {
    schema = JSON.parse(text);
  } catch (error) {
    throw new Error(`The JSON schema is no JSON: ${error.message}`);
  }
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) throw new Error('A JSON schema is an object: {"type": "object", ...}');
  return schema;
}

/** The settings of an imported conversation that are valid: numbers within their bounds, and texts. */
export function checked_settings(given) {
  const settings = {};
  for (const {name, kind, min, max} of kParameters) {
    const value = given?.[name];
    if (typeof value === 'number' && value >= min && value <= max && (kind !== 'integer' || Number.isInteger(value))) settings[name] = value;
  }
  if (Array.isArray(given?.stop)) settings.stop = given.stop.filter((text) => typeof text === 'string' && text).slice(0, 16);
  if (kEfforts.includes(given?.reasoning_effort)) settings.reasoning_effort = given.reasoning_effort;
  if (typeof given?.schema === 'string' && given.schema.trim()) settings.schema = given.schema;
  if (!settings.stop?.length) delete settings.stop;
  return settings;
}

/** How many settings differ from the server's. */
export function n_changed(settings) {
  const set = kParameters.filter(({name}) => typeof settings[name] === 'number').length;
  return set + [settings.stop?.length, settings.schema?.trim(), settings.reasoning_effort].filter(Boolean).length;
}

function load(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** The defaults of new conversations: {system, settings}. */
export function load_defaults() {
  const {system = '', settings = {}} = load(kSettingsName, {});
  return {system, settings};
}

export function save_defaults(system, settings) {
  localStorage.setItem(kSettingsName, JSON.stringify({system, settings}));
}

const kOwnPresets = [
  {name: 'Concise', text: 'Answer briefly and precisely. No preamble, no summary at the end.'},
  {name: 'Programmer', text: 'You are an experienced programmer. Give complete, working code with the reasons for what is not obvious, and name what you are not sure of.'},
  {name: 'Teacher', text: 'Explain step by step, from what is known to what is new, with an example for each step. End with a question that checks understanding.'},
  {name: 'Editor', text: 'You are an editor. Correct grammar, clarity and rhythm, keep the author’s voice, and list what you changed.'},
];

export function load_presets() {
  return load(kPresetsName, kOwnPresets);
}

/** Adds or replaces. */
export function save_preset(name, text) {
  const presets = load_presets().filter((preset) => preset.name !== name);
  presets.push({name, text});
  localStorage.setItem(kPresetsName, JSON.stringify(presets.slice(-kMaxPresets)));
}

export function remove_preset(name) {
  localStorage.setItem(kPresetsName, JSON.stringify(load_presets().filter((preset) => preset.name !== name)));
}
