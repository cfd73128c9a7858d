// Makes DOM nodes. Only this module turns strings of models and users into nodes. No module parses HTML (the page's
// policy forbids it as well).

const kSvg = 'http://www.w3.org/2000/svg';
const kMathMl = 'http://www.w3.org/1998/Math/MathML';

function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

/** Appends nodes, texts and arrays of them: any number, while arguments that are spread from an array overflow the stack. */
export function append(node, ...children) {
  return add(node, children);
}

function set(node, props) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'data') Object.assign(node.dataset, value);
    else if (key === 'value' || key === 'checked') node[key] = value;
    else node.setAttribute(key, value === true ? '' : value);
  }
  return node;
}

/**
 * An HTML element: el('p', {class: 'note', onclick: f}, 'text', other). Null, undefined and false are left out. Children come
 * first: with dir=auto a browser would look through all of them again for each that is added.
 */
export function el(name, props, ...children) {
  return set(add(document.createElement(name), children), props);
}

export function svg(name, props, ...children) {
  return add(set(document.createElementNS(kSvg, name), props), children);
}

export function mathml(name, props, ...children) {
  return add(set(document.createElementNS(kMathMl, name), props), children);
}

// Icons are strokes on a field of 24 x 24.
const kIcons = {
  menu: 'M4 7h16M4 12h16M4 17h10',
  plus: 'M12 5v14M5 12h14',
  compose: 'M5 19h14M7 15l-.5 3 3-.5L18.5 8.5a1.8 1.8 0 0 0-2.5-2.5z',
  search: 'M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM16.2 16.2 20 20',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7.5 7.5h9v9h-9z',
  copy: 'M9 9h10v11H9zM5 15V4h10',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  edit: 'M4 20l1-4L16.5 4.5a2 2 0 0 1 3 3L8 19z',
  retry: 'M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4',
  forward: 'M5 12h13M13 6.5l5.5 5.5-5.5 5.5',
  left: 'M14.5 6 8.5 12l6 6',
  right: 'M9.5 6l6 6-6 6',
  down: 'M6 9.5l6 6 6-6',
  close: 'M6 6l12 12M18 6 6 18',
  more: 'M5.5 12h.01M12 12h.01M18.5 12h.01',
  sliders: 'M4 8h9M19 8h1M4 16h1M11 16h9M16 8m-2.4 0a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0-4.8 0M8 16m-2.4 0a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0-4.8 0',
  attach: 'M19 11.5l-7.2 7.2a4.5 4.5 0 0 1-6.4-6.4l7.6-7.6a3 3 0 0 1 4.3 4.3l-7.4 7.4a1.5 1.5 0 0 1-2.2-2.2l6.6-6.6',
  file: 'M7 3.5h7l4 4V20.5H7zM14 3.5v4h4',
  trash: 'M5 7h14M10 7V4.5h4V7M7 7l.8 12.5h8.4L17 7M10.3 10.5v5.5M13.7 10.5v5.5',
  download: 'M12 4v11M7 10.5l5 5 5-5M5 20h14',
  upload: 'M12 16V5M7 9.5l5-5 5 5M5 20h14',
  pulse: 'M3 12h4l2.5-7 5 14L17 12h4',
  chat: 'M4.5 5.5h15v10.5h-8L7 20v-4H4.5z',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 3v1.8M12 19.2V21M3 12h1.8M19.2 12H21M5.6 5.6l1.3 1.3M17.1 17.1l1.3 1.3M18.4 5.6l-1.3 1.3M6.9 17.1l-1.3 1.3',
  moon: 'M19.5 14.2A7.8 7.8 0 1 1 10 4.5a6.2 6.2 0 0 0 9.5 9.7z',
  auto: 'M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 4v16M12 8h5.5M12 12h7.8M12 16h5.5',
  key: 'M14.5 9.5m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0M11 12.5 4.5 19v1.5H8V18h2.5v-2.5',
  tool: 'M14.5 6.5a4 4 0 0 1 5-1.5l-2.7 2.7 1.5 1.5L21 6.5a4 4 0 0 1-5.4 5L9 18a2.1 2.1 0 0 1-3-3l6.6-6.5a4 4 0 0 1 1.9-2z',
  share: 'M12 15V4M8 7.5 12 3.5l4 4M6 11H5v9h14v-9h-1',
  sound: 'M4 10v4h3.5L12 18V6L7.5 10zM15.5 9.5a4 4 0 0 1 0 5M18 7a7.5 7.5 0 0 1 0 10',
  fold: 'M4 5h16M4 19h16M12 8v8M8.5 12.5 12 16l3.5-3.5',
  wrap: 'M4 6h16M4 12h13a3 3 0 0 1 0 6h-4M15 15.5 12.5 18l2.5 2.5M4 18h5',
  table: 'M4 5.5h16v13H4zM4 10h16M4 14.3h16M10 5.5v13',
};

/** A decoration: its meaning is in the label of the button around it. */
export function icon(name) {
  return svg('svg', {class: 'icon', viewBox: '0 0 24 24', 'aria-hidden': 'true', focusable: 'false'},
             svg('path', {d: kIcons[name]}));
}

/** The sign of weft: a basket weave of two threads. */
export function mark() {
  const thread = (kind, d) => svg('path', {class: kind, d});
  return svg('svg', {class: 'mark', viewBox: '0 0 32 32', 'aria-hidden': 'true', focusable: 'false'},
             thread('warp', 'M20 4.9v7.2M26.6 4.9v7.2M5.4 19.9v7.2M12 19.9v7.2'), thread('weft', 'M4.9 5.4h7.2M4.9 12h7.2M19.9 20h7.2M19.9 26.6h7.2'));
}

export function icon_button(name, label, onclick, props = {}) {
  return el('button', {type: 'button', class: 'icon-button', title: label, 'aria-label': label, onclick, ...props}, icon(name));
}

/**
 * Makes `from` equal to `to` and keeps every node that is equal already, so that a selection survives and nothing
 * flickers while text grows at the end. `to` is used up.
 */
export function morph(from, to) {
  let old = from.firstChild;
  let fresh = to.firstChild;
  while (fresh) {
    const next = fresh.nextSibling;
    if (!old) {
      from.append(fresh);
    } else {
      const next_old = old.nextSibling;
      morph_node(old, fresh);
      old = next_old;
    }
    fresh = next;
  }
  while (old) {
    const next = old.nextSibling;
    old.remove();
    old = next;
  }
}

/** morph() of one node; returns the node that is there now. */
export function morph_node(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE && fresh.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return old;
  }
  if (old.nodeName === fresh.nodeName && same_attributes(old, fresh)) {
    morph(old, fresh);
    return old;
  }
  old.replaceWith(fresh);
  return fresh;
}

function same_attributes(a, b) {
  if (a.attributes.length !== b.attributes.length) return false;
  for (const {name, value} of a.attributes) {
    if (b.getAttribute(name) !== value) return false;
  }
  return true;
}
