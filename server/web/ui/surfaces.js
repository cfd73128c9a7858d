// Dialogs, sheets, menus and toasts; and announcements to screen readers.
import {el, icon, icon_button} from './dom.js';

const kToastMs = 6000;
const kUndoMs = 12000;

/** Announces to screen readers: a few words, and not each token. */
export function announce(text) {
  document.getElementById('status').textContent = text;
}

/**
 * A modal dialog; `kind`: 'card' in the middle or 'sheet' at the right. Closes by its button, Escape and a click
 * outside. Returns the element; `onclose` is called in any case.
 */
export function open_dialog({title, kind = 'card', body, footer, onclose}) {
  const dialog = el('dialog', {class: `dialog ${kind}`, 'aria-label': title});
  const close = () => dialog.close();
  const heading = el('h2', {tabindex: '-1'}, title);
  dialog.append(
    el('header', {class: 'dialog-head'}, heading, icon_button('close', 'Close', close)),
    el('div', {class: 'dialog-body'}, body), toast_slot(),
    footer ? el('footer', {class: 'dialog-foot'}, footer) : '');
  dialog.addEventListener('pointerdown', (event) => {
    if (event.target !== dialog) return;
    const box = dialog.getBoundingClientRect();
    const inside = event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
    if (!inside) close();
  });
  dialog.addEventListener('close', () => {
    dialog.remove();
    onclose?.();
  });
  if (!dialog.querySelector('[autofocus]')) heading.setAttribute('autofocus', '');  // Rather than the button that closes.
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Asks for the server's key. Resolves to {key, keep} or null. */
export function ask_key(wrong) {
  return new Promise((resolve) => {
    let given = null;
    const input = el('input', {type: 'password', class: 'field', autocomplete: 'current-password', required: true, autofocus: true, 'aria-describedby': 'key-note'});
    const keep = el('input', {type: 'checkbox'});
    const form = el('form', {
      class: 'stack', method: 'dialog', id: 'key-form',
      onsubmit: () => { given = {key: input.value.trim(), keep: keep.checked}; },
    },
      el('label', {class: 'stack-tight'}, el('span', {class: 'label'}, 'API key'), input),
      el('p', {id: 'key-note', class: wrong ? 'note bad' : 'note'}, wrong ? 'The server did not accept that key.' : 'Requests to this server need an API key. The key stays in this browser.'),
      el('label', {class: 'check'}, keep, el('span', {}, 'Remember it after this tab is closed')));
    open_dialog({
      title: 'This server needs an API key', body: form, onclose: () => resolve(given),
      footer: el('button', {class: 'button primary', form: 'key-form'}, 'Unlock'),
    });
  });
}

/** A menu below or above a button; items: {label, icon, action, danger}. Arrows, Home, End and Escape work. */
export function open_menu(button, items) {
  const menu = el('div', {class: 'menu', role: 'menu', popover: 'auto'});
  const rows = items.map(({label, icon: name, action, danger}) => el('button', {
    type: 'button', role: 'menuitem', class: danger ? 'danger' : null, tabindex: '-1',
    onclick: () => { menu.hidePopover(); action(); },
  }, icon(name), label));
  menu.append(...rows);
  menu.addEventListener('keydown', (event) => {
    const at = rows.indexOf(document.activeElement);
    const to = {ArrowDown: (at + 1) % rows.length, ArrowUp: (at + rows.length - 1) % rows.length, Home: 0, End: rows.length - 1}[event.key];
    if (event.key === 'Tab') menu.hidePopover();
    if (to === undefined) return;
    event.preventDefault();
    rows[to].focus();
  });
  menu.addEventListener('toggle', (event) => {
    if (event.newState !== 'closed') return;
    const inside = menu.contains(document.activeElement) || document.activeElement === document.body;
    menu.remove();
    button.setAttribute('aria-expanded', 'false');
    if (inside && button.isConnected) button.focus();
  });
  (button.closest('dialog') ?? document.body).append(menu);
  menu.showPopover();
  const at = button.getBoundingClientRect();
  const {offsetWidth: width, offsetHeight: height} = menu;
  const below = at.bottom + 4 + height < innerHeight;
  menu.style.left = `${Math.max(8, Math.min(at.right - width, innerWidth - width - 8))}px`;
  menu.style.top = `${below ? at.bottom + 4 : Math.max(8, at.top - 4 - height)}px`;
  button.setAttribute('aria-expanded', 'true');
  rows[0]?.focus();
}

/** A place for toasts. They are in the flow of the page, so that they cover neither text nor buttons. */
export function toast_slot() {
  return el('div', {class: 'toasts'});
}

/** Shows a line for some seconds in the slot that the user can reach; `action`: {label, act}. Longer while it is pointed at or focused. */
export function toast(text, action = null) {
  document.querySelectorAll('.toast').forEach((old) => old.remove());
  const slots = [...document.querySelectorAll('.toasts')].filter((slot) => slot.parentNode.checkVisibility() && !slot.closest('[inert]'));
  const slot = slots.find((one) => one.closest('dialog[open]')) ?? slots.at(-1);  // The sidebar's slot comes first.
  const close = () => note.remove();
  const note = el('div', {class: 'toast'}, el('p', {}, text),
    action ? el('button', {type: 'button', class: 'button', onclick: () => { close(); action.act(); }}, action.label) : null,
    icon_button('close', 'Dismiss', close));
  slot?.append(note);
  announce(text);
  const timer = setInterval(() => {
    if (note.matches(':hover, :focus-within')) return;
    clearInterval(timer);
    close();
  }, action ? kUndoMs : kToastMs);
}

/** Returns whether the browser allowed it; `button` shows that for a moment. */
export async function copy_text(text, button = null) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    toast('The browser did not allow copying. Select the text and copy it with the keyboard.');
    return false;
  }
  if (!button) return true;
  button.replaceChildren(icon('check'));
  announce('Copied');
  setTimeout(() => button.replaceChildren(icon('copy')), 1500);
  return true;
}

/** Offers a string as a file. */
export function save_file(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  const link = el('a', {href: url, download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** A file name of a title. */
export function file_name(title, extension) {
  const base = title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-+|-+$/g, '').slice(0, 60);
  return `${base || 'conversation'}.${extension}`;
}
