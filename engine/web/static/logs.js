/* The tab "Logs": which attempt, its lines, follow, search, links to lines. */
import {fill, h, inOrder, throttled} from './dom.js';
import {badge, live, runState, stateOf} from './states.js';
import {bindKeys} from './keys.js';
import {count} from './words.js';
import {empty, failed, say} from './ask.js';
import {attempts, logSearch, logUrl, runLog, runLogUrl} from './api.js';
import {LogSource, TextSource} from './logsource.js';
import {LogWindow} from './logwindow.js';
import {plain} from './ansi.js';
import {logPage, query, setQuery} from './nav.js';

const MANY = 300, MERGED_LINES = 10000, RANKS = 64, ALL = '*';

function toggle(label, key, on, fn) {
    const button = h('button.toggle', {'aria-pressed': String(on), title: `${label} (${key})`, on: {click: () => {
        const now = button.getAttribute('aria-pressed') !== 'true';

        button.setAttribute('aria-pressed', String(now));
        fn(now);
    }}}, label);

    return button;
}

class LogsTab {
    constructor(el, {model}) {
        this.el = el;
        this.model = model;
        this.hits = [];
        this.at = -1;
        this.window = new LogWindow({onFollow: (on, unseen) => this.drawFollow(on, unseen),
            onPick: (from, to) => this.link(from, to)});
        this.window.wrap = localStorage.getItem('flowrun.wrap') === '1' || innerWidth < 560;
        this.build();
        const merged = inOrder(async () => ({turn: this.turn, items: await this.mergedLines()}), (answer) => this.drawMerged(answer));

        this.refresh = throttled(() => merged().catch((problem) => problem.status < 500 || this.refresh()), 1500);
        model.onNews((event, data) => this.news(event, data));
        this.stop = model.listen((changed) => this.changed(changed));
        this.unbind = bindKeys('Logs', {
            f: ['follow', () => this.followButton.click()],
            w: ['wrap lines', () => this.wrapButton.click()],
            n: ['next hit', () => this.step(1)],
            N: ['hit before', () => this.step(-1)],
            c: ['copy the chosen lines', () => this.copy()],
            e: ['next error', () => this.window.nextError()],
            G: ['end', () => this.inOpened(() => this.window.toEnd())],
        });
        this.open();
    }

    build() {
        const {window: w} = this;

        this.which = h('span.which');
        this.attempts = h('span.attempts');
        this.field = h('input', {type: 'search', placeholder: 'Search', 'aria-label': 'Search the log', 'data-find': '',
            on: {keydown: (event) => event.key === 'Enter' && this.search(event.shiftKey ? -1 : 1)}});
        this.found = h('span.dim.num');
        this.followButton = h('button.toggle', {title: 'Follow (f)', on: {click: () => this.inOpened(() => w.setFollow(!w.follow))}}, 'Follow');
        this.wrapButton = toggle('Wrap', 'w', w.wrap, (on) => {
            w.wrap = on;
            localStorage.setItem('flowrun.wrap', on ? '1' : '0');
            w.el.classList.toggle('wrap', on);
            w.draw();
        });
        w.el.classList.toggle('wrap', w.wrap);
        w.times = localStorage.getItem('flowrun.times') === '1';
        this.timesButton = toggle('Times', 'when each line was written', w.times, (on) => {
            w.times = on;
            localStorage.setItem('flowrun.times', on ? '1' : '0');
            w.draw();
        });
        this.patternButton = toggle('Pattern', 'a regular expression', false, () => {});
        this.rawButton = toggle('Raw', 'as it was written', false, (on) => {
            w.raw = on;
            w.draw();
        });
        this.download = h('a.button', {download: ''}, 'Download');
        this.packed = h('a.button', {download: '', title: 'The same, packed'}, '.gz');
        this.newLines = h('button.newlines', {hidden: true, on: {click: () => w.setFollow(true)}});
        this.note = h('div.lognote', {hidden: true});
        this.list = h('div.hits', {hidden: true, role: 'region', 'aria-label': 'Hits', tabindex: '0'});
        fill(this.el, h('div.bar-row', this.which, this.attempts, h('span.grow'), this.field, this.patternButton, this.found,
            this.followButton, this.wrapButton, this.timesButton, this.rawButton, this.download, this.packed), this.note, this.list, w.el, this.newLines);
    }

