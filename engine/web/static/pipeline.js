/* One pipeline: what it is, its picture, its schedules and its last runs; starts a run. */
import {fill, h, table, throttled} from './dom.js';
import {ago} from './times.js';
import {ask, empty, failed, say} from './ask.js';
import {badge, countBar, runState} from './states.js';
import {drawHistory} from './history.js';
import {go, runLink, setTitle} from './nav.js';
import {backfills, graphOf, pastRuns, pipeline, runs, schedules, submit} from './api.js';
import {paramFields, valuesOf} from './paramform.js';
import {backfillRows, scheduleRows} from './schedules.js';
import {subscribe} from './stream.js';

async function start(doc) {
    const made = await ask({title: `Run ${doc.name}`, lines: doc.description ? [doc.description] : [], yes: 'Start the run',
        content: paramFields(doc.params), act: (form) => submit({pipeline: doc.name, params: valuesOf(form)})});

    if (made !== undefined) {
        say(`Run ${made.no} was made`);
        go(`runs/${made.no}`);
    }
}

function paramTable(list) {
    return table('', ['Parameter', 'Default', 'Type', 'What it is'], list.map((p) => h('tr', h('th', {scope: 'row'}, p.name),
        h('td.mono.wide', p.secret ? '•••' : String(p.default ?? '')),
        h('td.dim', p.choices && p.choices.length > 0 ? p.choices.join(' | ') : p.type), h('td.dim', p.help || ''))));
}

function lastRuns(items) {
    return table('last', null, items.map((run) => h('tr', h('td', badge(runState(run))), h('td', runLink(run.no)),
        h('td.tasks', run.counts && countBar(run.counts)), h('td', ago(run.started || run.queued)), h('td.dim', run.origin),
        h('td.wide.dim', run.reason || ''))));
}

class PipelinePage {
    constructor(main, name, user) {
        Object.assign(this, {main, name, user});
        this.past = h('section.block');
        this.list = h('section.block');
    }

    async open() {
        const [doc, {items}, all] = await Promise.all([pipeline(this.name), schedules(this.name), backfills()]);
        const own = items.filter((s) => !s.gone_wall), back = all.items.filter((b) => items.some((s) => s.id === b.schedule));
        const picture = h('section.block', h('h2', 'Tasks'), h('div'));

        setTitle(doc.name);
        fill(this.main, h('div.head', h('h1', doc.name), doc.description && h('span.dim', doc.description), h('span.grow'),
            this.user.may('operate') && h('button.primary', {disabled: Boolean(doc.error && !doc.graph), on: {click: () => start(doc)}}, 'Run …')),
        h('p.mono.dim.file', doc.file || ''), doc.error && h('p.error', {role: 'alert'}, `The file cannot be used: ${doc.error}`),
        this.past, picture,
        h('div.columns.block', h('section', h('h2', 'Schedules'), own.length > 0
            ? scheduleRows(own, this.user, () => this.open()) : empty('It has no schedule')),
        h('section', h('h2', 'Parameters'), doc.params.length > 0 ? paramTable(doc.params) : empty('It has no parameters'))),
        back.length > 0 && h('section.block', h('h2', 'Backfills'), backfillRows(back, this.user, () => this.open())), this.list);
        await Promise.all([this.drawGraph(picture.lastChild, doc), this.loadRuns()]);
    }

    async drawGraph(el, doc) {
        this.view?.close();
        if (!doc.graph) {
            fill(el, empty(doc.error ? 'There is no picture while the file has a mistake' : 'There is no picture of it'));
            return;
        }
        const {GraphView} = await import('./graph.js');

        if (this.closed)
            return;
        this.view = new GraphView(el, graphOf(doc.graph), {taskOf: () => null, choose: (tasks) => {
            fill(this.view.side, tasks.map((t) => [h('h3', t.name), h('p.dim', t.help || '')]));
            this.view.side.hidden = false;
        }, again: async (apart) => graphOf((await pipeline(this.name, apart)).graph)});
    }

    async loadRuns() {
        try {
            const [{items}, doc] = await Promise.all([runs({pipeline: this.name, limit: 10}), pastRuns(this.name)]);
            const ran = doc.items.length > 0, box = h('div'), sign = JSON.stringify([items, doc]);

            if (sign === this.drawn)
                return; /* who walks along the bars goes on */
            this.drawn = sign;
            this.bars?.close();
            this.bars = null;
            fill(this.past, ran && [h('h2', 'Last runs'), box]);
            if (ran)
                this.bars = drawHistory(box, doc);
            fill(this.list, h('h2', 'Runs'), ran ? lastRuns(items) : empty('It never ran'));
        } catch (problem) {
            this.drawn = '';
            fill(this.list, failed(problem, () => this.loadRuns()));
        }
    }

    close() {
        this.closed = true;
        this.view?.close();
        this.bars?.close();
    }
}

export async function open(main, {args, user}) {
    const page = new PipelinePage(main, decodeURIComponent(args[0]), user);
    const reload = throttled(() => page.loadRuns(), 2000);

    await page.open();
    const close = subscribe({topics: ['list', 'schedules']}, (event) => {
        if (['hello', 'run', 'reset'].includes(event))
            reload();
    });

    return {close() {
        close();
        reload.stop();
        page.close();
    }};
}
