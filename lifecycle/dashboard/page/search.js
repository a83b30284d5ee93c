import {h, byId, count, button} from './dom.js';
import {board} from './model.js';
import {search} from './source.js';

let pending = new AbortController();

// find shows the tasks, runs and lines of output that contain a text, regardless of case.
export async function find(text, loop, m, backlog, open) {
  pending.abort();
  pending = new AbortController();
  const {signal} = pending;
  const results = byId('results');
  const query = text.trim().toLowerCase();
  results.hidden = query === '';
  byId('views').hidden = query !== '';
  if (query === '') return;
  const has = (...values) => values.some((v) => String(v ?? '').toLowerCase().includes(query));
  const tasks = board(m, backlog).filter((t) => has(t.id, t.title, t.reason, t.question?.question)).slice(0, 100);
  const runs = [...m.runs.values()].reverse().filter((r) => has(`#${r.n}`, r.outcome, r.reason, r.commit, r.model, ...r.claimed, ...r.refused.map((x) => x.host), ...r.checks.map((c) => c.command))).slice(0, 100);
  const item = (run, ...content) => h('li', {}, run > 0 ? button({class: 'link', onclick: () => open(run)}, `Run ${run}`) : h('span', {class: 'note'}, 'No run'), ' ', ...content);
  const group = (name, items) => h('section', {class: 'card'}, h('h2', {}, `${name} `, h('span', {class: 'count'}, String(items.length))), h('ul', {class: 'found'}, items));
  const parts = [
    group('Tasks', tasks.map((t) => item(t.run, mark(t.title || t.id, query), ' ', h('code', {}, t.id), ` ${t.status}`))),
    group('Runs', runs.map((r) => item(r.n, mark(`${r.outcome || 'running'} ${r.claimed.join(', ')} ${r.reason}`, query)))),
  ];
  const waiting = h('p', {class: 'note', role: 'status'}, 'Searching the output …');
  results.replaceChildren(h('h2', {class: 'hidden'}, `Results for ${text}`), ...parts, waiting);
  try {
    const lines = await search(loop, text.trim(), signal);
    if (signal.aborted) return;
    waiting.replaceWith(group('Output', lines.map((l) => item(l.run, h('span', {class: 'note'}, `line ${l.line} `), h('code', {class: 'found-line'}, mark(l.text, query))))));
    byId('announce').textContent = `${count(tasks.length, 'task')}, ${count(runs.length, 'run')}, ${count(lines.length, 'line')} found`;
  } catch (error) {
    if (!signal.aborted) waiting.textContent = error.message;
  }
}

// mark marks the first occurrence.
function mark(text, query) {
  const at = text.toLowerCase().indexOf(query);
  if (at < 0) return [text];
  return [text.slice(0, at), h('mark', {}, text.slice(at, at + query.length)), text.slice(at + query.length)];
}