    /* ---- which ---- */

    /* The address's instance; else the first failure, what runs, or the first of the task that took longest. */
    async choose() {
        const {model} = this, {inst} = model, asked = query().get('i');

        if (asked !== null && model.byKey.has(asked))
            return model.byKey.get(asked);
        if (asked !== null && model.tasks.has(asked))
            return this.bestOf(model.tasks.get(asked).insts);
        const failure = model.firstFailure();

        if (failure >= 0)
            return failure;
        const began = inst.idx.map((_, i) => i).filter((i) => inst.attempt_no[i] > 0), took = (i) => inst.ended_wall[i] - inst.started_wall[i];

        if (!model.over() || began.length === 0)
            return this.bestOf(began);
        const longest = began.reduce((a, b) => (took(b) > took(a) ? b : a));

        return began.find((i) => inst.task[i] === inst.task[longest]);
    }

    bestOf(list) {
        const {inst} = this.model;
        const newest = (a, b) => (b < 0 || inst.started_wall[a] > inst.started_wall[b] ? a : b);
        const on = list.filter((i) => live.has(inst.state[i]));

        return (on.length > 0 ? on : list).reduceRight((b, a) => newest(a, b), -1);
    }

    selector() {
        const {model} = this, {inst} = model;
        const isShown = (i) => inst.attempt_no[i] > 0 || i === this.i;
        const began = inst.idx.map((_, i) => i).filter(isShown);

        if (began.length > MANY) {
            const field = h('input', {list: 'log-keys', 'aria-label': 'Whose log', on: {change: () => this.go(field.value)}});

            field.value = this.merged ? this.shownAs() : model.keyOf(this.i);
            return [field, h('datalist', {id: 'log-keys'}, h('option', {value: ALL}), [...model.tasks.keys()].map((name) => h('option', {value: ALL + name})),
                began.slice(0, 5000).map((i) => h('option', {value: model.keyOf(i)})))];
        }
        const select = h('select', {'aria-label': 'Whose log', on: {change: () => this.go(select.value)}},
            began.length > 1 && h('option', {value: ALL}, '≡ all tasks by time'), [...model.tasks.values()].map((task) => {
                const own = task.insts.filter(isShown);

                return [own.map((i) => h('option', {value: model.keyOf(i)}, `${stateOf(inst.state[i]).glyph} ${model.keyOf(i)}`)),
                    own.length > 1 && h('option', {value: ALL + task.name}, `≡ ${task.name}: all ${own.length} by time`)];
            }));

        select.value = this.merged ? this.shownAs() : model.keyOf(this.i);
        return select;
    }

    /* "*" for all tasks, "*train" for those of one. */
    shownAs() {
        return this.merged === ALL ? ALL : ALL + this.merged;
    }

    go(key) {
        setQuery({i: key.replace(ALL, ''), all: key.startsWith(ALL) ? '1' : null, a: null, r: null, end: null});
        this.open();
    }

    drawAttempts(list, chosen) {
        fill(this.attempts, list.length > 1 && h('span.chips', list.map(([no]) => h('button.chip', {
            'aria-pressed': String(no === chosen), on: {click: () => {
                setQuery({a: String(no)});
                this.open();
            }}}, `attempt ${no}`))));
    }

    /* ---- opening ---- */

    open() {
        this.opened = this.openNow();
    }

    /* What is asked of a log that is on its way waits for it. */
    inOpened(fn) {
        return this.opened.then(fn);
    }

