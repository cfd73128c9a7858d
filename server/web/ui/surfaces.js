// What opens over the page: dialogs, sheets and menus; and what is said to screen readers and in passing.
import {el, icon, icon_button} from './dom.js';

/** Tells a screen reader; a few words, and not for each token. */
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
    el('div', {class: 'dialog-body'}, body),
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

/** Resolves to whether the user agreed. */
export function confirm_dialog({title, text, action}) {
  return new Promise((resolve) => {
    let agreed = false;
    const dialog = open_dialog({
      title, body: el('p', {}, text), onclose: () => resolve(agreed),
      footer: [
        el('button', {type: 'button', class: 'button', onclick: () => dialog.close()}, 'Cancel'),
        el('button', {type: 'button', class: 'button danger', autofocus: true, onclick: () => { agreed = true; dialog.close(); }}, action),
      ],
    });
  });
}

/** Asks for the server's key. Resolves to {key, keep} or null. */
export function ask_key(wrong) {
  return new Promise((resolve) => {
    let answer = null;
    const input = el('input', {type: 'password', class: 'field', autocomplete: 'current-password', required: true, autofocus: true, 'aria-describedby': 'key-note'});
    const keep = el('input', {type: 'checkbox'});
    const form = el('form', {
      class: 'stack', method: 'dialog', id: 'key-form',
      onsubmit: () => { answer = {key: input.value.trim(), keep: keep.checked}; },
    },
      el('label', {class: 'stack-tight'}, el('span', {class: 'label'}, 'API key'), input),
      el('p', {id: 'key-note', class: wrong ? 'note bad' : 'note'}, wrong ? 'The server did not accept that key.' : 'This server was started with --api-key. The key stays in this browser.'),
      el('label', {class: 'check'}, keep, el('span', {}, 'Keep it when this tab is closed')));
    open_dialog({
      title: 'This server asks for a key', body: form, onclose: () => resolve(answer),
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

/** A line that goes away by itself. */
export function toast(text) {
  const old = document.querySelector('.toast');
  old?.remove();
  const note = el('div', {class: 'toast', role: 'status'}, text);
  document.body.append(note);
  setTimeout(() => note.remove(), 5000);
}

export async function copy_text(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    toast('The browser did not allow copying.');
    return;
  }
  button.replaceChildren(icon('check'));
  announce('Copied');
  setTimeout(() => button.replaceChildren(icon('copy')), 1500);
}

/** Offers a text as a file. */
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
