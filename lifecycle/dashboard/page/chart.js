import {h, took, count, clock} from './dom.js';
import {kind} from './model.js';

const width = 560;
const height = 180;
const pad = {left: 52, right: 8, top: 10, bottom: 22};
const maxBars = 120;

// niceTop rounds up to a value that is easy to read at an axis.
function niceTop(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((f) => f * size).find((top) => top >= value);
}

const blank = () => h('text', {class: 'axis', x: (width + pad.left) / 2, y: height / 2, 'text-anchor': 'middle'}, 'Nothing to plot');

function axes(top, format) {
  return [0, 0.5, 1].map((part) => {
    const y = pad.top + (height - pad.top - pad.bottom) * (1 - part);
    return h('g', {}, h('line', {class: 'grid', x1: pad.left, x2: width - pad.right, y1: y, y2: y}),
      h('text', {class: 'axis', x: pad.left - 6, y: y + 4, 'text-anchor': 'end'}, format(top * part)));
  });
}

const label = (x, text, anchor) => h('text', {class: 'axis', x, y: height - 5, 'text-anchor': anchor}, text);

// figure is a chart with its table. A screen reader gets the table only.
function figure(name, title, note, picture, heads, rows) {
  const table = h('table', {}, h('caption', {class: 'hidden'}, title), h('thead', {}, h('tr', {}, heads.map((text) => h('th', {scope: 'col'}, text)))),
    h('tbody', {}, rows.map((cells) => h('tr', {}, cells.map((text, i) => h(i ? 'td' : 'th', i ? {} : {scope: 'row'}, text))))));
  return h('figure', {class: 'card chart', 'aria-labelledby': `chart-${name}`},
    h('figcaption', {id: `chart-${name}`}, h('h2', {}, title), h('p', {class: 'note'}, note)), picture,
    h('details', {}, h('summary', {}, 'Table', h('span', {class: 'hidden'}, ` of ${title.toLowerCase()}`)),
      h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `${title}, table`}, table)));
}

// bars draws stacked bars, one for each run: parts(run) returns [class, value] pairs. unit(highest) is the unit
// of the axis.
export function bars(name, title, note, runs, parts, format, heads, row, unit = () => 1) {
  const shown = runs.slice(-maxBars);
  const sum = (run) => parts(run).reduce((all, [, value]) => all + (value || 0), 0);
  const highest = Math.max(0, ...shown.map(sum));
  const top = niceTop(highest / unit(highest)) * unit(highest);
  const step = (width - pad.left - pad.right) / Math.max(shown.length, 8);
  const scale = (height - pad.top - pad.bottom) / top;
  const columns = shown.map((run, i) => {
    let y = height - pad.bottom;
    const stack = parts(run).map(([style, value]) => {
      const size = Math.max(0, (value || 0) * scale);
      y -= size;
      return h('rect', {class: style, x: pad.left + i * step + step * 0.14, y, width: step * 0.72, height: size, rx: Math.min(2, size / 2)});
    });
    return h('g', {}, h('title', {}, `Run ${run.n}: ${row(run).slice(1).join(', ')}`), ...stack);
  });
  const picture = h('svg', {viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true'}, highest ? axes(top, format) : blank(), columns,
    highest ? [label(pad.left + step / 2, `#${shown[0].n}`, 'middle'), shown.length > 1 && label(pad.left + (shown.length - 0.5) * step, `#${shown.at(-1).n}`, 'middle')] : []);
  return figure(name, title, note, picture, heads, runs.slice(-1000).map(row));
}

// steps draws how many tasks were left over time, up to end or, by another clock, the last point.
export function steps(name, title, note, points, end) {
  const from = points.length ? +new Date(points[0].time) : 0;
  const to = Math.max(end, from + 1000, ...points.slice(-1).map((p) => +new Date(p.time)));
  const top = niceTop(Math.max(1, ...points.map((p) => p.left)));
  const x = (time) => pad.left + ((+new Date(time) - from) / (to - from)) * (width - pad.left - pad.right);
  const y = (left) => height - pad.bottom - (left / top) * (height - pad.top - pad.bottom);
  let path = '';
  points.forEach((p, i) => { path += i ? `H${x(p.time).toFixed(1)}V${y(p.left).toFixed(1)}` : `M${x(p.time).toFixed(1)} ${y(p.left).toFixed(1)}`; });
  if (path) path += `H${x(to).toFixed(1)}`;
  const base = height - pad.bottom;
  const picture = h('svg', {viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true'}, !points.length ? blank() : axes(top, (v) => (Number.isInteger(v) ? String(v) : '')),
    path && [h('path', {class: 'area', d: `${path}V${base}H${pad.left}Z`}), h('path', {class: 'line', d: path})],
    points.length ? [label(pad.left, clock(from), 'start'), label(width - pad.right, clock(to), 'end')] : []);
  return figure(name, title, note, picture, ['Time', 'Tasks left'], points.slice(-1000).map((p) => [clock(p.time), String(p.left)]));
}

// strip draws all runs on one time line, and calls open with the number of a run.
export function strip(runs, started, end, open) {
  const wide = 1000;
  const from = +new Date(started ?? runs[0]?.started ?? end);
  const span = Math.max(end - from, 1000);
  const marks = runs.map((run) => {
    const begin = ((+new Date(run.started) - from) / span) * wide;
    const size = (((run.end ? +new Date(run.started) + run.seconds * 1000 : end) - +new Date(run.started)) / span) * wide;
    return h('g', {class: 'mark', onclick: () => open(run.n)},
      h('title', {}, `Run ${run.n}: ${run.claimed.join(', ') || 'no task'}, ${run.end ? `${run.outcome}, ${took(run.seconds)}` : 'running'}`),
      h('rect', {class: kind(run), x: Math.min(begin, wide - 2), y: 2, width: Math.max(2, Math.min(size, wide - begin) - 1), height: 20, rx: 2}));
  });
  return [
    h('svg', {viewBox: `0 0 ${wide} 24`, preserveAspectRatio: 'none', class: 'line-of-runs', 'aria-hidden': 'true'}, h('rect', {class: 'lane', x: 0, y: 2, width: wide, height: 20, rx: 3}), marks),
    h('p', {class: 'ends'}, h('span', {}, clock(from)), h('span', {}, `${count(runs.length, 'run')} in ${took((end - from) / 1000)}`), h('span', {}, clock(end))),
  ];
}