    async openNow() {
        const turn = this.turn = (this.turn || 0) + 1;

        this.source?.close();
        this.source = null;
        try {
            const asked = query().get('i') || ALL;

            this.merged = query().get('all') && (asked === ALL || this.model.tasks.has(asked)) ? asked : '';
            this.packed.hidden = this.merged !== '';
            this.download.title = this.merged ? 'These lines' : 'The bytes of the log';
            this.list.hidden = true;
            this.i = await this.choose();
            if (this.i < 0) {
                this.told(empty('Nothing has started yet', h('p.dim', 'Output shows here as soon as a task writes some.')));
                return;
            }
            this.drawWhich();
            await (this.merged ? this.openMerged(turn) : this.openOne(turn));
        } catch (problem) {
            this.told(failed(problem, () => this.open()));
        }
    }

    drawWhich() {
        fill(this.which, badge(this.merged === ALL ? runState(this.model.run) : stateOf(this.model.inst.state[this.i]), {word: false}), this.selector());
    }

    told(content) {
        this.note.hidden = content === null;
        this.window.el.hidden = content !== null;
        if (content !== null)
            fill(this.note, content);
    }

    async openOne(turn) {
        const {inst} = this.model;

        this.shown = inst.attempt_no[this.i];
        const list = await attempts(this.model.no, this.model.keyOf(this.i));
        const [no, id] = list.find(([n]) => n === Number(query().get('a'))) || list.at(-1) || [0, ''];

        if (turn !== this.turn)
            return;
        this.shown = no;
        this.drawAttempts(list, no);
        if (!id) {
            this.told(empty('It has not begun'));
            return;
        }
        const source = new LogSource(this.model.no, id);

        this.attempt = id;
        for (const [a, end] of [[this.download, ''], [this.packed, '.gz']]) {
            a.href = logUrl(this.model.no, id) + end;
            a.download = `run${this.model.no}-${this.model.keyOf(this.i)}-${no}.log${end}`;
        }
        this.source = source;
        this.told(null);
        this.window.show(source);
        await source.read(() => turn === this.turn && this.window.source === source && this.window.grown(),
            () => this.peek(source, turn));
        if (turn !== this.turn)
            return;
        if (source.count === 0)
            this.told(empty(live.has(this.model.inst.state[this.i]) ? 'Nothing was written yet' : 'It wrote nothing'));
        if (this.window.source === source)
            this.place();
        else
            this.placeCounted(source);
    }

    atEnd() {
        return live.has(this.model.inst.state[this.i]) || query().get('end') || this.model.run.outcome === 'failed';
    }

    /* Shows where the log opens while its lines are counted. */
    async peek(source, turn) {
        if (location.hash !== '')
            return;
        const lines = await source.someLines(this.atEnd());

        if (turn !== this.turn || source.count > 0)
            return;
        this.window.show(new TextSource(lines, Boolean(this.atEnd())));
        if (this.atEnd())
            this.window.toEnd();
    }

    /* What was peeked at stays where it is. */
    placeCounted(source) {
        const back = this.window.beforeEnd(), top = this.window.top();

        this.window.show(source);
        if (!this.atEnd())
            this.window.scrollTo(top);
        else if (back > 0)
            this.window.scrollTo(source.count - back);
        else
            this.place();
    }

    /* All attempts of a task as one text, by time; an attempt's own order stays. */
    async openMerged(turn) {
        fill(this.attempts);
        this.ranksDrawn = '';
        this.attempt = '';
        this.download.href = runLogUrl(this.model.no, this.ofMerged());
        const source = new TextSource(await this.mergedLines());

        if (turn !== this.turn)
            return;
        this.source = source;
        this.told(source.count > 0 ? null : empty('Nothing was written yet'));
        this.window.show(source);
        this.window.setFollow(!this.model.over());
        if (this.model.over())
            this.window.toEnd();
    }

    ofMerged() {
        return {task: this.merged === ALL ? '' : this.merged, tail: MERGED_LINES};
    }

    async mergedLines() {
        const text = await runLog(this.model.no, {...this.ofMerged(), times: 'ms'});
        const ranks = new Map(), chosen = (query().get('r') || '').split(',').filter(Boolean);
        const all = text === '' ? [] : text.replace(/\n$/, '').split('\n').map((line) => {
            const [, ms, who, rest] = /^(\d+) (.{1,120}?) \| (.*)$/s.exec(line) || [null, 0, '', line];

            if (!ranks.has(who))
                ranks.set(who, ranks.size);
            return {text: rest, prefix: who, ms: Number(ms), rank: ranks.get(who)};
        });

        this.drawRanks(ranks, chosen, all.length >= MERGED_LINES);
        return chosen.length > 0 ? all.filter((line) => chosen.includes(line.prefix)) : all;
    }

