// Builds the document. Text from sandboxes becomes text nodes and attributes, never markup.

const svgNames = new Set(['svg', 'g', 'path', 'rect', 'line', 'text', 'title', 'circle', 'polyline']);

// present flattens children, and drops those that a condition has left out.
const present = (children) => children.flat(2).filter((c) => c !== undefined && c !== null && c !== false && c !== '');

// h creates an element: h('p', {class: 'x', onclick: f}, 'text', child, …).
export function h(name, attributes, ...children) {
  const e = svgNames.has(name) ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else e.setAttribute(key, value === true ? '' : String(value));
  }
  e.append(...present(children));
  return e;
}

export const byId = (id) => document.getElementById(id);

// draw replaces the content of an element if its data has changed. The focus stays where it is.
export function draw(parent, data, build) {
  const signature = JSON.stringify(data);
  if (parent.signature === signature) return;
  parent.signature = signature;
  const focused = parent.contains(document.activeElement) ? document.activeElement.id : '';
  parent.replaceChildren(...present([build()]));
  if (focused) byId(focused)?.focus({preventScroll: true});
}

// drawList keeps one child for each item, so that what is open in a child stays open.
export function drawList(parent, items, key, make, update) {
  const known = new Map([...parent.children].map((e) => [e.dataset.key, e]));
  let at = parent.firstElementChild;
  for (const item of items) {
    const k = String(key(item));
    let e = known.get(k);
    known.delete(k);
    if (!e) {
      e = make(item);
      e.dataset.key = k;
    }
    if (e === at) at = at.nextElementSibling;
    else parent.insertBefore(e, at);
    update(e, item);
  }
  for (const e of known.values()) e.remove();
}

// count formats "1 run", "2 runs".
export const count = (n, unit) => `${n} ${unit}${n === 1 ? '' : 's'}`;

// took formats seconds: "380 ms", "4.2 s", "3 min 5 s", "2 h 10 min".
export function took(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s % 60 ? ` ${s % 60} s` : ''}`;
  const minutes = Math.round(s / 60);
  return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ''}`;
}

// roughly formats seconds at an axis.
export function roughly(seconds) {
  const [unit, size] = seconds >= 7200 ? ['h', 3600] : seconds >= 120 ? ['min', 60] : ['s', 1];
  return `${+(seconds / size).toFixed(1)} ${unit}`;
}

// number formats 1234567 as "1.2M".
export function number(n) {
  if (!Number.isFinite(n)) return '–';
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
    if (Math.abs(n) >= size) return `${(n / size).toFixed(n / size < 10 ? 1 : 0).replace(/\.0$/, '')}${unit}`;
  }
  return String(Math.round(n));
}

export const exact = (n) => (Number.isFinite(n) ? n.toLocaleString('en') : '–');

export function money(usd) {
  if (!Number.isFinite(usd)) return '–';
  return `$${usd.toFixed(usd > 0 && usd < 0.1 ? 4 : 2)}`;
}

// clock formats a time of today as "15:04:05", and others with their date.
export function clock(time) {
  const t = new Date(time);
  const day = t.toDateString() === new Date().toDateString() ? '' : `${t.toLocaleDateString('en-CA')} `;
  return day + t.toLocaleTimeString('en-GB');
}

// when is a time element.
export const when = (time) => h('time', {datetime: new Date(time).toISOString(), title: new Date(time).toLocaleString('en-GB')}, clock(time));

// button is a plain button.
export const button = (attributes, ...children) => h('button', {type: 'button', ...attributes}, ...children);
