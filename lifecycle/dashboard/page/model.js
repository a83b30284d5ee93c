// What the events of a loop say: see docs/reference/events.md.

const maxRuns = 5000;
const maxTasks = 5000;

export const statuses = [['open', 'Open'], ['active', 'Active'], ['question', 'Question'], ['blocked', 'Blocked'], ['done', 'Done']];

// emptyModel is a loop before its first event.
export function emptyModel() {
  return {runs: new Map(), tasks: new Map(), state: '', text: '', until: null, since: null, limits: {}, near: [], started: null, ended: null, end: null, left: [], counts: null};
}

export const total = (tokens) => (tokens ? (tokens.input ?? 0) + (tokens.output ?? 0) + (tokens.cache_read ?? 0) + (tokens.cache_write ?? 0) : undefined);

// apply adds an event to a model.
export function apply(m, e) {
  switch (e.type) {
    case 'loop.start':
    case 'loop.resume':
      m.started ??= e.time;
      m.limits = e.limits ?? {};
      m.end = m.ended = null;
      m.counts = e.tasks ?? null;
      if (m.counts) m.left.push({time: e.time, left: remaining(m.counts)});
      break;
    case 'run.start':
      runOf(m, e.n, e.time).base = e.commit ?? '';
      break;
    case 'state':
      Object.assign(m, {state: e.state, text: e.text ?? '', until: e.until ?? null, since: e.time});
      break;
    case 'usage':
      Object.assign(runOf(m, e.n, e.time), {tokens: e.tokens, cost: e.cost_usd});
      break;
    case 'task':
      changeTask(m, e);
      break;
    case 'question':
      Object.assign(taskOf(m, e.id), {title: e.title, status: 'question', run: e.n, question: e});
      break;
    case 'limit':
      m.near.push(e);
      break;
    case 'run.end':
      Object.assign(runOf(m, e.n, e.started), {
        end: e.time, outcome: e.outcome, reason: e.reason ?? '', seconds: e.seconds, tokens: e.tokens, cost: e.cost_usd, claimed: e.tasks ?? [],
        done: e.done ?? [], commit: e.commit ?? '', commits: e.commits ?? 0, exit: e.exit_code, model: e.model ?? '', checks: e.checks ?? [],
        retries: e.retries ?? 0, refused: e.refused ?? [],
      });
      for (const id of e.done ?? []) if (m.tasks.get(id)?.status !== 'done') changeTask(m, {...e, id, status: 'done', title: '', reason: ''});
      break;
    case 'loop.end':
      m.end = e;
      m.ended = e.time;
      m.state = 'ended';
      break;
  }
}

const remaining = (c) => (c.open ?? 0) + (c.active ?? 0) + (c.waiting ?? 0) + (c.blocked ?? 0) + (c.question ?? 0);

function runOf(m, n, time) {
  let run = m.runs.get(n);
  if (!run) {
    run = {n, started: time, outcome: '', reason: '', claimed: [], done: [], checks: [], refused: [], commits: 0};
    m.runs.set(n, run);
    if (m.runs.size > maxRuns) m.runs.delete(m.runs.keys().next().value);
  }
  return run;
}

function taskOf(m, id) {
  let task = m.tasks.get(id);
  if (!task) {
    task = {id, title: '', status: '', reason: ''};
    m.tasks.set(id, task);
    if (m.tasks.size > maxTasks) m.tasks.delete(m.tasks.keys().next().value);
  }
  return task;
}

function changeTask(m, e) {
  const task = taskOf(m, e.id);
  const before = task.status;
  Object.assign(task, {title: e.title || task.title, status: e.status, reason: e.reason ?? '', run: e.n || task.run, time: e.time});
  const run = m.runs.get(e.n);
  if (run && !run.end && e.status === 'active' && !run.claimed.includes(e.id)) run.claimed.push(e.id);
  const closed = (status) => status === 'done' || status === 'deleted';
  let change = 0;
  if (closed(e.status)) change = closed(before) ? 0 : -1;
  else if (closed(before) || (before === '' && e.status === 'open' && !e.reason)) change = 1; // reopened or new
  const last = m.left.at(-1);
  if (change && last) m.left.push({time: e.time, left: Math.max(0, last.left + change)});
}

// board returns all tasks: those in the events of the loop, as they are in the backlog now.
export function board(m, backlog) {
  const tasks = new Map(m.tasks);
  for (const t of backlog?.tasks ?? []) tasks.set(t.id, {...tasks.get(t.id), reason: '', ...t});
  return [...tasks.values()].filter((t) => t.status !== 'deleted');
}

// totals sums up all runs.
export function totals(m) {
  const sum = {runs: m.runs.size, seconds: 0, tokens: undefined, cost: undefined, commits: 0, done: new Set()};
  for (const r of m.runs.values()) {
    sum.seconds += r.seconds ?? 0;
    sum.commits += r.commits;
    if (r.tokens) sum.tokens = (sum.tokens ?? 0) + total(r.tokens);
    if (Number.isFinite(r.cost)) sum.cost = (sum.cost ?? 0) + r.cost;
    for (const id of r.done) sum.done.add(id);
  }
  return sum;
}

const failures = new Set(['failed', 'checks failed', 'timed out', 'silent']);

// kind is how a run is shown: running, done, failed, or neutral.
export function kind(run) {
  if (!run.end) return 'running';
  if (run.outcome === 'done') return 'done';
  return failures.has(run.outcome) ? 'failed' : 'neutral';
}
