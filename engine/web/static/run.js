/* One run: what it is, the first failure on top, and its tabs. */
import {append, colour, fill, h, kept} from './dom.js';
import {actionButtons} from './actions.js';
import {ago, absolute, lasting} from './times.js';
import {announce, failed} from './ask.js';
import {badge, countBar, countWords, done, isOver, runState, sum} from './states.js';
import {bindKeys} from './keys.js';
import {count} from './words.js';
import {differs} from './params.js';
import {graph, params} from './api.js';
import {openFailure} from './failure.js';
import {query, runLink, setQuery, setTitle} from './nav.js';
import {RunModel} from './model.js';

const tabs = [['graph', 'Graph'], ['timeline', 'Timeline'], ['logs', 'Logs'], ['metrics', 'Metrics'],
    ['params', 'Params'], ['artifacts', 'Artifacts'], ['events', 'Events']];
const loads = {graph: kept(() => import('./graph.js')), timeline: kept(() => import('./timeline.js')), logs: kept(() => import('./logs.js')),
    metrics: kept(() => import('./curves.js')), params: kept(() => import('./params.js')), artifacts: kept(() => import('./artifacts.js')),
    events: kept(() => import('./events.js'))};

function fact(word, ...value) {
    return h('span.fact', h('span.dim', `${word} `), value);
}

class RunPage {
    constructor(main, no, user) {
        this.user = user;
        this.model = new RunModel(no);
        this.head = main.querySelector('.early'); /* that of the page (engine/web/shell.c), where nothing is shown yet */
        if (this.head === null)
            fill(main, this.head = h('div.runhead', h('div.title', h('h1'), h('h1'))));
        this.head.classList.remove('early');
        [this.state, this.name] = this.head.querySelectorAll('h1');
        this.actions = h('span');
        this.facts = h('div.facts');
        this.more = h('div');
        append(this.head.firstChild, [h('span.grow'), this.actions]);
        append(this.head, [this.facts, this.more]);
        this.failure = h('div.failure', {hidden: true});
        this.strip = h('div.tabs', {role: 'tablist', 'aria-label': 'Views of the run'});
        this.heading = h('h2.unseen');
        this.panel = h('div.panel', {role: 'tabpanel', id: 'panel', 'aria-labelledby': 'tab-graph'});
        this.tab = null;
        this.graphDoc = null;
        this.graph = kept(async () => (this.graphDoc = await graph(no)));
        append(main, [this.failure, this.strip, this.heading, this.panel]);
        for (const [name, word] of tabs)
            this.strip.append(h('button.tab', {role: 'tab', id: `tab-${name}`, 'data-tab': name, 'aria-controls': 'panel',
                on: {click: () => this.show(name, {})}}, word));
        this.strip.addEventListener('keydown', (event) => this.onTabKey(event));
    }

    async open() {
        const load = loads[query().get('tab')] || loads.graph;

        params(this.model.no).then(({items}) => {
            this.params = items;
            if (this.model.run !== null)
                this.drawHead();
        }, () => {});
        load(); /* while the run is read */
        if (load === loads.graph)
            this.graph().catch(() => {}); /* the tab shows the error */
        await this.model.open(() => this.drawHead());
        this.unbind = bindKeys('Run', Object.fromEntries(tabs.map(([name, word], i) => [String(i + 1),
            [word, () => this.show(name, {})]])));
        this.stopListening = this.model.listen((changed) => this.draw(changed));
        this.closeFailure = openFailure(this.failure, this.model);
        this.draw({run: true, tasks: new Set(), whole: true});
        if (this.tab === null) /* a key may have been faster */
            await this.show(query().get('tab') || 'graph', null);
    }

    /* ---- the head ---- */

    draw(changed) {
        const state = runState(this.model.run).word;

        if (changed.run || changed.whole)
            this.drawHead();
        else if (changed.tasks.size > 0)
            this.drawProgress();
        if (this.was !== undefined && this.was !== state && isOver(this.model.run))
            announce(`Run ${this.model.no} ${state}`);
        this.was = state;
    }

    drawProgress() {
        const counts = this.model.counts();

        fill(this.progress, countBar(counts), this.model.inst !== null && h('span.num', {title: countWords(counts)},
            `${done(counts)} of ${sum(counts)}`));
        if (isOver(this.model.run) && this.model.inst !== null)
            this.drawActions();
    }

