/* The nodes: how they are, what runs on them, GPUs, load, versions and how they differ; allocations of clusters. */
import {ago, duration} from './times.js';
import {badge, stateOf} from './states.js';
import {bytes, count} from './words.js';
import {ask, empty} from './ask.js';
import {fill, h, table} from './dom.js';
import {livePage} from './livepage.js';
import {drain, nodes} from './api.js';
import {logPage, runLink} from './nav.js';

const SHOWN = 5;
/* The facts of a machine that are shown where they differ from most machines. */
const compared = ['kernel', 'arch', 'cpus'];

/* share: 0 to 1; null: not known */
function meter(share, text) {
    if (share === null || share === undefined)
        return h('span.dim', '–');
    return h('span', h(share > 0.9 ? 'span.meter.high' : 'span.meter', h('span', {style: {width: `${Math.min(100, 100 * share)}%`}})),
        ' ', h('span.num.dim', text));
}

function state(n) {
    const [look, glyph, word] = {up: ['succeeded', '✓', 'up'], unreachable: ['stopping', '⚠', 'unreachable']}[n.state]
        || ['waiting', '◌', 'not in use'];
    const since = n.since_wall || (n.state === 'seen' ? n.seen_wall : 0);

    return [h(`span.badge.st-${look}`, h('span.glyph', {'aria-hidden': 'true'}, glyph), word), since > 0 && [' ', h('span.dim', ago(since))]];
}

/* Nothing new starts there, or does again. */
function drainer(n, done) {
    const note = h('input', {name: 'note', placeholder: 'why', maxlength: '200'});

    return n.drained ? h('button', {on: {click: () => ask({title: `Take ${n.name} in again`, lines: ['Tasks start there again.'], yes: 'Take it in',
        act: () => drain(n.name)}).then(done)}}, 'Take in …')
        : h('button', {on: {click: () => ask({title: `Drain ${n.name}`, lines: [`Nothing new starts there. ${count(n.attempts.length, 'task')} of now ${n.attempts.length === 1 ? 'goes' : 'go'} on.`],
            content: h('label', 'Note', note), yes: 'Drain', act: () => drain(n.name, {note: note.value})}).then(done)}}, 'Drain …');
}

function attempts(list) {
    return [list.slice(0, SHOWN).map((a) => h('div', badge(stateOf(a.state), {word: false}), ' ',
        h('a', {href: logPage(a.run, a.instance)}, a.instance), h('span.dim', ` of #${a.run}`))),
    list.length > SHOWN && h('div.dim', `and ${list.length - SHOWN} more`)];
}

function gpus(list) {
    return (list || []).map((g) => h('div', {title: `${g.name}${g.degrees === null ? '' : `, ${g.degrees} °C`}${g.watts === null ? '' : `, ${g.watts} W`}`},
        h('span.dim.num', `${g.index} `), meter(g.use === null ? null : g.use / 100, `${g.use} %`), ' ',
        g.memory > 0 && meter(g.memory_used / g.memory, bytes(g.memory_used * 2 ** 20))));
}

/* For a node: the names of facts in which it is not as most are. */
function differing(all) {
    const most = new Map(compared.map((name) => {
        const counts = new Map();

        for (const {facts} of all)
            if (facts && facts[name])
                counts.set(facts[name], (counts.get(facts[name]) || 0) + 1);
        return [name, [...counts].sort((a, b) => b[1] - a[1])[0]?.[0]];
    }));

    return (facts) => compared.filter((name) => facts[name] && facts[name] !== most.get(name));
}

function versions(facts, differs) {
    const odd = differs(facts);

    return compared.filter((name) => facts[name]).map((name) => h(odd.includes(name) ? 'span.tag.warn' : 'span.tag',
        {title: odd.includes(name) ? `another ${name} than most nodes have` : name}, name === 'cpus' ? `${facts[name]} CPUs` : facts[name]));
}

function row(n, differs, done) {
    const l = n.load || {}, facts = n.facts || {}, cpus = Number(facts.cpus) || 0;

    return h('tr', h('th', {scope: 'row'}, n.name, n.how && h('span.hint', n.how)), h('td', state(n), n.drained && h('div.hint', h('span.tag.warn', {title: n.drained.who || null}, 'drained'), ' ', ago(n.drained.since_wall), ' ', n.drained.note)),
        h('td', attempts(n.attempts)),
        h('td', gpus(n.gpus)),
        h('td', meter(l.cpu, cpus > 0 ? `load ${l.load_1m?.toFixed(1)} of ${cpus}` : `${Math.round(100 * l.cpu)} %`)),
        h('td', l.memory_bytes > 0 ? meter(l.memory / l.memory_bytes, `${bytes(l.memory)} of ${bytes(l.memory_bytes)}`) : h('span.dim', '–')),
        h('td.num', l.disk_free > 0 ? `${bytes(l.disk_free)} free` : ''),
        h('td.num.dim', l.rx === undefined || l.rx === null ? '' : [`↓ ${bytes(l.rx)}/s`, h('br'), `↑ ${bytes(l.tx)}/s`]),
        h('td.num', {title: 'of its clock to this one'}, n.wall_offset_ms === undefined ? ''
            : `${n.wall_offset_ms < 0 ? '−' : '+'}${duration(Math.abs(n.wall_offset_ms))}`),
        h('td.wide', versions(facts, differs)), done && h('td.actions', drainer(n, done)));
}

/* Allocations of a cluster under Slurm; elements of an array of which the same is to be said are one. */
function allocation([a, ...more]) {
    const n = more.length + 1;

    return h('tr', h('th', {scope: 'row'}, a.name, h('span.hint', n > 1 ? `${n} copies` : a.places)),
        h('td', badge({...stateOf(a.state === 'up' ? 'running' : a.state), word: a.state}), h('div.hint', a.why)),
        h('td.num', a.job > 0 && a.job, h('div.hint', a.cluster)), h('td', n > 1 ? count(n, 'node') : a.hosts || count(a.nodes, 'node')),
        h('td', ago(a.start_wall || a.estimate_wall)), h('td', a.end_wall > 0 ? ago(a.end_wall) : a.time_ms > 0 && ['after ', duration(a.time_ms)]),
        h('td', runLink(a.run)));
}

export function open(main, {user}) {
    return livePage(main, {title: 'Nodes', topics: ['nodes', 'list'], every: 10000, load: async (body, again) => {
        const {items, allocations} = await nodes();
        const differs = differing(items), alike = new Map();

        for (const a of allocations) {
            const key = [a.run, a.name, a.job, a.state, a.why].join();

            alike.set(key, [...alike.get(key) || [], a]);
        }
        items.sort((a, b) => a.name.localeCompare(b.name, undefined, {numeric: true}));
        fill(body, alike.size > 0 && table('', ['Allocation', 'State', 'Slurm job', 'Nodes', 'Begins', 'Ends', 'Run'], [...alike.values()].map(allocation)),
            items.length === 0 ? empty('No nodes yet', h('p', 'Those that runs use show here.'))
            : table('nodes', ['Node', 'State', 'Runs now', 'GPUs', 'CPU', 'Memory', 'Disk', 'Network', 'Clock', 'Machine', ''],
                items.map((n) => row(n, differs, user.may('admin') && again))));
    }});
}
