/* The list of runs: filters stand in the address, rows live on. */
import {append, fill, h, throttled} from './dom.js';
import {ago, absolute, dayBegin, duration, lasting} from './times.js';
import {badge, countBar, isOver, runState} from './states.js';
import {empty, failed} from './ask.js';
import {go, query, runLink, setQuery, setTitle} from './nav.js';
import {runs} from './api.js';
import {subscribe} from './stream.js';

const states = [['', 'All'], ['live', 'Live'], ['queued', 'Queued'], ['failed', 'Failed'],
    ['succeeded', 'Succeeded'], ['cancelled', 'Cancelled']];
const LIVE_MS = 3000;
const filterNames = ['state', 'pipeline', 'origin', 'schedule', 'since', 'until', 'q'];
const origins = ['', 'cli', 'api', 'schedule', 'catchup', 'backfill', 'retry'];

function filters() {
    const q = query(), all = Object.fromEntries(filterNames.map((name) => [name, q.get(name) || '']));

    return {...all, since: dayBegin(all.since), until: dayBegin(all.until, 1)};
}

/* ---- rows ---- */

/* The duration, and a mark where it stands to the median of the pipeline's last runs. */
function lastingCell(run) {
    const median = run.median_ms || 0;
    const took = run.ended && run.started ? run.ended - run.started : 0;
    const share = median > 0 && took > 0 ? took / median : 0;

    return [lasting(run.started, run.ended), median > 0 && h('span.median', {
        title: share > 0 ? `${share.toFixed(1)} × the median of its last runs, ${duration(median)}`
            : `the median of its last runs is ${duration(median)}`,
    }, share > 1.5 ? '▲' : share > 0 && share < 0.67 ? '▼' : '·')];
}

const reasonOf = (run) => run.why || run.reason;

function cells(run) {
    const state = runState(run);

    return [
        h('td.state', badge(state)),
        h('td.no', runLink(run.no)),
        h('td.name', h('a.quiet', {href: `runs/${run.no}`, title: run.file || null}, run.pipeline),
            run.pinned && h('span.tag', {title: 'This run is kept'}, 'pinned')),
        h('td.tasks', run.counts ? countBar(run.counts) : null),
        h('td.num.took', lastingCell(run)),
        h('td.when', {title: run.started ? absolute(run.started) : null}, ago(run.started || run.queued)),
        h('td.origin', run.origin, run.who && h('span.dim', ` ${run.who}`)),
        h('td.reason', {title: reasonOf(run) || null}, reasonOf(run) || ''),
    ];
}

function drawRow(row, run) {
    const sign = JSON.stringify(run);

    if (row.dataset.sign === sign)
        return;
    row.dataset.sign = sign;
    row.className = `row st-${runState(run).look}${isOver(run) ? '' : ' live'}`;
    fill(row, cells(run));
}

/* Rows by number: those that stay are kept, so that focus and selection do. */
function drawRows(body, items) {
    const old = new Map([...body.children].map((row) => [row.dataset.no, row]));
    const rows = items.map((run) => {
        const row = old.get(String(run.no)) || h('tr.row', {tabindex: '0', 'data-no': run.no});

        drawRow(row, run);
        return row;
    });

    for (const row of old.values())
        if (!rows.includes(row))
            row.remove();
    rows.forEach((row, i) => {
        if (body.children[i] !== row)
            body.insertBefore(row, body.children[i] || null);
    });
}

/* Those that go on stand on top, whatever their number; each run once. */
function once(items) {
    const seen = new Set();

    return items.filter((run) => !seen.has(run.no) && seen.add(run.no));
}

/* ---- filters ---- */

function chips(change) {
    return h('div.chips', {role: 'group', 'aria-label': 'State'}, states.map(([value, word]) => h('button.chip', {
        'aria-pressed': String((query().get('state') || '') === value), 'data-state': value,
        on: {click: () => change({state: value})}}, word)));
}

function originSelect(change) {
    const select = h('select', {'aria-label': 'Origin', on: {change: () => change({origin: select.value})}},
        origins.map((o) => h('option', {value: o}, o || 'any origin')));

    select.value = query().get('origin') || '';
    return select;
}

function textField(name, label, change, attrs = {}) {
    let timer = 0;
    const field = h('input', {type: 'search', 'aria-label': label, placeholder: label, ...attrs,
        on: {input: () => {
            clearTimeout(timer);
            timer = setTimeout(() => change({[name]: field.value.trim()}), 200);
        }}});

    field.value = query().get(name) || '';
    return field;
}