    /* They stay while they are the same: one may have the focus, or an open menu. */
    drawActions() {
        const {run} = this.model, ends = isOver(run) && countWords(this.model.counts());
        const sign = JSON.stringify([run.state, run.outcome, run.driven, run.pinned, ends]);

        if (sign !== this.signed)
            fill(this.actions, actionButtons(this.model, {user: this.user, graph: () => this.graphDoc}));
        this.signed = sign;
    }

    differing() {
        const list = (this.params || []).filter(differs);

        return list.length > 0 && h('div.diff', list.slice(0, 8).map((p) => h('span.param', h('span.dim', `${p.name} `),
            String(p.value))), list.length > 8 && h('span.dim', `and ${list.length - 8} more`));
    }

    /* Its instances may not be there yet. */
    drawHead() {
        const {run, inst} = this.model, state = runState(run), away = [...this.model.tasks.values()].reduce((n, t) => n + t.away, 0);

        if (this.closed)
            return;
        setTitle(`${run.no} ${run.pipeline}`, state, colour);
        this.progress = h('span.progress');
        this.state.className = `st-${state.look}`;
        if (this.state.textContent !== state.glyph + state.word)
            fill(this.state, badge(state));
        if (this.name.textContent === '')
            append(this.name, [h('span.no', `#${run.no}`), ' ', h('a.quiet', {href: `pipelines/${encodeURIComponent(run.pipeline)}`}, run.pipeline)]);
        if (!isOver(run) && inst !== null)
            this.drawActions();
        fill(this.facts, this.progress,
            fact('took', lasting(run.started, run.ended)),
            run.started ? fact('started', ago(run.started)) : fact('queued', ago(run.queued)),
            run.ended > 0 && h('span.fact.dim', {title: absolute(run.ended)}, 'ended ', ago(run.ended)),
            fact('by', run.origin, run.who && ` ${run.who}`),
            run.retry_of > 0 && fact('repeats', runLink(run.retry_of)),
            run.rerun_wall > 0 && fact('runs again', ago(run.rerun_wall)),
            run.pinned && h('span.tag', 'pinned'),
            away > 0 && h('span.tag.warn', `⚠ ${count(away, 'instance')} unreachable`),
            !isOver(run) && run.driven === false && h('span.tag.warn', 'parked: nobody drives it'));
        fill(this.more, this.differing(),
            (run.why || run.reason) && inst !== null && this.failure.hidden && state.name !== 'succeeded' && h('p.reason', run.why || run.reason));
        this.drawProgress();
    }

    /* ---- tabs ---- */

    onTabKey(event) {
        const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
        const at = tabs.findIndex(([name]) => name === this.tab);

        if (step === undefined)
            return;
        const [name] = tabs[(at + step + tabs.length) % tabs.length];

        event.preventDefault();
        this.show(name, {});
        document.getElementById(`tab-${name}`).focus();
    }

    /* changes: of the query beside the tab; null: the address is right already. */
    async show(asked, changes, hash = '') {
        const name = loads[asked] ? asked : 'graph', turn = this.turn = (this.turn || 0) + 1;

        this.closeTab();
        this.tab = name;
        if (changes !== null)
            setQuery({i: null, a: null, all: null, r: null, with: null, q: null, tab: name === 'graph' ? null : name, ...changes}, hash);
        for (const tab of this.strip.children) {
            tab.setAttribute('aria-selected', String(tab.dataset.tab === name));
            tab.tabIndex = tab.dataset.tab === name ? 0 : -1;
        }
        this.heading.textContent = tabs.find(([one]) => one === name)[1];
        this.panel.setAttribute('aria-labelledby', `tab-${name}`);
        this.panel.className = `panel ${name}`;
        fill(this.panel);
        this.failure.classList.toggle('short', name !== 'graph');
        try {
            const module = await loads[name]();

            if (turn !== this.turn)
                return;
            fill(this.panel);
            this.view = module.open(this.panel, {model: this.model, user: this.user, page: this});
        } catch (problem) {
            fill(this.panel, failed(problem, () => this.show(name, null)));
        }
    }

    closeTab() {
        if (this.view && this.view.close)
            this.view.close();
        this.view = null;
    }

    close() {
        this.closed = true;
        this.turn = (this.turn || 0) + 1;
        this.closeTab();
        for (const fn of [this.stopListening, this.closeFailure, this.unbind, this.model.close])
            if (fn)
                fn();
        this.model.reload.stop();
        this.model.reloadRun.stop();
    }
}

export async function open(main, {args, user}) {
    const page = new RunPage(main, args[0], user);

    await page.open().catch((problem) => {
        page.close();
        throw problem;
    });
    return page;
}
