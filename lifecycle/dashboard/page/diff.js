import {h, count} from './dom.js';

const maxLines = 6000;

// files splits the output of git diff.
function files(text) {
  const found = [];
  let file = null;
  for (const line of text.split('\n')) {
    if (line.startsWith('diff --git ')) {
      file = {name: line.slice(11), added: 0, removed: 0, lines: [], hunk: false};
      found.push(file);
    } else if (!file) {
      continue;
    } else if (file.hunk || line.startsWith('@@')) {
      file.hunk = true;
      file.lines.push(line);
      if (line.startsWith('+')) file.added++;
      if (line.startsWith('-')) file.removed++;
    } else if (/^(---|\+\+\+) [ab]\//.test(line)) {
      file.name = line.slice(6);
    } else if (/^(Binary|new file|deleted file|rename|old mode|new mode)/.test(line)) {
      file.lines.push(line);
    }
  }
  return found;
}

const styles = new Map([['+', 'added'], ['-', 'removed'], ['@', 'hunk']]);

// diffView shows the changes of a run.
export function diffView(d) {
  const all = files(d.text);
  let left = maxLines;
  const parts = all.map((file) => {
    const shown = file.lines.slice(0, left);
    left -= shown.length;
    return h('details', {class: 'file', open: all.length <= 20},
      h('summary', {}, h('code', {}, file.name), h('span', {class: 'added'}, `+${file.added}`), h('span', {class: 'removed'}, `−${file.removed}`)),
      h('pre', {tabindex: 0, 'aria-label': `Changes of ${file.name}`}, shown.map((line) => h('span', {class: styles.get(line[0])}, `${line}\n`))));
  });
  const note = d.truncated || left <= 0 ? ' The end is not shown: it is too long.' : '';
  return h('div', {class: 'diff'},
    h('p', {class: 'note'}, `${count(all.length, 'file')} changed between `, h('code', {}, d.base.slice(0, 9)), ' and ', h('code', {}, d.head.slice(0, 9)), `.${note}`), parts);
}
