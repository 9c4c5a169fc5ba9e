/* All schedules: when they fire next, what became of the last times, pause and resume. */
import {fill, h, table} from './dom.js';
import {ago, absolute, dayBegin, inZone, zoneName} from './times.js';
import {ask, empty, failed, openDialog, say} from './ask.js';
import {backfill, backfills, fires, makeBackfill, pauseSchedule, runSchedule, schedules} from './api.js';
import {count} from './words.js';
import {livePage} from './livepage.js';
import {runLink} from './nav.js';

const decisions = {ran: 'succeeded', skipped: 'skipped', missed: 'failed', dropped: 'skipped', superseded: 'skipped',
    paused: 'cancelled', invalid: 'failed'};

function pause(s, done) {
    const note = h('input', {name: 'note', placeholder: 'why', maxlength: '200'});

    return ask({title: `Pause ${s.pipeline}/${s.name}`, lines: ['No time of it is run until it is resumed. Runs that go on are not touched.'],
        content: h('label', 'Note', note), yes: 'Pause', act: () => pauseSchedule(s, {paused: true, note: note.value})}).then(done);
}

function resume(s, done) {
    const box = h('input', {type: 'checkbox'});

    return ask({title: `Resume ${s.pipeline}/${s.name}`, lines: ['Its next time is run again.'],
        content: h('label.inline', box, 'also what passed meanwhile, as its catchup says'), yes: 'Resume',
        act: () => pauseSchedule(s, {paused: false, catchup: box.checked})}).then(done);
}

function runNow(s) {
    return ask({title: `Run ${s.pipeline} now`, lines: ['Makes a run now, beside the schedule’s own times.'], yes: 'Start',
        act: () => runSchedule(s.id)}).then((run) => run !== undefined && say(`Run ${run.no || ''} was made`));
}

/* Runs for times that passed; before it is asked for, it says of how many, and which. */
function makeUp(s, done) {
    const day = (name) => h('input', {name, type: 'date', required: true, on: {change: tell}});
    const existing = h('select', {on: {change: tell}}, [['skip', 'leave out those that ran'], ['failed', 'also those that failed'], ['all', 'all of them']]
        .map(([value, word]) => h('option', {value}, word)));
    const from = day('from'), to = day('to'), most = h('input', {type: 'number', min: '1', value: '1'}), what = h('p', {'aria-live': 'polite'});
    const body = () => ({schedule: s.id, from_ms: dayBegin(from.value), to_ms: dayBegin(to.value, 1), order: 'oldest', existing: existing.value,
        max_active: Number(most.value), priority: 0, params: []});
    const words = ({runs, items, next}) => `Makes ${next ? 'at least ' : ''}${count(runs, 'run')}, for ${absolute(items[0].at_ms)}`
        + ` to ${absolute(items.at(-1).at_ms)}${next ? ' and later' : ''}.`;

    async function tell() {
        what.textContent = from.value && to.value ? await makeBackfill({...body(), dry_run: true}).then(words, (problem) => problem.message) : '';
    }
    return ask({title: `Make up times of ${s.pipeline}/${s.name}`, content: [h('label', 'From', from), h('label', 'To', to), h('label', 'Times', existing),
        h('label', 'Runs at once', most), what], yes: 'Make the runs', act: () => makeBackfill(body())}).then(done);
}

/* What became of an instant, and of how many before it. */
export const decided = (f) => [h(`span.badge.st-${decisions[f.decision] || 'waiting'}`, f.decision), f.count > 1 && h('span.dim', ` × ${f.count}`)];

/* A time of it: in its zone, then, where that is another, in the one that is chosen. */
function when(ms, s) {
    const mine = `${absolute(ms).slice(0, 16)} ${zoneName()}`, its = inZone(ms, s.zone || '').slice(0, 16);

    return its === '' ? mine : [its, h('span.dim', ` ${s.zone}${mine.startsWith(its) ? '' : ` = ${mine}`}`)];
}