    /* A button a rank; none is chosen: all are shown. */
    drawRanks(ranks, chosen, more) {
        const sign = `${[...ranks.keys()]} ${chosen} ${more}`;

        if (sign === this.ranksDrawn)
            return;
        this.ranksDrawn = sign;
        /* The shortest that are not alike: "n1", "n1.cluster", "train@n1". */
        const node = (who) => who.replace(/^.*@/, ''), name = [(who) => node(who).split('.')[0], node, (who) => who]
            .find((one) => new Set([...ranks.keys()].map(one)).size === ranks.size);

        fill(this.attempts, more && h('span.dim', `the newest ${MERGED_LINES.toLocaleString()} lines `), ranks.size > 1 && ranks.size <= RANKS && h('span.chips', {role: 'group', 'aria-label': 'Ranks'},
            [...ranks].sort(([one], [other]) => one.localeCompare(other, undefined, {numeric: true})).map(([who, rank]) => h(`button.chip.rank.r${rank % 8}`, {
                'aria-pressed': String(chosen.includes(who)), title: who, on: {click: () => this.chooseRank(who, chosen)}}, name(who)))));
    }

    async chooseRank(who, chosen) {
        const at = [...this.attempts.querySelectorAll('.chip')].indexOf(document.activeElement);

        setQuery({r: chosen.includes(who) ? chosen.filter((one) => one !== who).join() : [...chosen, who].join()});
        await this.openMerged(this.turn);
        this.attempts.querySelectorAll('.chip')[at]?.focus();
    }

    drawMerged({turn, items}) {
        if (turn !== this.turn)
            return;
        this.source.set(items);
        this.told(null);
        this.window.grown();
    }

    /* To the line of the address; a live log opens at its end. */
    place() {
        const match = /^#([LB])(\d+)(?:-L?(\d+))?$/.exec(location.hash);

        if (match !== null && match[1] === 'L') {
            this.window.pick(Number(match[2]), Number(match[3] || match[2]));
            this.window.goTo(Number(match[2]) - 1);
        } else if (match !== null) {
            const line = this.source.lineAt(Number(match[2]));

            if (!this.source.indexed)
                this.window.pick(line + 1, line + 1);
            this.window.goTo(line);
        } else if (live.has(this.model.inst.state[this.i])) {
            this.window.setFollow(true);
        } else if (this.atEnd()) {
            this.window.toEnd();
        } else {
            this.window.setFollow(false);
        }
    }

    link(from, to) {
        if (this.merged)
            return; /* its lines have no numbers that stay */
        const hash = from === to ? `#L${from}` : `#L${from}-L${to}`;

        setQuery({i: this.model.keyOf(this.i), end: null}, hash);
        navigator.clipboard?.writeText(location.href).then(() => say('The link to this line was copied')).catch(() => {});
    }

    copy() {
        const text = this.window.pickedText();

        if (text !== '')
            navigator.clipboard?.writeText(text).then(() => say('The lines were copied')).catch((e) => say(e.message, 'error'));
    }

    /* ---- news ---- */

    news(event, data) {
        if ((event === 'log' || event === 'reset') && this.merged)
            this.inOpened(() => this.merged && this.source && this.refresh());
        else if (event === 'log' && data.attempt === this.attempt && this.source?.grow) {
            const turn = this.turn;

            this.told(null);
            this.source.grow(data.bytes ?? data.size, () => turn === this.turn && this.window.grown()).catch(() => {});
        } else if (event === 'reset' && this.source?.grow) {
            this.source.grow(Infinity, () => this.window.grown()).catch(() => {});
        }
    }

