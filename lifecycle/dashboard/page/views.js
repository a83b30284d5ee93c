import {h, byId, draw, drawList, took, roughly, number, exact, money, when, count, button} from './dom.js';
import {statuses, board, totals, total, kind} from './model.js';
import {bars, steps, strip} from './chart.js';

// Maps, not objects: names in events are an agent's, and an object has a "constructor".
const states = new Map([
  ['working', 'Working'], ['checking', 'Checking'], ['rate_limited', 'Waiting for a rate limit'], ['retrying', 'Retrying'], ['waiting', 'Waiting'],
]);
const pauses = new Set(['rate_limited', 'retrying', 'waiting']);
const limits = new Map([['max_cost_usd', ['Cost', money]], ['max_tokens', ['Tokens', number]], ['max_duration', ['Time', took]]]);

// status says how a loop stands: [kind, words].
export function status(loop, m) {
  const now = m?.state || loop.now?.state;
  if (loop.running) return [pauses.has(now) ? 'waiting' : 'running', states.get(now) ?? 'Running'];
  if (!loop.ended) return ['failed', 'Not finished'];
  const words = (loop.stop || 'ended').replaceAll('_', ' ');
  return [loop.exit_code === 0 ? 'done' : 'failed', words[0].toUpperCase() + words.slice(1)];
}

const dot = (type) => h('span', {class: `dot ${type}`, 'aria-hidden': 'true'});
const badge = ([type, words]) => h('span', {class: `badge ${type}`}, dot(type), h('span', {class: 'words'}, words));

// drawPlaces lists the sandboxes; link(key) is where a loop is shown.
export function drawPlaces(state, current, link) {
  draw(byId('sandboxes'), [state.worktrees, current], () => state.worktrees.map((w) => {
    const loop = w.loops[0];
    const [type, words] = loop ? status(loop) : ['neutral', 'No loop'];
    const here = w.loops.some((l) => l.key === current.loop) || w.key === current.place;
    return h('li', {}, h('a', {href: link({place: w.key, loop: loop?.key}), 'aria-current': here ? 'page' : undefined, id: `place-${w.key}`},
      h('span', {class: 'branch'}, dot(type), h('span', {}, w.branch || w.root)), h('span', {class: 'where'}, w.repo || w.root),
      h('span', {class: 'where'}, `${words}${w.sandbox ? ` · sandbox ${w.sandbox.state}` : ' · no sandbox'}`)));
  }));
  const problems = state.warnings ?? [];
  byId('warnings').hidden = problems.length === 0;
  draw(byId('warnings'), problems, () => problems.map((text) => h('li', {}, text)));
}

// drawHead draws the name of a loop, how it stands, and the choice of another one.
export function drawHead(w, loop, m, link) {
  const stands = status(loop, m);
  const run = m.runs.get(loop.now.n);
  const title = loop.now.title || [...m.tasks.values()].find((t) => t.id === run?.claimed[0])?.title || '';
  draw(byId('head'), [w.repo, w.branch, loop.key, w.loops.map((l) => [l.key, status(l)[1]]), stands, m.text, m.until, run?.n, run?.claimed, title, loop.error, loop.summary, m.near], () => [
    h('div', {class: 'title'},
      h('h1', {id: 'title'}, w.repo && h('span', {class: 'repo'}, w.repo, ' '), h('span', {}, w.branch || w.root)), badge(stands),
      h('label', {class: 'choice'}, h('span', {class: 'hidden'}, 'Loop'),
        h('select', {id: 'loops', onchange: (e) => { location.hash = link({place: w.key, loop: e.target.value}); }},
          w.loops.map((l) => h('option', {value: l.key, selected: l.key === loop.key}, `${l.mode} · ${l.started.slice(0, 16).replace('T', ' ')} · ${status(l)[1].toLowerCase()}`))))),
    h('p', {class: 'doing'}, doing(loop, m, run, title)),
    m.near.length > 0 && loop.running && h('ul', {class: 'warnings'}, m.near.map((b) => h('li', {}, near(b)))),
  ]);
}

function doing(loop, m, run, title) {
  if (!loop.running) return [loop.error || (loop.ended ? loop.summary : 'Its log has no end: the loop was killed, or its sandbox is not known here.')];
  const tasks = run?.claimed.join(', ');
  const waits = [m.text, m.until && `until ${new Date(m.until).toLocaleTimeString('en-GB')}`].filter(Boolean).join(' ');
  return [run ? `Run ${run.n}` : 'Starting', tasks && [' · ', h('code', {}, tasks), title && ` ${title}`], waits && ` · ${waits}`].flat();
}

function near(b) {
  const [name, format] = limits.get(b.name) ?? [b.name, number];
  return `${name}: ${format(b.used)} of ${format(b.limit)} used`;
}

