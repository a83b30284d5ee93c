// Where the data comes from: the server, or the report that this page is.

const embedded = document.getElementById('data');
const report = embedded && JSON.parse(embedded.textContent);
const loops = new Map(Object.entries(report?.loops ?? {}));

// live is false in a report.
export const live = !report;

// takeToken takes the token out of the URL. It stays in this tab.
export function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1));
  if (!live || !found.has('token')) return;
  sessionStorage.setItem('token', found.get('token'));
  found.delete('token');
  history.replaceState(null, '', `#${found}`);
}

const ask = (path, parameters, signal) => fetch(`/api/${path}?${new URLSearchParams(parameters)}`, {
  headers: {Authorization: `Bearer ${sessionStorage.getItem('token') ?? ''}`}, signal, cache: 'no-store',
});

async function json(path, parameters, signal) {
  const answer = await ask(path, parameters, signal);
  if (!(answer.headers.get('Content-Type') ?? '').startsWith('application/json')) throw new Error(await answer.text());
  const result = await answer.json();
  if (!answer.ok) throw new Error(result.error);
  return result;
}

// follow calls on(name, data) with what the server sends about a loop, until stop is called.
// It connects again when the connection ends.
export function follow(loop, on) {
  const stopped = new AbortController();
  if (report) {
    queueMicrotask(() => tell(loop, on));
    return () => {};
  }
  (async () => {
    for (let wait = 1000; !stopped.signal.aborted; wait = Math.min(wait * 2, 10000)) {
      try {
        const answer = await ask('stream', loop ? {loop} : {}, stopped.signal);
        if (answer.status === 401) return on('token', await answer.text());
        if (!answer.ok) throw new Error(await answer.text());
        on('connected', null);
        wait = 1000;
        await read(answer.body, on);
      } catch (error) {
        if (stopped.signal.aborted) return undefined;
        on('lost', String(error.message ?? error));
      }
      await new Promise((done) => { setTimeout(done, wait); });
    }
    return undefined;
  })();
  return () => stopped.abort();
}

// read parses server-sent events.
async function read(body, on) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) throw new Error('the server has ended the connection');
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? [];
      if (name) on(name, JSON.parse(data));
    }
  }
}

function tell(key, on) {
  on('state', report.state);
  const found = loops.get(key);
  if (!found) return;
  on('backlog', found.backlog);
  on('events', found.events ?? []);
  const last = Math.max(0, ...Object.keys(found.outputs).map(Number));
  if (found.outputs[last]) on('output', found.outputs[last]);
}

const missing = (loop, what) => new Error(loops.get(loop)?.omitted ? `The report has no room for this ${what}.` : what === 'diff' ? 'The commits of this run are not on the branch.' : 'This run has no output.');

// output and diff return those of a run, and search the lines of a loop's output with a text.
export async function output(loop, run) {
  if (!report) return json('output', {loop, run});
  const found = loops.get(loop)?.outputs[run];
  if (!found) throw missing(loop, 'output');
  return found;
}

export async function diff(loop, run) {
  if (!report) return json('diff', {loop, run});
  const found = loops.get(loop)?.diffs[run];
  if (!found) throw missing(loop, 'diff');
  return found;
}

export async function search(loop, q, signal) {
  if (!report) return json('search', {loop, q}, signal);
  const found = [];
  for (const [run, {text}] of Object.entries(loops.get(loop)?.outputs ?? {})) {
    text.split('\n').forEach((line, i) => { if (found.length < 200 && line.toLowerCase().includes(q.toLowerCase())) found.push({run: Number(run), line: i + 1, text: line.length > 500 ? line.slice(0, 500) + '…' : line}); });
  }
  return found;
}
