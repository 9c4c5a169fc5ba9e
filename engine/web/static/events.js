/* The tab "Events": the story of a run, one row a transition, the newest first. */
import {append, fill, h, throttled} from './dom.js';
import {absolute, clockTime, duration} from './times.js';
import {badge, stateOf} from './states.js';
import {causeMeaning, causeWords} from './failure.js';
import {asked, events} from './api.js';
import {failed} from './ask.js';
import {plain} from './ansi.js';
import {logPage, query, setQuery} from './nav.js';

const SHOWN = 1000;

/* A run's events, page by page. Who asks while they are read gets those that came meanwhile, too, and none twice. */
export class Story {
    constructor(no) {
        this.no = no;
        this.after = 0;
        this.reading = null;
    }

    /* calls take(items) after each page that was not taken yet */
    read(take) {
        this.more = true;
        this.reading = this.reading || this.readNow(take).finally(() => {
            this.reading = null;
        });
        return this.reading;
    }

    async readNow(take) {
        while (this.more) {
            this.more = false;
            for (let page; page === undefined || page.items.length > 0;) {
                page = await events(this.no, this.after);
                this.after = Math.max(this.after, page.after);
                take(page.items);
            }
        }
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
        this.story = new Story(model.no);
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
            const had = this.items.length;
            const [done] = await Promise.all([asked(this.model.no), this.story.read((items) => this.items.push(...items))]);

            if (this.items.length > had || done.items.length !== this.deeds.length || had === 0) {
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
            h('td', e.idx >= 0 ? h('a', {href: logPage(this.model.no, key)}, key) : key,
                e.attempt_no > 1 && h('span.dim', ` attempt ${e.attempt_no}`)),
            h('td', stateOf(e.kind).name ? badge(stateOf(e.kind)) : e.kind.replaceAll('_', ' ')), h('td.why', {title: e.kind !== 'succeeded' && causeMeaning(e.cause)}, words(e)));
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