// drawTiles draws the figures of a loop.
export function drawTiles(loop, m, backlog) {
  const sum = totals(m);
  const tasks = board(m, backlog);
  const done = tasks.filter((t) => t.status === 'done').length;
  const to = loop.running ? Date.now() : +new Date(loop.ended ?? m.ended ?? [...m.runs.values()].at(-1)?.end ?? loop.started);
  const elapsed = (to - new Date(loop.started)) / 1000;
  const tile = (name, value, part, limit, note) => h('div', {class: 'card tile'}, h('h2', {}, name), h('p', {class: 'value'}, value),
    limit > 0 ? h('progress', {max: limit, value: Math.min(part ?? 0, limit), 'aria-label': `${name}, used part`}) : h('div', {class: 'rule'}), h('p', {class: 'note'}, note));
  const of = (limit, format, otherwise) => (limit ? `of ${format(limit)}` : otherwise);
  const b = m.limits;
  draw(byId('tiles'), [tasks.length, done, sum.runs, sum.commits, sum.tokens, sum.cost, Math.floor(elapsed), b, [...m.runs.values()].map(kind)], () => [
    tile('Tasks', `${done} / ${tasks.length}`, done, tasks.length, `${tasks.length - done} left`),
    tile('Runs', String(sum.runs), sum.runs, b.max_iterations, `${count([...m.runs.values()].filter((r) => kind(r) === 'failed').length, 'failed')}, ${count(sum.commits, 'commit')}`.replace('faileds', 'failed')),
    tile('Time', took(elapsed), elapsed, b.max_duration_seconds, of(b.max_duration_seconds, took, 'no limit')),
    tile('Tokens', number(sum.tokens), sum.tokens, b.max_tokens, of(b.max_tokens, number, sum.tokens === undefined ? 'not reported' : 'no limit')),
    tile('Cost', money(sum.cost), sum.cost, b.max_cost_usd, of(b.max_cost_usd, money, sum.cost === undefined ? 'not reported' : 'no limit')),
  ]);
}

export function drawStrip(loop, m, open) {
  const runs = [...m.runs.values()];
  const last = runs.at(-1);
  const end = loop.running ? Math.floor(Date.now() / 1000) * 1000 : +new Date(loop.ended ?? last?.end ?? last?.started ?? loop.started);
  byId('strip').hidden = runs.length === 0;
  draw(byId('strip'), [runs.map((r) => [r.n, r.end, r.outcome, r.claimed]), end, loop.key], () => strip(runs, loop.started, end, open));
}

const shownCards = 30;

// drawBoard draws the tasks by their status. more has the columns that are shown in full.
export function drawBoard(m, backlog, more, open, redraw) {
  const tasks = board(m, backlog);
  const running = new Set([...m.runs.values()].filter((r) => !r.end).flatMap((r) => r.claimed));
  draw(byId('board'), [tasks, [...more], [...running], backlog?.error], () => {
    if (tasks.length === 0) return [h('p', {class: 'blank'}, backlog?.error ?? 'No tasks are known.')];
    return statuses.map(([status, name]) => {
      const found = tasks.filter((t) => (t.status === 'finished' ? 'active' : t.status) === status).sort((a, b) => (status === 'done' ? (b.run ?? 0) - (a.run ?? 0) : (a.priority ?? 2) - (b.priority ?? 2)));
      const shown = more.has(status) ? found.slice(0, 2000) : found.slice(0, shownCards);
      return h('section', {class: `column ${status}${found.length ? '' : ' none'}`, 'aria-labelledby': `column-${status}`},
        h('h2', {id: `column-${status}`}, dot(status), name, ' ', h('span', {class: 'count'}, String(found.length))),
        h('ul', {}, shown.map((t) => card(t, open))),
        found.length > shown.length && button({class: 'link', onclick: () => { more.add(status); redraw(); }}, `Show all ${found.length}`));
    });
  });
}

function card(t, open) {
  return h('li', {class: 'card task'}, h('p', {class: 'task-title'}, t.title || t.id),
    h('p', {class: 'meta'}, h('code', {}, t.id), t.run > 0 && button({class: 'link', onclick: () => open(t.run)}, h('span', {class: 'hidden'}, 'Run '), `#${t.run}`)),
    t.question && t.status === 'question' && h('div', {class: 'asks'}, h('p', {}, t.question.question),
      t.question.options?.length > 0 && h('ul', {}, t.question.options.map((o) => h('li', {}, o, o === t.question.default && ' (default)'))),
      t.question.default_at && h('p', {class: 'note'}, 'Default at ', when(t.question.default_at))),
    t.status === 'finished' && h('p', {class: 'note'}, 'Finished: being checked and taken'),
    t.reason && t.status !== 'done' && h('p', {class: 'reason'}, t.reason.replace(/:$/, '')));
}