    changed(changed) {
        const {inst} = this.model;

        if (this.i === undefined || this.i < 0) {
            if (changed.insts.size > 0 || changed.whole)
                this.open();
            return;
        }
        if (!changed.whole && !changed.insts.has(this.i) && !(this.merged === ALL && changed.run))
            return;
        if (!this.merged && inst.attempt_no[this.i] > this.shown && !query().get('a'))
            this.open(); /* another attempt began */
        else
            this.drawWhich();
        if (!live.has(inst.state[this.i]) && this.source?.grow)
            this.source.grow(Infinity, () => this.window.grown()).catch(() => {});
    }

    drawFollow(on, unseen) {
        this.followButton?.setAttribute('aria-pressed', String(on));
        if (!this.newLines)
            return;
        this.newLines.hidden = on || unseen === 0 || (this.merged ? this.model.over() : !this.model.liveOnes().includes(this.i));
        this.newLines.textContent = `${unseen.toLocaleString()} new line${unseen === 1 ? '' : 's'} ↓`;
    }

    /* ---- search ---- */

    async search(step) {
        const q = this.field.value, re = this.patternButton.getAttribute('aria-pressed') === 'true' ? 1 : '';

        await this.opened;
        const sought = `${this.attempt || this.merged} ${re} ${q}`;

        if (this.sought === sought && this.hits.length > 0) {
            this.step(step);
            return;
        }
        const any = !re && q === q.toLowerCase(); /* small letters stand for both */
        const pattern = any ? q.replace(/[.*+?^${}()|[\]\\]/g, '\\$&') : q;

        this.sought = q !== '' && (this.attempt || this.merged) ? sought : '';
        this.hits = [];
        this.at = -1;
        this.ask = {q: any ? `(?i)${pattern}` : q, re: re || any ? 1 : '', task: this.ofMerged().task};
        this.list.hidden = true;
        try {
            if (this.sought && this.merged)
                this.hits = this.source.find(re || any ? new RegExp(pattern, any ? 'i' : '') : q);
            if (this.sought)
                await this.moreHits(sought);
            if (this.sought === sought || this.sought === '')
                this.step(1);
        } catch (problem) {
            this.found.textContent = problem.message;
        }
    }

    /* The server's next hits: of one log to walk through; of several as a list of links. It answers within seconds: nothing
     * found by then does not mean that there is nothing. */
    async moreHits(sought) {
        let doc;

        this.found.textContent = 'searching';
        do {
            doc = await logSearch(this.model.no, this.attempt, this.ask);
            if (this.sought !== sought)
                return;
            this.ask = {...this.ask, ...(doc.next?.attempt ? doc.next : {from: doc.next})};
        } while (doc.items.length === 0 && doc.next !== undefined);
        this.cut = doc.next !== undefined;
        if (this.merged)
            this.drawHits(doc.items);
        else
            this.hits.push(...doc.items.map((hit) => hit.line - 1));
    }

    drawHits(items) {
        this.list.hidden = items.length === 0;
        fill(this.list, h('p.dim', `${count(items.length, 'line')} of all of it${this.cut ? ', and more' : ''}`), items.map((hit) => h('a',
            {href: `${logPage(this.model.no, hit.instance)}&a=${hit.attempt_no}#L${hit.line}`},
            h('span.dim', `${hit.instance} ${hit.line} `), plain(hit.text))));
    }

    async step(by) {
        const n = this.hits.length;

        if (by > 0 && this.cut && !this.merged && this.at === n - 1 && n > 0)
            await this.moreHits(this.sought);
        if (this.hits.length > 0)
            this.at = (this.at + by + this.hits.length) % this.hits.length;
        this.found.textContent = this.hits.length > 0 ? `${this.at + 1} of ${this.hits.length}${this.cut ? '+' : ''}`
            : this.sought && this.list.hidden ? 'not found' : '';
        this.window.setHits(this.hits, this.hits[this.at] ?? -1);
        if (this.hits.length > 0)
            this.window.goTo(this.hits[this.at]);
    }

    close() {
        this.turn = (this.turn || 0) + 1;
        this.source?.close();
        this.refresh.stop();
        this.window.close();
        this.model.onNews(null);
        this.stop();
        this.unbind();
    }
}

export function open(el, context) {
    return new LogsTab(el, context);
}
