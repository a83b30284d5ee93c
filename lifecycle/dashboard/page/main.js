import {h, byId, draw} from './dom.js';
import {emptyModel, apply} from './model.js';
import {diffView} from './diff.js';
import {status, drawPlaces, drawHead, drawTiles, drawStrip, drawBoard, drawCharts, drawRuns} from './views.js';
import {live, takeToken, follow, output, diff} from './source.js';
import {find} from './search.js';

const views = ['board', 'runs', 'charts', 'output'];
const maxText = 400000; // characters of output

const page = {
  state: null, model: emptyModel(), backlog: null, loop: '', view: 'board', more: new Set(), query: '',
  fresh: true, stop: () => {}, connection: 'Connecting …', text: {run: 0, parts: '', skipped: false}, announced: '',
};

// link is the fragment of a place in this page.
function link({place, loop, view}) {
  const at = new URLSearchParams();
  if (place) at.set('place', place);
  if (loop) at.set('loop', loop);
  at.set('view', view ?? page.view);
  return `#${at}`;
}

const at = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

// chosen returns the worktree and the loop that the URL names, or the first one.
function chosen() {
  const {place, loop} = at();
  const all = page.state?.worktrees ?? [];
  const w = all.find((x) => x.loops.some((l) => l.key === loop)) ?? all.find((x) => x.key === place) ?? (place ? undefined : all.find((x) => x.loops.length > 0)) ?? all[0];
  return {w, loop: w?.loops.find((l) => l.key === loop) ?? w?.loops[0]};
}

function connect(loop) {
  page.stop();
  Object.assign(page, {loop, model: emptyModel(), backlog: null, more: new Set(), fresh: true, text: {run: 0, parts: '', skipped: false}});
  byId('run-list').replaceChildren();
  byId('output').signature = undefined;
  page.stop = follow(loop, receive);
}

function receive(name, data) {
  switch (name) {
    case 'connected':
      page.connection = '';
      page.fresh = true;
      break;
    case 'lost':
      page.connection = `Connection lost: ${data}`;
      break;
    case 'token':
      page.connection = 'Not connected';
      needToken();
      break;
    case 'failure':
      page.connection = data;
      break;
    case 'state':
      page.state = data;
      page.connection = '';
      if (page.loop !== (chosen().loop?.key ?? '')) connect(chosen().loop?.key ?? '');
      break;
    case 'backlog':
      page.backlog = data;
      break;
    case 'events':
      if (page.fresh) page.model = emptyModel();
      page.fresh = false;
      for (const event of data ?? []) apply(page.model, event);
      break;
    case 'output':
      addOutput(data);
      break;
  }
  schedule();
}

function addOutput({run, text, skipped}) {
  const old = page.text;
  if (old.run !== run || skipped || page.fresh) page.text = {run, parts: text, skipped: Boolean(skipped)};
  else old.parts += text;
  if (page.text.parts.length > maxText) Object.assign(page.text, {parts: page.text.parts.slice(-maxText / 2), skipped: true});
}

let scheduled = false;

// schedule draws once for all that arrives at a time.
function schedule() {
  if (scheduled) return;
  scheduled = true;
  setTimeout(() => { scheduled = false; render(); }, 30);
}

function render() {
  drawConnection();
  if (!page.state) return;
  const {w, loop} = chosen();
  drawPlaces(page.state, {loop: loop?.key, place: w?.key}, link);
  byId('place').textContent = w ? `${w.repo || w.root} ${w.branch}` : 'Sandboxes';
  byId('loop').hidden = !loop;
  drawEmpty(w, loop);
  if (!loop) return;
  const m = page.model;
  document.title = `${status(loop, m)[1]} · ${w.repo} ${w.branch} · docker ralph`;
  drawHead(w, loop, m, link);
  drawTiles(loop, m, page.backlog);
  drawStrip(loop, m, openRun);
  drawBoard(m, page.backlog, page.more, openRun, schedule);
  drawRuns(m, show);
  if (page.view === 'charts') drawCharts(loop, m);
  if (page.view === 'output') drawOutput(loop);
  announce(loop, m);
}

function drawConnection() {
  const time = page.state?.time;
  const words = live ? page.connection || 'Live' : `Report of ${new Date(time).toLocaleString('en-GB')}`;
  draw(byId('connection'), words, () => [h('span', {class: `dot ${!live ? 'neutral' : page.connection ? 'failed' : 'done'}`, 'aria-hidden': 'true'}), h('span', {}, words)]);
}

function drawEmpty(w, loop) {
  byId('empty').hidden = Boolean(loop);
  if (loop) return;
  draw(byId('empty'), w?.key ?? '', () => h('div', {class: 'card blank'}, h('h1', {}, w ? `${w.repo} ${w.branch}` : 'No sandboxes'),
    h('p', {}, 'No loop has a log here yet.'), h('p', {}, 'Start one with ', h('code', {}, 'docker ralph build'), '.')));
}

