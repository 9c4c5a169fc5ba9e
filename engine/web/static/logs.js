/* The tab "Logs": which attempt, its lines, follow, search, links to lines. */
import {fill, h, throttled} from './dom.js';
import {badge, live, stateOf} from './states.js';
import {bindKeys} from './keys.js';
import {empty, failed, say} from './ask.js';
import {attempts, logSearch, logUrl, runLog, runLogUrl} from './api.js';
import {LogSource, TextSource} from './logsource.js';
import {LogWindow} from './logwindow.js';
import {query, setQuery} from './nav.js';

const MANY = 300, MERGED_LINES = 10000;

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
        this.refresh = throttled(() => this.refreshMerged().catch(() => {}), 1500);
        model.onNews((event, data) => this.news(event, data));
        this.stop = model.listen((changed) => this.changed(changed));
        this.unbind = bindKeys('Logs', {
            f: ['follow', () => this.window.setFollow(!this.window.follow)],
            w: ['wrap lines', () => this.wrapButton.click()],
            n: ['next hit', () => this.step(1)],
            N: ['hit before', () => this.step(-1)],
            c: ['copy the chosen lines', () => this.copy()],
            G: ['end', () => this.window.toEnd()],
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
        this.followButton = h('button.toggle', {title: 'Follow (f)', on: {click: () => w.setFollow(!w.follow)}}, 'Follow');
        this.wrapButton = toggle('Wrap', 'w', w.wrap, (on) => {
            w.wrap = on;
            localStorage.setItem('flowrun.wrap', on ? '1' : '0');
            w.el.classList.toggle('wrap', on);
            w.draw();
        });
        w.el.classList.toggle('wrap', w.wrap);
        this.timesButton = toggle('Times', 'when each line was written', false, (on) => {
            this.times = on;
            this.refreshMerged();
        });
        this.timesButton.hidden = true;
        this.patternButton = toggle('Pattern', 'a regular expression', false, () => { this.searched = ''; });
        this.rawButton = toggle('Raw', 'as it was written', false, (on) => {
            w.raw = on;
            w.draw();
        });
        this.download = h('a.button', {download: '', title: 'The bytes of the log'}, 'Download');
        this.packed = h('a.button', {download: '', title: 'The same, packed'}, '.gz');
        this.newLines = h('button.newlines', {hidden: true, on: {click: () => w.setFollow(true)}});
        this.note = h('div.lognote', {hidden: true});
        fill(this.el, h('div.bar-row', this.which, this.attempts, h('span.grow'), this.field, this.patternButton, this.found,
            this.followButton, this.wrapButton, this.timesButton, this.rawButton, this.download, this.packed), this.note, w.el, this.newLines);
    }

    /* ---- which ---- */

    /* The address's instance; else the first failure, what runs, or what ended last. */
    async choose() {
        const {model} = this, {inst} = model, asked = query().get('i');

        if (asked !== null && model.byKey.has(asked))
            return model.byKey.get(asked);
        if (asked !== null && model.tasks.has(asked))
            return this.bestOf(model.tasks.get(asked).insts);
        const failure = model.firstFailure();

        if (failure >= 0)
            return failure;
        return this.bestOf(inst.idx.map((_, i) => i).filter((i) => inst.attempt_no[i] > 0));
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
            const field = h('input', {list: 'log-keys', 'aria-label': 'Whose log', value: model.keyOf(this.i),
                on: {change: () => this.go(field.value)}});

            return [field, h('datalist', {id: 'log-keys'}, began.slice(0, 5000).map((i) => h('option', {value: model.keyOf(i)})))];
        }
        const select = h('select', {'aria-label': 'Whose log', on: {change: () => this.go(select.value)}},
            [...model.tasks.values()].map((task) => {
                const own = task.insts.filter(isShown);

                return [own.map((i) => h('option', {value: model.keyOf(i)}, `${stateOf(inst.state[i]).glyph} ${model.keyOf(i)}`)),
                    own.length > 1 && h('option', {value: `*${task.name}`}, `≡ ${task.name}: all ${own.length} by time`)];
            }));

        select.value = this.merged ? `*${this.merged}` : model.keyOf(this.i);
        return select;
    }

    go(key) {
        setQuery({i: key.replace(/^\*/, ''), all: key.startsWith('*') ? '1' : null, a: null, r: null, end: null});
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

    async openNow() {
        const turn = this.turn = (this.turn || 0) + 1;

        this.source?.close();
        this.source = null;
        try {
            this.merged = query().get('all') && this.model.tasks.has(query().get('i')) ? query().get('i') : '';
            this.timesButton.hidden = this.merged === '';
            this.packed.hidden = !this.timesButton.hidden;
            this.i = await this.choose();
            if (this.i < 0) {
                this.told(empty('Nothing has started yet', h('p.dim', 'Output shows here as soon as a task writes some.')));
                return;
            }
            fill(this.which, badge(stateOf(this.model.inst.state[this.i]), {word: false}), this.selector());
            await (this.merged ? this.openMerged(turn) : this.openOne(turn));
        } catch (problem) {
            this.told(failed(problem, () => this.open()));
        }
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
        const list = await attempts(this.model.no, inst.task[this.i], inst.node[this.i]);
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
        await source.read(() => turn === this.turn && this.window.grown());
        if (turn !== this.turn)
            return;
        if (source.count === 0)
            this.told(empty(live.has(this.model.inst.state[this.i]) ? 'Nothing was written yet' : 'It wrote nothing'));
        this.place();
    }

    /* All attempts of a task as one text, by time; an attempt's own order stays. */
    async openMerged(turn) {
        fill(this.attempts);
        this.ranksDrawn = '';
        this.attempt = '';
        this.download.href = runLogUrl(this.model.no, {task: this.merged, tail: MERGED_LINES});
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

    async mergedLines() {
        const text = await runLog(this.model.no, {task: this.merged, tail: MERGED_LINES, times: this.times ? 1 : ''});
        const ranks = new Map(), chosen = (query().get('r') || '').split(',').filter(Boolean);
        const all = text === '' ? [] : text.replace(/\n$/, '').split('\n').map((line) => {
            const [, prefix, rest] = /^(.{1,90}?) ?\| ?(.*)$/s.exec(line) || [null, '', line];
            const who = prefix.split(' ').at(-1);

            if (!ranks.has(who))
                ranks.set(who, ranks.size);
            return {text: rest, prefix, who, rank: ranks.get(who)};
        });

        this.drawRanks(ranks, chosen);
        return chosen.length > 0 ? all.filter((line) => chosen.includes(line.who)) : all;
    }

    /* A button a rank; none is chosen: all are shown. */
    drawRanks(ranks, chosen) {
        const sign = `${[...ranks.keys()]} ${chosen}`;

        if (sign === this.ranksDrawn)
            return;
        this.ranksDrawn = sign;
        const short = (who) => who.replace(/^.*@/, '').split('.')[0], alike = new Set([...ranks.keys()].map(short)).size < ranks.size;

        fill(this.attempts, ranks.size > 1 && h('span.chips', {role: 'group', 'aria-label': 'Ranks'},
            [...ranks].sort(([one], [other]) => one.localeCompare(other, undefined, {numeric: true})).map(([who, rank]) => h(`button.chip.rank.r${rank % 8}`, {
                'aria-pressed': String(chosen.includes(who)), title: who, on: {click: () => this.chooseRank(who, chosen)}}, alike ? who.replace(/^.*@/, '') : short(who)))));
    }

    async chooseRank(who, chosen) {
        const at = [...this.attempts.querySelectorAll('.chip')].indexOf(document.activeElement);

        setQuery({r: chosen.includes(who) ? chosen.filter((one) => one !== who).join() : [...chosen, who].join()});
        await this.openMerged(this.turn);
        this.attempts.querySelectorAll('.chip')[at]?.focus();
    }

    async refreshMerged() {
        const {source, turn} = this, items = await this.mergedLines();

        if (turn !== this.turn)
            return;
        source.set(items);
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
            this.window.goTo(this.source.lineAt(Number(match[2])));
        } else if (live.has(this.model.inst.state[this.i])) {
            this.window.setFollow(true);
        } else if (query().get('end') || this.model.run.outcome === 'failed') {
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
        if ((event === 'log' || event === 'reset') && this.merged && this.source)
            this.refresh();
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
        if (!changed.whole && !changed.insts.has(this.i))
            return;
        if (!this.merged && inst.attempt_no[this.i] > this.shown && !query().get('a'))
            this.open(); /* another attempt began */
        else
            fill(this.which, badge(stateOf(inst.state[this.i]), {word: false}), this.selector());
        if (!live.has(inst.state[this.i]) && this.source?.grow)
            this.source.grow(Infinity, () => this.window.grown()).catch(() => {});
    }

    drawFollow(on, unseen) {
        this.followButton?.setAttribute('aria-pressed', String(on));
        if (!this.newLines)
            return;
        this.newLines.hidden = on || unseen === 0 || !this.model.liveOnes().includes(this.i);
        this.newLines.textContent = `${unseen.toLocaleString()} new line${unseen === 1 ? '' : 's'} ↓`;
    }

    /* ---- search ---- */

    async search(step) {
        const q = this.field.value, re = this.patternButton.getAttribute('aria-pressed') === 'true' ? 1 : '';

        await this.opened;
        if (q === '' || (!this.attempt && !this.merged)) {
            this.hits = [];
            this.found.textContent = '';
            this.window.setHits([], -1);
            return;
        }
        if (this.searched === `${this.attempt || this.merged} ${q}` && this.hits.length > 0) {
            this.step(step);
            return;
        }
        try {
            const doc = this.merged ? {items: this.source.find(re ? new RegExp(q) : q), truncated: false}
                : await logSearch(this.model.no, this.attempt, {q, re});

            this.hits = doc.items.map((hit) => hit.line - 1);
            this.cut = doc.truncated;
            this.searched = `${this.attempt || this.merged} ${q}`;
            this.at = -1;
            this.step(1);
        } catch (problem) {
            this.found.textContent = problem.message;
        }
    }

    step(by) {
        if (this.hits.length === 0) {
            this.found.textContent = this.searched ? 'not found' : '';
            this.window.setHits([], -1);
            return;
        }
        this.at = (this.at + by + this.hits.length) % this.hits.length;
        this.found.textContent = `${this.at + 1} of ${this.hits.length}${this.cut ? '+' : ''}`;
        this.window.setHits(this.hits, this.hits[this.at]);
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
