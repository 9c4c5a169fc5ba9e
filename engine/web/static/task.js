/* One task of a run: its instances, what it needs, what needs it. */
import {append, fill, h} from './dom.js';
import {ago, lasting} from './times.js';
import {badge, countBar, countWords, stateOf} from './states.js';
import {causeMeaning, causeWords} from './failure.js';
import {queue} from './api.js';
import {retryFrom} from './actions.js';
import {logPage} from './nav.js';

const SHOWN = 100;

/* waits: {key: what it waits for} */
function instanceRow(model, i, waits) {
    const {inst} = model, key = model.keyOf(i), why = inst.reason[i] || (inst.state[i] === 'ready' && waits.get(key))
        || (inst.cause[i] && inst.state[i] !== 'succeeded' ? causeWords(inst.cause[i], inst.code[i]) : '');

    return h('tr', h('td', badge(stateOf(inst.state[i])), inst.unreachable_wall[i] > 0
        && h('div.tag.warn', {title: 'Its node does not answer; nothing is concluded from that'}, '⚠ unreachable ', ago(inst.unreachable_wall[i]))),
    h('td.name', h('a', {href: logPage(model.no, key), title: `Log of ${key}`}, (!key.includes('[') && inst.node[i]) || key),
        inst.attempt_no[i] > 1 && h('span.dim', ` attempt ${inst.attempt_no[i]}`),
        inst.state[i] === 'retrying' && inst.due_wall[i] > 0 && h('span.dim', ' again ', ago(inst.due_wall[i])), why && h('span.hint', {title: causeMeaning(inst.cause[i])}, why)),
    h('td.num', lasting(inst.started_wall[i], inst.ended_wall[i])));
}

function links(model, graph, numbers, behind = () => '') {
    return numbers.map((n, k) => [k > 0 && ', ',
        h('a', {href: `runs/${model.no}?task=${encodeURIComponent(graph.tasks[n].name)}`}, graph.tasks[n].name), behind(n)]);
}

/* When it starts, once what it needs has ended. */
const STARTS = {failure: 'if one of these failed', any: 'if one of these succeeded', always: 'however these ended'};

/* " (succeeded, skipped; skip_with)" */
function ruleOf(task, need) {
    const rule = (task.rules || []).find((r) => r.need === need);
    const words = rule ? [rule.states.join(', '), rule.skip_with && 'skip_with'].filter(Boolean) : [];

    return words.length > 0 ? ` (${words.join('; ')})` : '';
}

function facts(model, graph, task) {
    const needs = task.needs;
    const users = graph.tasks.flatMap((t, n) => (t.needs.includes(graph.tasks.indexOf(task)) ? [n] : []));

    return h('dl.facts', needs.length > 0 && [h('dt', 'needs'), h('dd', links(model, graph, needs, (n) => ruleOf(task, n)))],
        task.run_if && [h('dt', 'starts'), h('dd', STARTS[task.run_if])],
        users.length > 0 && [h('dt', 'needed by'), h('dd', links(model, graph, users))],
        task.gang && [h('dt', 'gang'), h('dd', 'starts and ends together')],
        task.hook && [h('dt', 'hook'), h('dd', String(task.hook).replaceAll('_', ' '))]);
}

/* Instances, what needs a look first; those that ended with a member of their gang are as good as cancelled. */
function sorted(model, insts) {
    const rank = (i) => stateOf(model.inst.cause[i] === 'gang_peer' ? 'cancelled' : model.inst.state[i]).rank;

    return [...insts].sort((a, b) => rank(a) - rank(b) || a - b);
}

/* context: {model, user, task: of the graph, graph}; update(changed) keeps it. */
export function openTask(el, {model, user, task, graph}) {
    const bar = h('div.progress'), body = h('tbody'), more = h('p.dim');
    let waits = new Map(), asked = '';

    /* Why those wait that are ready: the queue says. */
    async function ask(sign) {
        const {tasks} = await queue().catch(() => ({tasks: []}));

        asked = sign;
        waits = new Map(tasks.filter((t) => t.run === model.no).map((t) => [t.key, t.why_waiting]));
        draw();
    }

    function draw() {
        const own = model.tasks.get(task.name);

        fill(bar);
        fill(body);
        if (own === undefined) {
            more.textContent = 'It has no instance in this run.';
            return;
        }
        append(bar, [own.insts.length > 1 && countBar(own.counts), h('span.dim', countWords(own.counts))]);
        if (own.counts.ready > 0 && asked !== JSON.stringify(own.counts))
            ask(JSON.stringify(own.counts));
        append(body, sorted(model, own.insts).slice(0, SHOWN).map((i) => instanceRow(model, i, waits)));
        more.textContent = own.insts.length > SHOWN ? `and ${own.insts.length - SHOWN} more` : '';
    }
    append(el, [h('h3', task.name), task.help && h('p', task.help), bar, facts(model, graph, task),
        h('table.list.instances', {'aria-label': `Instances of ${task.name}`}, body), more,
        h('div.bar-row', h('a.button', {href: logPage(model.no, task.name)}, 'Logs'),
            user.may('operate') && model.over() && h('button', {on: {click: () => retryFrom(model, graph, task.name)}},
                'Retry from here …'))]);
    draw();
    return {update(changed) {
        if (changed.whole || changed.tasks.has(task.name))
            draw();
    }};
}
