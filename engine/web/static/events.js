/* The tab "Events": the story of a run, one row a transition, the newest first. */
import {append, fill, h, throttled} from './dom.js';
import {absolute, clockTime, duration} from './times.js';
import {badge, stateOf} from './states.js';
import {causeWords} from './failure.js';
import {asked, events} from './api.js';
import {failed} from './ask.js';
import {plain} from './ansi.js';
import {query, setQuery} from './nav.js';

const SHOWN = 1000;

/* All events of a run, page by page; those behind `after` alone when it is given. */
export async function allEvents(no, after = 0) {
    const out = [];

    for (;;) {
        const page = await events(no, after);

        out.push(...page.items);
        if (page.items.length === 0 || page.after <= after)
            return {items: out, after: Math.max(after, page.after || 0)};
        after = page.after;
    }
}

const deeds = {runs: 'begun', run: 'begun', rerun: 'made again'};

/* What a user asked of the run, as an event of it. */
function deed(a) {
    const verb = a.name.split('/').at(-1);

    return {wall: a.wall, idx: -1, kind: deeds[verb] || verb, cause: '', text: `by ${a.who}${a.address && ` from ${a.address}`}`
        + `${a.outcome >= '4' ? `: refused (${a.outcome})` : ''}`};
}

function words(e) {
    const said = [e.cause && e.kind !== 'succeeded' && e.cause !== 'gang_peer' ? causeWords(e.cause, e.code) : '', plain(e.text || '')];

    return [...new Set(said.filter(Boolean))].join(' · ');
}

class EventsTab {
    constructor(el, {model}) {
        this.model = model;
        this.items = [];
        this.deeds = [];
        this.after = 0;
        this.body = h('tbody');
        this.more = h('p.dim');
        this.field = h('input', {type: 'search', placeholder: 'Task, node, state, text', 'aria-label': 'Filter', 'data-find': '',
            value: query().get('task') || '', on: {input: () => {
                setQuery({task: this.field.value.trim()});
                this.draw();
            }}});
        append(el, [h('div.bar-row', this.field), h('div.scroll', h('table.list.events', h('thead', h('tr',
            ['Time', 'After', 'Task', 'What', 'Why'].map((w) => h('th', {scope: 'col'}, w)))), this.body)), this.more]);
        this.load = throttled(() => this.loadNow(el), 1000);
        this.stop = model.listen(() => this.load());
        this.load();
    }

    async loadNow(el) {
        try {
            const [{items, after}, done] = await Promise.all([allEvents(this.model.no, this.after), asked(this.model.no)]);

            this.items.push(...items);
            this.after = after;
            if (items.length > 0 || done.items.length !== this.deeds.length || this.items.length === 0) {
                this.deeds = done.items.map(deed);
                this.draw();
            }
        } catch (problem) {
            if (this.items.length === 0)
                fill(el, failed(problem, () => this.loadNow(el)));
        }
    }

    keyOf(e) {
        const i = this.model.at.get(e.idx);

        return i === undefined ? (e.idx === -1 ? 'run' : '') : this.model.keyOf(i);
    }

    row(e, before) {
        const key = this.keyOf(e);

        return h('tr', h('td.num', {title: absolute(e.wall)}, clockTime(e.wall, {millis: true})),
            h('td.num.dim', before ? `+${duration(e.wall - before.wall)}` : ''),
            h('td', e.idx >= 0 ? h('a', {href: `runs/${this.model.no}?tab=logs&i=${encodeURIComponent(key)}`}, key) : key,
                e.attempt_no > 1 && h('span.dim', ` attempt ${e.attempt_no}`)),
            h('td', stateOf(e.kind).name ? badge(stateOf(e.kind)) : e.kind.replaceAll('_', ' ')), h('td.why', words(e)));
    }

    draw() {
        const want = this.field.value.trim().toLowerCase();
        const fits = (e) => want === '' || `${this.keyOf(e)} ${e.kind} ${e.cause} ${e.text}`.toLowerCase().includes(want);
        const all = [...this.items, ...this.deeds].filter(fits).sort((one, other) => one.wall - other.wall), shown = all.slice(-SHOWN).reverse();

        fill(this.body, shown.map((e, k) => this.row(e, shown[k + 1])));
        this.more.textContent = all.length > SHOWN ? `The newest ${SHOWN} of ${all.length.toLocaleString()}` : '';
    }

    close() {
        this.stop();
        this.load.stop();
    }
}

export function open(el, context) {
    return new EventsTab(el, context);
}
