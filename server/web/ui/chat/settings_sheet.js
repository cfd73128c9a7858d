// The sheet of parameters: system prompt, sampling, limits, format of responses, key.
import {el, icon_button} from '../dom.js';
import {get_key, set_key} from '../api.js';
import {open_dialog, toast} from '../surfaces.js';
import {kEfforts, kParameters, load_presets, parse_schema, remove_preset, save_preset} from './settings.js';

/**
 * Changes `conversation.system` and `conversation.settings` as the user edits, with on_change() after each; on_key(): the key was set. `defaults` are the
 * server's values by name, `caps` the features of the model's template.
 */
export function open_settings({conversation, defaults, caps, on_change, on_key, onclose}) {
  const {settings} = conversation;
  const change = (name, value) => {
    if (value === null || value === '' || (Array.isArray(value) && value.length === 0)) delete settings[name];
    else settings[name] = value;
    on_change();
  };
  const reset = el('button', {type: 'button', class: 'button', onclick: () => {
    for (const name of Object.keys(settings)) delete settings[name];
    on_change();
    dialog.close();
    open_settings({conversation, defaults, caps, on_change, on_key, onclose});
  }}, 'Reset to the server’s defaults');
  const dialog = open_dialog({
    title: 'Parameters', kind: 'sheet', onclose, footer: reset,
    body: [
      section('System prompt', system_prompt(conversation, on_change)),
      section('Sampling', kParameters.filter(({plain}) => !plain).map((parameter) => parameter_row(parameter, settings, defaults, change))),
      section('Limits', [
        ...kParameters.filter(({plain}) => plain).map((parameter) => parameter_row(parameter, settings, defaults, change)),
        stop_row(settings, change),
      ]),
      section('Response', [caps.reasoning ? effort_row(settings, change) : null, schema_row(settings, change)]),
      section('This browser', key_row(on_key)),
    ],
  });
}

function section(title, ...content) {
  return el('section', {class: 'settings-section'}, el('h3', {}, title), content);
}

function system_prompt(conversation, on_change) {
  const area = el('textarea', {class: 'field', rows: '5', value: conversation.system, dir: 'auto', placeholder: 'Instructions for the model in this conversation',
                               'aria-label': 'System prompt', oninput: () => set(area.value)});
  const set = (text) => {
    conversation.system = text;
    on_change();
  };
  const list = el('div', {class: 'presets', role: 'group', 'aria-label': 'Presets'});
  const name = el('input', {class: 'field', placeholder: 'Name of a new preset', 'aria-label': 'Name of a new preset', maxlength: '40'});
  const draw = () => {
    list.replaceChildren(...load_presets().map((preset) => el('span', {class: 'preset'},
      el('button', {type: 'button', onclick: () => { area.value = preset.text; set(preset.text); }}, preset.name),
      icon_button('close', `Remove the preset ${preset.name}`, () => { remove_preset(preset.name); draw(); }))));
  };
  const keep = el('form', {class: 'inline-form', onsubmit: (event) => {
    event.preventDefault();
    if (!name.value.trim() || !area.value.trim()) return toast('A preset needs a name and a system prompt.');
    save_preset(name.value.trim(), area.value);
    name.value = '';
    return draw();
  }}, name, el('button', {class: 'button'}, 'Save'));
  draw();
  return [area, list, keep];
}

function parameter_row({name, label, kind, min, max, step, plain, unit, hint}, settings, defaults, change) {
  const shown = typeof defaults[name] === 'number' && (!plain || defaults[name] > 0) ? defaults[name] : null;
  const id = `p-${name}`;
  const number = el('input', {id, class: 'field number', type: 'number', inputmode: kind === 'integer' ? 'numeric' : 'decimal', min, max, step: kind === 'integer' ? 1 : 'any',
                              value: settings[name] ?? '', placeholder: shown === null ? (plain ? 'auto' : '–') : String(+shown.toFixed(4)), 'aria-describedby': `${id}-hint`});
  const range = plain ? null : el('input', {type: 'range', min, max, step, value: settings[name] ?? shown ?? min, 'aria-label': `${label}, slider`, class: settings[name] === undefined ? 'unset' : null});
  const take = (text) => {
    const value = text === '' ? null : kind === 'integer' ? Math.round(Number(text)) : Number(text);
    if (value !== null && !(value >= min && value <= max)) {
      number.setCustomValidity(`${label} must be between ${min} and ${max}.`);
      number.reportValidity();
      return;
    }
    number.setCustomValidity('');
    range?.classList.toggle('unset', value === null);
    if (range) range.value = value ?? shown ?? min;
    change(name, value);
  };
  number.addEventListener('change', () => take(number.value));
  range?.addEventListener('input', () => {
    number.value = range.value;
    take(range.value);
  });
  return el('div', {class: 'parameter'}, el('label', {for: id}, label, unit ? el('small', {}, ` ${unit}`) : null), number, range, el('p', {class: 'note', id: `${id}-hint`}, hint));
}

function stop_row(settings, change) {
  const area = el('textarea', {id: 'p-stop', class: 'field', rows: '2', value: (settings.stop ?? []).join('\n'), 'aria-describedby': 'p-stop-hint',
                               oninput: () => change('stop', area.value.split('\n').filter(Boolean).slice(0, 16))});
  return el('div', {class: 'parameter wide'}, el('label', {for: 'p-stop'}, 'Stop strings'), area, el('p', {class: 'note', id: 'p-stop-hint'}, 'The response ends before any of these, one per line.'));
}

function effort_row(settings, change) {
  const select = el('select', {id: 'p-effort', class: 'field', onchange: () => change('reasoning_effort', select.value)},
                    el('option', {value: ''}, 'Model’s default'), kEfforts.map((effort) => el('option', {value: effort}, effort)));
  select.value = settings.reasoning_effort ?? '';
  return el('div', {class: 'parameter'}, el('label', {for: 'p-effort'}, 'Reasoning'), select, el('p', {class: 'note'}, 'How much the model reasons before it responds.'));
}

function schema_row(settings, change) {
  const note = el('p', {class: 'note', id: 'p-schema-hint', role: 'status'});
  const check = () => {
    const text = area.value.trim();
    let problem = null;
    try {
      if (text) parse_schema(text);
    } catch (error) {
      problem = error.message;
    }
    note.textContent = problem ?? (text ? 'Responses follow this schema.' : 'Makes responses follow a JSON schema.');
    note.classList.toggle('bad', problem !== null);
    area.setAttribute('aria-invalid', String(problem !== null));
  };
  const area = el('textarea', {id: 'p-schema', class: 'field code-field', rows: '4', spellcheck: 'false', value: settings.schema ?? '', 'aria-describedby': 'p-schema-hint',
                               placeholder: '{"type": "object", "properties": {…}}', oninput: () => { check(); change('schema', area.value); }});
  check();
  return el('div', {class: 'parameter wide'}, el('label', {for: 'p-schema'}, 'JSON schema'), area, note);
}

function key_row(on_key) {
  const input = el('input', {id: 'p-key', type: 'password', class: 'field', autocomplete: 'off', value: get_key(), placeholder: 'none'});
  const keep = () => {
    set_key(input.value.trim(), true);
    on_key();
    toast(input.value ? 'The key is stored in this browser.' : 'The key was removed from this browser.');
  };
  return el('form', {class: 'parameter wide', onsubmit: (event) => { event.preventDefault(); keep(); }},
            el('label', {for: 'p-key'}, 'API key'), el('div', {class: 'inline-form'}, input, el('button', {class: 'button'}, 'Save')),
            el('p', {class: 'note'}, 'Only for servers that need one.'));
}