// drawCharts draws the plots of all finished runs.
export function drawCharts(loop, m) {
  const runs = [...m.runs.values()].filter((r) => r.end);
  const to = loop.running ? Math.floor(Date.now() / 10000) * 10000 : +new Date(loop.ended ?? runs.at(-1)?.end ?? loop.started);
  draw(byId('charts'), [runs.map((r) => [r.n, r.seconds, r.tokens, r.cost, r.outcome]), m.left, to], () => {
    const sum = totals(m);
    const cached = (r) => (r.tokens ? (r.tokens.cache_read ?? 0) + (r.tokens.cache_write ?? 0) : undefined);
    return [
      steps('left', 'Tasks left', m.left.length ? `${m.left.at(-1).left} left` : 'not known', m.left, to),
      bars('cost', 'Cost per run', sum.cost > 0 ? `${money(sum.cost)} in total` : 'no cost reported', runs, (r) => [['cost', r.cost]], (v) => money(v), ['Run', 'Cost'], (r) => [`#${r.n}`, money(r.cost)]),
      bars('tokens', 'Tokens per run', !(sum.tokens > 0) ? 'no tokens reported' : [h('span', {class: 'key cached'}), 'cached ', h('span', {class: 'key input'}), 'input ', h('span', {class: 'key output'}), 'output'], runs,
        (r) => [['cached', cached(r)], ['input', r.tokens?.input], ['output', r.tokens?.output]], number, ['Run', 'Cached', 'Input', 'Output'],
        (r) => [`#${r.n}`, ...[cached(r), r.tokens?.input, r.tokens?.output].map((v) => exact(v))]),
      bars('time', 'Time per run', [h('span', {class: 'key done'}), 'done ', h('span', {class: 'key failed'}), 'failed ', h('span', {class: 'key neutral'}), 'other'], runs, (r) => [[kind(r), r.seconds]], roughly,
        ['Run', 'Time', 'Outcome'], (r) => [`#${r.n}`, took(r.seconds), r.outcome], (top) => (top >= 7200 ? 3600 : top >= 120 ? 60 : 1)),
    ];
  });
}

// drawRuns lists the runs, newest first. show(run, what) loads a diff or an output.
export function drawRuns(m, show) {
  const runs = [...m.runs.values()].reverse();
  byId('runs-count').textContent = runs.length || '';
  byId('run-list').classList.toggle('blank', runs.length === 0);
  drawList(byId('run-list'), runs, (r) => r.n, (r) => h('li', {id: `run-${r.n}`}, h('details', {class: 'card run'}, h('summary'), h('div', {class: 'receipt'}), h('div', {class: 'shown'}))), (e, r) => {
    const [summary, receipt, shown] = e.firstElementChild.children;
    const title = m.tasks.get(r.claimed[0] ?? r.done[0])?.title ?? '';
    draw(summary, [r, title], () => [
      h('span', {class: 'n'}, `#${r.n}`), h('span', {class: 'what'}, h('strong', {}, title || r.claimed.join(', ') || 'No task'), title && h('code', {}, r.claimed.join(', ') || r.done.join(', '))),
      badge([kind(r), r.end ? r.outcome : 'running']),
      h('span', {class: 'figures'}, [r.end ? took(r.seconds) : `since ${new Date(r.started).toLocaleTimeString('en-GB')}`, total(r.tokens) > 0 && `${number(total(r.tokens))} tokens`, r.cost > 0 && money(r.cost), r.commits > 0 && count(r.commits, 'commit')].filter(Boolean).join(' · ')),
      why(r) && h('span', {class: 'reason'}, why(r))]);
    draw(receipt, r, () => [facts(r), h('p', {class: 'actions'},
      r.commits > 0 && button({id: `diff-${r.n}`, onclick: () => show(r, 'diff', shown)}, 'Show diff', h('span', {class: 'hidden'}, ` of run ${r.n}`)),
      button({id: `output-${r.n}`, onclick: () => show(r, 'output', shown)}, 'Show output', h('span', {class: 'hidden'}, ` of run ${r.n}`)))]);
  });
}

// why says why a run has failed.
function why(r) {
  const failed = r.checks.find((c) => c.failure);
  return r.reason || (failed ? `${failed.command}: ${failed.failure}` : '');
}

function facts(r) {
  const t = r.tokens;
  const all = [
    ['Started', when(r.started)], ['Model', r.model], ['Tokens', total(t) > 0 && `${exact(t.input)} in, ${exact((t.cache_read ?? 0) + (t.cache_write ?? 0))} cached, ${exact(t.output)} out`],
    ['Retries', r.retries > 0 && String(r.retries)], ['Exit code', r.exit ? String(r.exit) : ''], ['Commit', r.commit && h('code', {}, r.commit.slice(0, 12))],
    ['Checks', r.checks.length > 0 && h('ul', {}, r.checks.map((c) => h('li', {class: c.failure ? 'bad' : 'good'}, c.failure ? '✗ ' : '✓ ', h('code', {}, c.command), ` ${c.failure || 'passed'}, ${took(c.seconds)}`)))],
    ['Blocked hosts', r.refused.length > 0 && h('ul', {}, r.refused.map((x) => h('li', {}, h('code', {}, x.port ? `${x.host}:${x.port}` : x.host), x.times > 1 && ` ${x.times} times`)))],
  ];
  return h('dl', {}, all.filter(([, value]) => value).map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}

