/* What waits, for what, and who holds the slots that it waits for. */
import {ago} from './times.js';
import {ask, empty} from './ask.js';
import {fill, h, table} from './dom.js';
import {livePage} from './livepage.js';
import {pools, queue, setPriority} from './api.js';
import {runLink, setTitle} from './nav.js';

function prioritize(run, most, done) {
    const field = h('input', {name: 'priority', type: 'number', step: '1', required: true, value: String(run.priority)});

    return ask({title: `Priority of run ${run.no}`, lines: [`In the queue the larger goes first, then the smaller number. The largest is ${most} now.`],
        content: h('label', 'Priority', field), yes: 'Set it', act: () => setPriority(run.no, Number(field.value))}).then(done);
}

function runTable(items, user, done) {
    const most = Math.max(...items.map((run) => run.priority));

    return table('', ['', 'Run', 'Pipeline', 'Priority', 'Since', 'Waits for', ''], items.map((run, i) => h('tr', h('td.num.dim', `${i + 1}.`),
        h('td', runLink(run.no)), h('td', run.pipeline), h('td.num', String(run.priority)),
        h('td', ago(run.queued_wall)), h('td.wide', run.why_waiting || 'its turn'),
        h('td.actions', user.may('operate') && h('button', {on: {click: () => prioritize(run, most, done)}}, 'Priority …')))));
}

function taskTable(items) {
    return table('', ['Task', 'Run', 'Waits for'], items.map((t) => h('tr', h('td', t.key),
        h('td', runLink(t.run)), h('td.wide', t.why_waiting || 'its turn'))));
}

function poolTable(items) {
    return table('', ['Pool', 'Taken', 'By', 'Wait'], items.map((p) => h('tr', h('th', {scope: 'row'}, p.name), h('td.num', `${p.used} of ${p.limit}`),
        h('td.wide', p.runs.map((no) => [runLink(no), ' '])), h('td.num', String(p.waiting)))));
}

export function open(main, {user}) {
    return livePage(main, {title: 'Queue', topics: ['queue', 'list'], load: async (body, again) => {
        const [{items, tasks}, shared] = await Promise.all([queue(), pools()]);

        setTitle(items.length > 0 ? `Queue (${items.length})` : 'Queue');
        fill(body, items.length + tasks.length === 0 && empty('Nothing waits', h('p', 'Runs beyond the limits, and tasks that are ready '
            + 'but have no free slot, show here with what they wait for.')),
        items.length > 0 && h('section.block', h('h2', 'Runs'), runTable(items, user, again)),
        tasks.length > 0 && h('section.block', h('h2', 'Tasks that are ready'), taskTable(tasks)),
        shared.items.length > 0 && h('section.block', h('h2', 'Pools'), poolTable(shared.items)));
    }});
}