/* ---- the page ---- */

const heads = [['state', 'State'], ['no', 'Run'], ['name', 'Pipeline'], ['tasks', 'Tasks'], ['num took', 'Took'],
    ['when', 'Started'], ['origin', 'Origin'], ['reason', 'Reason']];

function table(body) {
    return h('table.list.runs', h('thead', h('tr', heads.map(([cls, word]) => h('th', {class: cls, scope: 'col'}, word)))),
        body);
}

class RunsPage {
    constructor(main) {
        this.body = h('tbody');
        this.note = h('div.after');
        this.items = [];
        this.next = '';
        this.loaded = 0; /* pages after the first */
        const change = (changes) => this.change(changes);

        this.chips = chips(change);
        fill(main, h('div.head', h('h1', 'Runs'), this.chips,
            h('div.filters', textField('q', 'Find', change, {'data-find': ''}),
                textField('pipeline', 'Pipeline', change), originSelect(change),
                [['since', 'from'], ['until', 'to']].map(([name, word]) => h('label.inline', `${word} `, textField(name, word, change, {type: 'date'})))),
            query().get('schedule') && h('a.button', {href: 'runs', title: 'All runs'}, `of schedule ${query().get('schedule')} ×`),
            h('span.grow'), h('a.button.primary', {href: 'pipelines'}, 'New run')),
        h('div.scroll', table(this.body)), this.note);
        this.body.addEventListener('keydown', (event) => {
            const row = event.target.closest('tr.row');

            if (event.key === 'Enter' && row === event.target)
                go(`runs/${row.dataset.no}`);
        });
        this.body.addEventListener('click', (event) => {
            const row = event.target.closest('tr.row');

            if (row !== null && event.target.closest('a, button') === null && String(getSelection()) === '')
                go(`runs/${row.dataset.no}`);
        });
    }

    change(changes) {
        setQuery(changes);
        for (const chip of this.chips.children)
            chip.setAttribute('aria-pressed', String(chip.dataset.state === (query().get('state') || '')));
        this.loaded = 0;
        this.load();
    }

    async load() {
        const turn = this.turn = (this.turn || 0) + 1, wanted = filters();

        try {
            const [page, live] = await Promise.all([runs(wanted), wanted.state ? {items: []} : runs({...wanted, state: 'live', limit: 200})]);

            if (turn !== this.turn || this.closed)
                return;
            const older = this.loaded > 0 ? this.items.filter((r) => isOver(r) && r.no < Math.min(...page.items.map((p) => p.no))) : [];

            this.items = once([...live.items, ...page.items, ...older]);
            this.next = this.loaded > 0 ? this.next : page.next;
            this.draw();
        } catch (problem) {
            fill(this.note, failed(problem, () => this.load()));
        }
    }

    async more() {
        const page = await runs(filters(), this.next);

        this.loaded++;
        this.items = once([...this.items, ...page.items]);
        this.next = page.next;
        this.draw();
    }

    draw() {
        const running = this.items.filter((r) => !isOver(r)).length;
        const filtered = Object.values(filters()).some((v) => v !== '');

        drawRows(this.body, this.items);
        setTitle(running > 0 ? `Runs (${running} live)` : 'Runs');
        fill(this.note, this.next && h('button', {on: {click: () => this.more()}}, 'Older runs'));
        if (this.items.length === 0)
            append(this.note, [filtered ? empty('No run fits these filters')
                : empty('No runs yet', h('p', h('code', 'flowrun FILE.yaml'), ' starts one, and it shows here.'))]);
    }
}

export async function open(main) {
    const page = new RunsPage(main);
    const reload = throttled(() => page.load(), 1000);
    const close = subscribe({topics: ['list', 'queue']}, (event) => {
        if (event === 'hello')
            page.load();
        else if (['run', 'queue', 'reset'].includes(event))
            reload();
    });
    /* The stream has events of runs, not of their tasks. */
    const timer = setInterval(() => document.hidden || page.items.every(isOver) || reload(), LIVE_MS);

    setTitle('Runs');
    await page.load();
    return {
        close() {
            page.closed = true;
            close();
            clearInterval(timer);
            reload.stop();
        },
    };
}
