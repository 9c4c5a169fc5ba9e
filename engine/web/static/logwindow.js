/*
 * A window over the lines of a log: some hundred rows in the document, whatever the log's length.
 * Beyond what an element may be high (about 33 million pixels) the scroll bar stands for lines by ratio.
 */
import {ansiLine, ERRORS, plain} from './ansi.js';
import {absolute, clockTime} from './times.js';
import {fill, h, oncePerFrame, onResize} from './dom.js';

const LINE_H = 18, SPARE = 30, HIGHEST = 30e6, LONG = 8192, MARKS = 200, SLICE = 4000;
/* What flownode writes in place of bytes that it dropped (engine/node/logfile.c). */
const GAP = /^\[flowrun: (\d+) bytes dropped\]$/;

export class LogWindow {
    /* onFollow(on, new lines below); onPick(from, to) of line numbers from 1 */
    constructor({onFollow, onPick}) {
        this.onFollow = onFollow;
        this.onPick = onPick;
        this.rows = h('div.rows');
        this.space = h('div.space', this.rows);
        this.box = h('div.logbox', {tabindex: '0', role: 'log', 'aria-live': 'off', 'aria-label': 'Log'}, this.space);
        this.marks = h('div.marks', {'aria-hidden': 'true'});
        this.el = h('div.logframe', this.box, this.marks);
        this.follow = false;
        this.wrap = this.raw = this.times = false;
        this.unseen = 0;
        this.picked = [0, 0];
        this.hits = new Map(); /* line from 0: true */
        this.current = -1;
        this.whole = new Set(); /* long lines that are shown whole */
        this.draw = oncePerFrame(() => this.drawNow());
        this.box.addEventListener('scroll', () => this.onScroll());
        this.rows.addEventListener('click', (event) => this.onClick(event));
        this.stopResize = onResize(this.box, this.draw);
    }

    show(source) {
        this.source = source;
        this.known = this.scanned = 0;
        this.unseen = 0;
        this.errors = [];
        this.errorAt = this.gap = -1;
        this.hits = new Map();
        this.whole = new Set();
        this.drawn = '';
        this.box.style.height = `${Math.max(300, innerHeight - this.box.getBoundingClientRect().top - scrollY - 20)}px`;
        this.box.scrollTop = 0;
        fill(this.rows);
        fill(this.marks);
        this.grown();
    }

    /* ---- where ---- */

    height() {
        return Math.min(HIGHEST, this.source.count * LINE_H);
    }

    visible() {
        return Math.ceil(this.box.clientHeight / LINE_H);
    }

    isScaled() {
        return this.source.count * LINE_H > HIGHEST;
    }

    top() {
        const most = this.source.count - this.visible();

        if (!this.isScaled())
            return Math.max(0, Math.min(most, Math.floor(this.box.scrollTop / LINE_H)));
        return Math.max(0, Math.round(most * this.box.scrollTop / Math.max(1, HIGHEST - this.box.clientHeight)));
    }

    /* Line from 0 to the top. */
    scrollTo(line) {
        this.setFollow(false);
        this.box.scrollTop = this.isScaled()
            ? line / (this.source.count - this.visible()) * (HIGHEST - this.box.clientHeight) : line * LINE_H;
        this.draw();
    }

    /* Line from 0 to a third below the top. */
    goTo(line) {
        this.scrollTo(Math.max(0, line - Math.floor(this.visible() / 3)));
        this.wanted = line;
    }

    /* The number of lines from the first visible one to the end; 0: the end is visible. */
    beforeEnd() {
        return this.isAtEnd() ? 0 : this.source.count - this.top();
    }

    toEnd() {
        this.box.scrollTop = this.box.scrollHeight;
        this.lastTop = this.box.scrollTop;
        this.draw();
    }

    setFollow(on) {
        this.follow = on;
        if (on) {
            this.unseen = 0;
            this.toEnd();
        }
        this.onFollow(on, this.unseen);
    }

    isAtEnd() {
        return this.box.scrollTop + this.box.clientHeight >= this.box.scrollHeight - LINE_H;
    }

    onScroll() {
        if (this.follow && this.box.scrollTop < this.lastTop - 1 && !this.isAtEnd())
            this.setFollow(false);
        else if (this.unseen > 0 && this.isAtEnd()) {
            this.unseen = 0;
            this.onFollow(this.follow, 0);
        }
        this.lastTop = this.box.scrollTop;
        this.draw();
    }

    /* ---- drawing ---- */

    /* The source has more. */
    grown() {
        const more = this.source.count - this.known;

        this.known = this.source.count;
        this.space.style.height = `${this.height()}px`;
        if (this.follow)
            this.toEnd();
        else if (more > 0) {
            this.unseen += more;
            this.onFollow(false, this.unseen);
        }
        this.scan();
        this.drawn = '';
        this.draw();
    }

    async drawNow() {
        if (!this.source || !this.el.isConnected)
            return;
        const first = Math.max(0, this.top() - SPARE), n = this.visible() + 2 * SPARE;
        const sign = `${first} ${n} ${this.source.count} ${this.wrap} ${this.raw} ${this.times} ${this.picked} ${this.current} ${this.hits.size} ${this.whole.size}`;

        if (sign === this.drawn)
            return;
        this.drawn = sign;
        const {source} = this;

        await source.ensure(first, n);
        if (this.times)
            await source.ensureTimes(first, n);
        if (source !== this.source || this.drawn !== sign)
            return;
        const rows = [];

        for (let i = first; i < Math.min(source.count, first + n); i++)
            rows.push(this.row(i));
        fill(this.rows, rows);
        this.place(first);
    }