async function showFires(s) {
    const body = h('div', h('p.dim', 'Loading'));

    openDialog(`${s.pipeline}/${s.name}: decided times`, body, {wide: true});
    try {
        const {items} = await fires(s.id);

        fill(body, items.length === 0 ? empty('No time was decided yet') : table('',
            ['Time', 'Decision', 'Run', 'Decided', 'Note'], items.map((f) => h('tr', h('td.num', when(f.at_ms, s)),
            h('td', decided(f), f.outcome && ` ${f.outcome}`),
            h('td', f.run > 0 && runLink(f.run)), h('td', ago(f.decided_wall)), h('td.dim.wide', f.note || '')))));
    } catch (problem) {
        fill(body, failed(problem));
    }
}

function nextTimes(s) {
    const list = s.next || (s.due_wall ? [{at_ms: s.due_wall}] : []);

    if (s.state === 'paused')
        return h('span.dim', 'paused ', ago(s.state_wall), s.note && `: ${s.note}`);
    if (s.gone_wall > 0)
        return h('span.dim', 'its file is gone');
    return list.map(({at_ms}, i) => h(i === 0 ? 'div.num' : 'div.num.dim', when(at_ms, s), i === 0 && h('span.dim', ' ', ago(at_ms))));
}

/* A table of schedules with their buttons; calls done() after a change. */
export function scheduleRows(items, user, done) {
    const may = user.may('operate');

    return table('schedules', ['Schedule', 'Rule', 'Next', ''], items.map((s) => h('tr', h('td', h('a', {href: `pipelines/${encodeURIComponent(s.pipeline)}`}, `${s.pipeline}/${s.name}`),
            s.error && h('p.error', s.error)),
        h('td', s.rule), h('td', nextTimes(s)),
        h('td.actions', h('button', {on: {click: () => showFires(s)}}, 'Decisions'), h('a.button', {href: `runs?schedule=${s.id}`}, 'Runs'),
            may && h('button', {on: {click: () => runNow(s)}}, 'Run now'), may && h('button', {on: {click: () => makeUp(s, done)}}, 'Backfill …'),
            may && (s.state === 'paused' ? h('button.primary', {on: {click: () => resume(s, done)}}, 'Resume')
                : h('button', {on: {click: () => pause(s, done)}}, 'Pause'))))));
}

export function backfillRows(items, user, done) {
    const act = (b, what) => ask({title: `${what} backfill ${b.id}`, lines: [`${b.made} of ${b.total} of its runs were made.`],
        yes: what[0].toUpperCase() + what.slice(1), danger: what === 'cancel', act: () => backfill(b.id, what)}).then(done);

    return table('', ['Backfill', 'From', 'To', 'Made', 'State', ''], items.map((b) => h('tr', h('td', `#${b.id}`), h('td.num', absolute(b.from_ms)), h('td.num', absolute(b.to_ms)),
            h('td.num', `${b.made} of ${b.total}`, ' ', h('span.meter', h('span', {style: {width: `${100 * b.made / Math.max(1, b.total)}%`}}))),
            h('td', b.state, b.note && h('span.dim', ` ${b.note}`)),
            h('td.actions', user.may('operate') && b.state === 'active' && h('button', {on: {click: () => act(b, 'pause')}}, 'Pause'),
                user.may('operate') && b.state === 'paused' && h('button', {on: {click: () => act(b, 'resume')}}, 'Resume'),
                user.may('operate') && ['active', 'paused'].includes(b.state) && h('button.danger', {on: {click: () => act(b, 'cancel')}}, 'Cancel')))));
}

export function open(main, {user}) {
    return livePage(main, {title: 'Schedules', topics: ['schedules', 'list'], load: async (body, load) => {
        const [all, back] = await Promise.all([schedules(), backfills()]);

        fill(body, all.items.length > 0 ? scheduleRows(all.items, user, load) : empty('No schedules',
            h('p', 'A pipeline with ', h('code', 'schedule:'), ' in a folder of ', h('code', 'flowrun serve'), ' shows here.')),
        back.items.length > 0 && h('section.block', h('h2', 'Backfills'), backfillRows(back.items, user, load)));
    }});
}
