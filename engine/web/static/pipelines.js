/* All pipelines that the host knows: those of its folders, and those that ran. */
import {ago} from './times.js';
import {badge, runState} from './states.js';
import {empty} from './ask.js';
import {fill, h} from './dom.js';
import {go} from './nav.js';
import {livePage} from './livepage.js';
import {pipelines, schedules} from './api.js';

function lastCell(p) {
    return p.last ? [badge(runState(p.last)), ' ', h('a.under', {href: `runs/${p.last.no}`}, `#${p.last.no}`), ' ',
        h('span.dim', ago(p.last.started_wall || p.last.queued_wall))] : h('span.dim', 'never ran');
}

function row(p, next) {
    const to = `pipelines/${encodeURIComponent(p.name)}`, due = next.get(p.name);

    return h('tr.row', {tabindex: '0', 'data-to': to}, h('td', h('a', {href: to}, p.name)), h('td', lastCell(p)),
        h('td.dim', due ? ago(due) : p.schedules > 0 ? 'paused' : '–'), h('td.mono.dim.wide', p.file));
}

/* When each pipeline's schedules fire next, the first of them. */
function nextOf(items) {
    const next = new Map();

    for (const s of items)
        if (s.next && !(next.get(s.pipeline) < s.next[0]?.at_ms))
            next.set(s.pipeline, s.next[0]?.at_ms);
    return next;
}

export function open(main) {
    const field = h('input', {type: 'search', placeholder: 'Find', 'aria-label': 'Find', 'data-find': '', on: {input: draw}});
    let items = [], next = new Map(), body = h('tbody');
    const visit = (event) => {
        const tr = event.target.closest('tr.row');

        if (tr !== null && event.target.closest('a') === null && (event.type === 'click' || event.key === 'Enter'))
            go(tr.dataset.to);
    };

    function draw() {
        const want = field.value.trim().toLowerCase();

        fill(body, items.filter((p) => p.name.toLowerCase().includes(want)).map((p) => row(p, next)));
    }
    return livePage(main, {title: 'Pipelines', topics: ['list', 'schedules'], tools: field, load: async (el) => {
        const [all, due] = await Promise.all([pipelines(), schedules()]);

        items = all.items.sort((a, b) => a.name.localeCompare(b.name));
        next = nextOf(due.items);
        body = h('tbody', {on: {click: visit, keydown: visit}});
        draw();
        fill(el, items.length > 0 ? h('div.scroll', h('table.list.pipelines', h('thead', h('tr', ['Pipeline', 'Last run', 'Next', 'File']
            .map((w) => h('th', {scope: 'col'}, w)))), body))
            : empty('No pipelines yet', h('p', h('code', 'flowrun serve --http FOLDER'), ' shows those of a folder; each that ran shows here too.')));
    }});
}