    place(first) {
        const top = this.isScaled() ? this.box.scrollTop - (this.top() - first) * LINE_H : first * LINE_H;

        this.rows.style.transform = `translateY(${Math.max(0, top)}px)`;
        if (this.wrap) {
            const beyond = this.rows.offsetHeight - this.rows.children.length * LINE_H;

            this.space.style.height = `${this.height() + Math.max(0, beyond)}px`;
            if (this.follow)
                this.box.scrollTop = this.box.scrollHeight;
        }
        if (this.wanted !== undefined) {
            this.rows.querySelector(`[data-line="${this.wanted}"]`)?.scrollIntoView({block: 'nearest'});
            this.wanted = undefined;
        }
    }

    row(i) {
        const line = this.source.line(i), no = this.source.uncounted ? '' : i + 1, gap = line !== null && GAP.exec(line.text);
        const label = this.gap >= 0 && i > this.gap ? `+${i - this.gap}` : String(no);
        const picked = no > 0 && no >= this.picked[0] && no <= this.picked[1];
        const kind = `${picked ? ' picked' : ''}${this.hits.has(i) ? ' hit' : ''}${i === this.current ? ' current' : ''}`;

        if (line === null)
            return h('div', {class: `ln${kind}`, 'data-line': i}, h('span.lno', {'data-no': String(no), 'data-label': label}), '…');
        if (gap)
            return h('div.ln.gap', {'data-line': i}, h('span.lno'), h('span.tx', `${Number(gap[1]).toLocaleString()} bytes were dropped here`));
        const cut = line.cut || (line.text.length > LONG && !this.whole.has(i)), ms = this.times && this.source.timeOf(line);
        const error = !this.raw && line.text.length < 4096 && ERRORS.test(line.text);

        return h('div', {class: `ln${kind}${error ? ' bad' : ''}`, 'data-line': i},
            h('span.lno', {'data-no': String(no), 'data-label': label}), ms > 0 && h('time.rank', {title: absolute(ms)}, clockTime(ms)), line.prefix && h(`span.rank.r${line.rank % 8}`, line.prefix),
            h('span.tx', ansiLine(cut ? line.text.slice(0, LONG) : line.text, {raw: this.raw}),
                cut && h('button.plain.rest', {'data-rest': i}, line.cut ? 'show all of it' : `show all ${line.text.length.toLocaleString()} characters`)));
    }

    onClick(event) {
        const rest = event.target.closest('[data-rest]'), no = Number(event.target.dataset.no);

        if (rest !== null) {
            this.showWhole(Number(rest.dataset.rest));
        } else if (no > 0) {
            const from = event.shiftKey && this.picked[0] > 0 ? Math.min(this.picked[0], no) : no;
            const to = event.shiftKey && this.picked[0] > 0 ? Math.max(this.picked[1], no) : no;

            this.pick(from, to);
            this.onPick(from, to);
        }
    }

    async showWhole(i) {
        if (this.source.line(i).cut)
            await this.source.whole(i);
        this.whole.add(i);
        this.draw();
    }

    /* Goes to the next error after the visible place; after the last one to the first. */
    nextError() {
        const at = this.errors.find((i) => i > this.errorAt) ?? this.errors[0];

        if (at !== undefined) {
            this.errorAt = at;
            this.goTo(at);
        }
    }

    pick(from, to) {
        this.picked = [from, to];
        this.draw();
    }

    pickedText() {
        const out = [];

        for (let no = this.picked[0]; no <= this.picked[1] && no > 0; no++)
            out.push(plain(this.source.line(no - 1)?.text ?? ''));
        return out.join('\n');
    }

    setHits(lines, current) {
        this.hits = new Map(lines.map((l) => [l, true]));
        this.current = current;
        this.drawMarks();
        this.draw();
    }

    /* ---- marks beside the scroll bar ---- */

    /* Looks for errors among the lines that came, a slice at a time. */
    scan() {
        const {source} = this;

        if (source.indexed && !source.sought) {
            source.sought = true;
            source.first(`${ERRORS.source}|${GAP.source}`).then((found) => {
                if (source === this.source)
                    found.forEach(({line, text}) => this.scanLine(line, text));
                this.drawMarks();
            }, () => {});
        }
        if (source.indexed || this.scanning)
            return;
        this.scanning = true;
        const slice = () => {
            if (source !== this.source) {
                this.scanning = false;
                return this.scan();
            }
            const to = Math.min(source.count, this.scanned + SLICE);

            for (; this.scanned < to; this.scanned++)
                this.scanLine(this.scanned, source.line(this.scanned).text);
            this.drawMarks();
            if (this.scanned < source.count)
                return setTimeout(slice, 0);
            this.scanning = false;
            return undefined;
        };

        setTimeout(slice, 0);
    }

    scanLine(i, text) {
        if (this.errors.length < MARKS && ERRORS.test(text.slice(0, 4096)))
            this.errors.push(i);
        if (text.startsWith('[flowrun:') && GAP.test(text)) {
            this.gap = i;
            this.drawn = '';
            this.draw();
        }
    }

    drawMarks() {
        const mark = (kind) => (line) => h(`span.mark.${kind}`, {style: {top: `${(100 * line / Math.max(1, this.source.count)).toFixed(2)}%`}});

        fill(this.marks, this.errors.map(mark('bad')), [...this.hits.keys()].slice(0, MARKS).map(mark('hit')));
    }

    close() {
        this.stopResize();
    }
}