// announce tells screen readers of a change of the loop, not of every figure.
function announce(loop, m) {
  const words = `${status(loop, m)[1]}${loop.running && m.runs.size ? `, run ${[...m.runs.keys()].at(-1)}` : ''}`;
  if (words !== page.announced) byId('announce').textContent = words;
  page.announced = words;
}

function drawOutput(loop) {
  const panel = byId('output');
  let pre = panel.querySelector('pre');
  if (!pre || panel.signature !== page.loop) {
    panel.signature = page.loop;
    pre = h('pre', {id: 'output-text', tabindex: 0, 'aria-label': 'Output'});
    panel.replaceChildren(h('p', {class: 'note', id: 'output-note'}), pre);
  }
  const {run, parts, skipped} = page.text;
  const running = loop.running && !page.model.runs.get(run)?.end;
  byId('output-note').textContent = `${run > 0 ? `Run ${run}` : 'Before the first run'}${running ? ', live' : ''}${skipped ? '. The beginning is not shown.' : ''}`;
  const bottom = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
  if (pre.textContent !== parts) {
    pre.textContent = parts;
    if (bottom) pre.scrollTop = pre.scrollHeight;
  }
}

// show loads the diff or the output of a run.
async function show(run, what, into) {
  into.replaceChildren(h('p', {class: 'note', role: 'status'}, 'Loading …'));
  try {
    if (what === 'diff') into.replaceChildren(diffView(await diff(page.loop, run.n)));
    else {
      const found = await output(page.loop, run.n);
      into.replaceChildren(h('p', {class: 'note'}, found.skipped ? 'The beginning is not shown.' : ''), h('pre', {class: 'text', tabindex: 0, 'aria-label': `Output of run ${run.n}`}, found.text));
    }
  } catch (error) {
    into.replaceChildren(h('p', {class: 'note', role: 'alert'}, error.message));
  }
}

// openRun shows a run in the list.
function openRun(n) {
  byId('query').value = '';
  updateSearch();
  select('runs');
  const details = byId(`run-${n}`)?.firstElementChild;
  if (!details) return;
  details.open = true;
  details.querySelector('summary').focus();
  details.scrollIntoView({block: 'start'});
}

function select(view, focus) {
  page.view = views.includes(view) ? view : 'board';
  for (const name of views) {
    const tab = byId(`tab-${name}`);
    const on = name === page.view;
    tab.setAttribute('aria-selected', String(on));
    tab.tabIndex = on ? 0 : -1;
    if (on && focus) tab.focus();
    byId(name).hidden = !on;
  }
  history.replaceState(null, '', link(at().place || at().loop ? {...at(), view: page.view} : {view: page.view}));
  schedule();
}

function updateSearch() {
  page.query = byId('query').value;
  find(page.query, page.loop, page.model, page.backlog, openRun);
}

function needToken() {
  byId('loop').hidden = true;
  byId('empty').hidden = false;
  const input = h('input', {id: 'token', autocomplete: 'off', spellcheck: 'false'});
  draw(byId('empty'), 'token', () => h('form', {class: 'card blank', onsubmit: (e) => {
    e.preventDefault();
    sessionStorage.setItem('token', input.value.trim().replace(/^.*token=/, ''));
    byId('empty').signature = undefined;
    connect(at().loop ?? '');
  }}, h('h1', {}, 'Token needed'), h('p', {}, 'Open the URL that ', h('code', {}, 'docker ralph serve'), ' has printed, or paste it here.'),
  h('label', {for: 'token'}, 'URL or token'), input, h('button', {type: 'submit'}, 'Connect')));
}

byId('views').querySelector('[role=tablist]').addEventListener('click', (e) => {
  const view = e.target.closest('[data-view]')?.dataset.view;
  if (view) select(view);
});
byId('views').querySelector('[role=tablist]').addEventListener('keydown', (e) => {
  const to = {ArrowRight: views.indexOf(page.view) + 1, ArrowLeft: views.indexOf(page.view) - 1, Home: 0, End: views.length - 1}[e.key];
  if (to === undefined) return;
  e.preventDefault();
  select(views.at(to % views.length), true);
});
byId('search').addEventListener('submit', (e) => { e.preventDefault(); updateSearch(); });
let typing = 0;
byId('query').addEventListener('input', () => { clearTimeout(typing); typing = setTimeout(updateSearch, 150); });
byId('query').addEventListener('keydown', (e) => { if (e.key === 'Escape') { byId('query').value = ''; updateSearch(); } });
document.addEventListener('keydown', (e) => {
  if (e.key === '/' && !e.target.closest('input, textarea, select') && !e.ctrlKey && !e.metaKey && !e.altKey) {
    e.preventDefault();
    byId('query').focus();
  }
});
window.addEventListener('hashchange', () => {
  takeToken();
  if (at().view) select(at().view);
  const key = chosen().loop?.key ?? '';
  if (page.state && key !== page.loop) {
    byId('query').value = '';
    updateSearch();
    connect(key);
  }
  schedule();
});

if (matchMedia('(max-width: 860px)').matches) byId('places').open = false;
takeToken();
select(at().view);
connect(at().loop ?? '');
setInterval(() => { if (live && chosen().loop?.running) schedule(); }, 1000);
