/*
 * The tab "Timeline": a bar an attempt, by node. Light is queued and starting, full is running, a dark
 * end is stopping. Made of the run's events; drawn on a canvas, rows in view alone.
 */
import {canvasContext, colour, fill, h, onResize, oncePerFrame, table, throttled} from './dom.js';
import {Story} from './events.js';
import {bindKeys} from './keys.js';
import {absolute, clockTime, duration, now} from './times.js';
import {stateOf} from './states.js';
import {failed} from './ask.js';
import {go, logPage} from './nav.js';
import {criticalPath, gangs, Spans} from './spans.js';

const AXIS_H = 26, NAMES_W = 190, DENSE = 400, LEAST_PX = 1;

function step(ms) {
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3,
        1800e3, 3600e3, 7200e3, 14400e3, 21600e3, 43200e3, 86400e3, 172800e3, 604800e3];

    return steps.find((s) => s >= ms) || 604800e3;
}

class Timeline {
    constructor(el, {model, page}) {
        Object.assign(this, {el, model, page});
        this.spans = new Spans(model);
        this.story = new Story(model.no);
        this.graph = null;
        this.view = null; /* [from, to] that is shown; null: all */
        this.critical = new Set();
        this.rows = this.brackets = [];
        this.draw = oncePerFrame(() => this.drawNow());
        this.load = throttled(() => this.loadNow(), 1000);
        this.build();
        this.stop = model.listen(() => this.load());
        this.unbind = bindKeys('Timeline', {
            0: ['all of it', () => this.setView(null)],
            '+': ['larger', () => this.zoom(0.7)],
            '-': ['smaller', () => this.zoom(1.4)],
            t: ['as a table', () => this.setTable(this.table.hidden)],
        });
        this.timer = setInterval(() => model.over() || this.draw(), 1000);
        this.load();
    }

    build() {
        this.canvas = h('canvas', {role: 'img', 'aria-label': 'Timeline'});
        this.depth = h('div.depth');
        this.tip = h('div.tip', {hidden: true});
        this.box = h('div.chartbox', {tabindex: '0', 'aria-label': 'Timeline, scrolls'}, this.canvas, this.depth);
        this.table = h('div', {hidden: true});
        this.asTable = h('button', {'aria-pressed': 'false', on: {click: () => this.setTable(this.table.hidden)}}, 'Table');
        this.says = h('span.dim');
        fill(this.el, h('div.bar-row', this.says, h('span.grow'),
            h('button.icon', {'aria-label': 'Smaller', on: {click: () => this.zoom(1.4)}}, '−'),
            h('button.icon', {'aria-label': 'Larger', on: {click: () => this.zoom(0.7)}}, '+'),
            h('button', {on: {click: () => this.setView(null)}}, 'Fit'), this.asTable), this.box, this.table, this.tip);
        this.box.addEventListener('scroll', this.draw);
        this.stopResize = onResize(this.box, this.draw);
        window.addEventListener('flowrun-theme', this.draw);
        this.box.addEventListener('wheel', (event) => this.onWheel(event), {passive: false});
        this.canvas.addEventListener('pointerdown', (event) => this.onDown(event));
        this.canvas.addEventListener('pointermove', (event) => this.onMove(event));
        this.canvas.addEventListener('pointerup', (event) => this.onUp(event));
        this.canvas.addEventListener('pointerleave', () => { this.tip.hidden = true; });
        this.canvas.addEventListener('dblclick', () => this.setView(null));
    }

    async loadNow() {
        try {
            this.graph = this.graph || await this.page.graph().catch(() => null);
            await this.story.read((items) => {
                this.spans.add(items);
                this.stale = true;
                this.draw();
            });
            if (this.closed)
                return;
            if (this.model.over())
                this.critical = criticalPath(this.spans, this.graph);
            this.draw();
            if (!this.table.hidden)
                this.drawTable();
        } catch (problem) {
            if (this.spans.bars.length === 0 && !this.closed)
                fill(this.el, failed(problem));
        }
    }

    /* ---- scales ---- */

    range() {
        if (this.view !== null)
            return this.view;
        const from = this.spans.from || this.model.run.started || now();
        const to = this.model.over() ? Math.max(this.spans.to, this.model.run.ended || 0) : now();

        return [from, Math.max(to, from + 50)];
    }

    x(ms) {
        const [from, to] = this.range();

        return this.namesW + (ms - from) / (to - from) * (this.width - this.namesW - 12);
    }

    timeAt(x) {
        const [from, to] = this.range();

        return from + (x - this.namesW) / (this.width - this.namesW - 12) * (to - from);
    }

    setView(view) {
        this.view = view;
        this.draw();
    }

    zoom(factor, x = (this.width + this.namesW) / 2) {
        const [from, to] = this.range(), at = this.timeAt(x);

        this.setView([at - (at - from) * factor, at + (to - at) * factor]);
    }

    /* ---- drawing ---- */

    drawNow() {
        if (!this.box.isConnected || this.box.hidden)
            return;
        if (this.stale) {
            this.stale = false;
            this.rows = this.spans.rows();
            this.brackets = gangs(this.spans, this.rows, this.graph);
        }
        const rowH = this.rowH = this.rows.length > DENSE ? 13 : 22;

        this.namesW = this.box.clientWidth < 520 ? 96 : NAMES_W;
        this.width = this.box.clientWidth;
        this.height = Math.min(AXIS_H + this.rows.length * rowH + 8, Math.max(260, innerHeight - 260));
        this.box.style.maxHeight = `${this.height + 2}px`;
        this.depth.style.height = `${AXIS_H + this.rows.length * rowH + 8}px`;
        const c = canvasContext(this.canvas, this.width, this.height);

        this.c = c;
        c.fillStyle = colour('ground');
        c.fillRect(0, 0, this.width, this.height);
        this.drawGrid();
        this.drawRows();
        this.drawAxis();
        this.tell();
    }

    ticks() {
        const [from, to] = this.range(), every = step((to - from) / Math.max(2, (this.width - this.namesW) / 110));
        const out = [];

        for (let t = Math.ceil(from / every) * every; t <= to; t += every)
            out.push(t);
        return {out, millis: every < 1000, days: to - from > 86400e3};
    }

    drawGrid() {
        const {c} = this;

        c.fillStyle = colour('line');
        for (const t of this.ticks().out)
            c.fillRect(Math.round(this.x(t)), 0, 1, this.height);
    }

    drawAxis() {
        const {c} = this, {out, millis, days} = this.ticks();

        c.fillStyle = colour('panel');
        c.fillRect(0, 0, this.width, AXIS_H);
        c.fillStyle = colour('line');
        c.fillRect(0, AXIS_H - 1, this.width, 1);
        c.font = '11px system-ui, sans-serif';
        c.fillStyle = colour('dim');
        c.textBaseline = 'middle';
        for (const t of out)
            if (this.x(t) > this.namesW - 4 && this.x(t) < this.width - 50)
                c.fillText(days ? absolute(t).slice(5, 16) : clockTime(t, {millis}), this.x(t) + 4, AXIS_H / 2);
        if (!this.model.over()) {
            c.fillStyle = colour('accent');
            c.fillRect(Math.round(this.x(now())), 0, 1, this.height);
        }
        if (this.brush) {
            c.globalAlpha = 0.2;
            c.fillStyle = colour('accent');
            c.fillRect(Math.min(...this.brush), 0, Math.abs(this.brush[1] - this.brush[0]), this.height);
            c.globalAlpha = 1;
        }
    }

    drawRows() {
        const {c, rowH} = this, top = this.box.scrollTop;
        const first = Math.max(0, Math.floor((top - AXIS_H) / rowH)), last = Math.min(this.rows.length, first + Math.ceil(this.height / rowH) + 2);

        for (let r = first; r < last; r++)
            this.drawRow(this.rows[r], AXIS_H + r * rowH - top);
        c.globalAlpha = 1;
        for (const one of this.brackets)
            if (one.rows[0] < last && one.rows.at(-1) >= first)
                this.drawBracket(one, top);
    }

    /* What started together: a line before the bars, with a tick to each. */
    drawBracket({start, rows}, top) {
        const {c, rowH} = this, x = Math.round(this.x(start)) - 5, y = (r) => Math.round(AXIS_H + (r + 0.5) * rowH - top);

        if (x < this.namesW - 5 || x > this.width)
            return;
        c.fillStyle = colour('dim');
        c.fillRect(x, y(rows[0]), 1, y(rows.at(-1)) - y(rows[0]) + 1);
        for (const r of rows)
            c.fillRect(x, y(r), 4, 1);
    }

    drawRow(row, y) {
        const {c, rowH} = this, size = rowH > 15 ? 12 : 10;

        if (row.head) {
            c.fillStyle = colour('panel');
            c.fillRect(0, y, this.width, rowH);
        } else {
            this.drawBars(row, y);
        }
        c.fillStyle = row.head ? colour('panel') : colour('ground');
        c.fillRect(0, y, this.namesW - 6, rowH);
        c.font = `${row.head ? '600 ' : ''}${size}px system-ui, sans-serif`;
        c.fillStyle = row.head ? colour('text') : colour('dim');
        c.textBaseline = 'middle';
        c.save();
        c.beginPath();
        c.rect(0, y, this.namesW - 8, rowH);
        c.clip();
        c.fillText(this.fitting(row.head || row.name), row.head ? 10 : 18, y + rowH / 2 + 0.5);
        c.restore();
    }

    fitting(text) {
        const fits = (n) => this.c.measureText(text.slice(0, n)).width < this.namesW - 40;
        let n = text.length;

        while (!fits(n))
            n--;
        return n < text.length ? `${text.slice(0, n)}…` : text;
    }

    drawBars(row, y) {
        const {c, rowH} = this, pad = rowH > 15 ? 4 : 2;
        let lastX = -1;

        for (const bar of row.bars) {
            const x = this.x(bar.start || bar.ready), end = this.x(this.endOf(bar));

            if (end < this.namesW || x > this.width)
                continue;
            if (end - x < LEAST_PX && x - lastX < LEAST_PX)
                continue; /* merges into the one before */
            lastX = Math.max(x, end);
            this.drawBar(bar, y + pad, rowH - 2 * pad);
        }
    }

    endOf(bar) {
        return bar.end || now();
    }

    part(from, to, y, height, alpha) {
        const x = this.x(from);

        this.c.globalAlpha = alpha;
        this.c.fillRect(x, y, Math.max(LEAST_PX, this.x(to) - x), height);
    }

    drawBar(bar, y, height) {
        const {c} = this, end = this.endOf(bar), look = stateOf(bar.state).look;

        c.fillStyle = colour(`st-${look}`);
        if (bar.ready && bar.start > bar.ready)
            this.part(bar.ready, bar.start, y + height / 2 - 1, 2, 0.35);
        if (bar.start)
            this.part(bar.start, bar.run || bar.stop || end, y, height, 0.35);
        if (bar.run)
            this.part(bar.run, bar.stop || end, y, height, 1);
        if (bar.stop) {
            c.fillStyle = colour('st-stopping');
            this.part(bar.stop, end, y, height, 1);
        }
        for (const [from, to] of bar.away)
            this.hatch(this.x(from), this.x(to || end), y, height);
        if (bar.retryUntil) {
            c.fillStyle = colour('st-retrying');
            for (let x = this.x(end); x < this.x(bar.retryUntil); x += 6)
                c.fillRect(x, y + height / 2 - 1, 3, 2);
        }
        if (this.critical.has(bar.i)) {
            c.globalAlpha = 1;
            c.strokeStyle = colour('text');
            c.lineWidth = 1.5;
            c.strokeRect(this.x(bar.start || bar.ready), y - 1, Math.max(2, this.x(end) - this.x(bar.start || bar.ready)), height + 2);
        }
    }

    hatch(x, to, y, height) {
        const {c} = this;

        c.save();
        c.globalAlpha = 1;
        c.beginPath();
        c.rect(x, y, Math.max(1, to - x), height);
        c.clip();
        c.strokeStyle = colour('st-stopping');
        for (let k = x - height; k < to; k += 5) {
            c.beginPath();
            c.moveTo(k, y + height);
            c.lineTo(k + height, y);
            c.stroke();
        }
        c.restore();
    }

    tell() {
        const bars = this.spans.bars.length, [from, to] = this.range();
        const text = `${bars.toLocaleString()} attempt${bars === 1 ? '' : 's'} in ${duration(to - from)}`;

        this.canvas.setAttribute('aria-label', `Timeline: ${text}; press t for a table`);
        this.says.textContent = this.critical.size > 0 ? `${text}; outlined: the chain that decided the end` : text;
    }

    /* ---- pointer ---- */

    onWheel(event) {
        if (!event.ctrlKey && !event.metaKey)
            return;
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY * 0.0025), event.offsetX);
    }

    onDown(event) {
        this.canvas.setPointerCapture(event.pointerId);
        this.from = {x: event.offsetX, y: event.offsetY, view: this.range(), top: this.box.scrollTop, moved: 0};
        if (event.offsetY < AXIS_H)
            this.brush = [event.offsetX, event.offsetX];
    }

    onMove(event) {
        if (this.from === undefined || this.from === null) {
            this.hover(event);
            return;
        }
        const dx = event.offsetX - this.from.x;

        this.from.moved = Math.max(this.from.moved, Math.abs(dx), Math.abs(event.offsetY - this.from.y));
        if (this.brush) {
            this.brush[1] = event.offsetX;
        } else if (this.from.moved > 4) {
            const [a, b] = this.from.view, ms = dx / (this.width - this.namesW) * (b - a);

            if (this.view !== null)
                this.view = [a - ms, b - ms];
            this.box.scrollTop = this.from.top - (event.offsetY - this.from.y);
        }
        this.draw();
    }

    onUp(event) {
        const {from} = this;

        this.from = null;
        if (this.brush) {
            const [a, b] = this.brush.map((x) => this.timeAt(x)).sort((one, other) => one - other);

            this.brush = null;
            this.setView(b - a > 1 && from.moved > 3 ? [a, b] : this.view);
        } else if (from && from.moved <= 4) {
            const bar = this.barAt(event);

            if (bar !== null)
                go(`${logPage(this.model.no, this.model.keyOf(bar.i))}&a=${bar.attempt}`);
        }
    }

    barAt(event) {
        const row = this.rows[Math.floor((event.offsetY + this.box.scrollTop - AXIS_H) / this.rowH)];

        if (!row || row.head || event.offsetY < AXIS_H)
            return null;
        return row.bars.find((bar) => event.offsetX >= this.x(bar.ready || bar.start) - 2 && event.offsetX <= this.x(this.endOf(bar)) + 2) || null;
    }

    hover(event) {
        const bar = this.barAt(event);

        this.tip.hidden = bar === null;
        this.canvas.style.cursor = bar === null ? 'default' : 'pointer';
        if (bar === null)
            return;
        const line = (name, value) => h('div.row', h('span.dim', name), h('span.num', value));

        fill(this.tip, h('strong', this.model.keyOf(bar.i)), bar.attempt > 1 && ` attempt ${bar.attempt}`,
            line('state', stateOf(bar.state).word), bar.need && line('after', bar.need),
            bar.gang > 1 && line('gang', `starts and ends with ${bar.gang - 1} more`),
            bar.ready > 0 && bar.start > 0 && line('waited for a slot', duration(bar.start - bar.ready)),
            bar.start > 0 && line('started', clockTime(bar.start, {millis: true})),
            bar.run > 0 && line('ran', duration((bar.stop || this.endOf(bar)) - bar.run)),
            bar.stop > 0 && line('stopping', duration(this.endOf(bar) - bar.stop)),
            bar.away.length > 0 && line('node away', `${bar.away.length} ×`));
        this.tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 260)}px`;
        this.tip.style.top = `${Math.min(event.clientY + 14, innerHeight - 150)}px`;
    }

    /* ---- the same as a table ---- */

    setTable(on) {
        this.table.hidden = !on;
        this.box.hidden = on;
        this.asTable.setAttribute('aria-pressed', String(on));
        if (on)
            this.drawTable();
        else
            this.draw();
    }

    drawTable() {
        const shown = this.spans.bars.slice(0, 1000);

        fill(this.table, table('', ['Task', 'Attempt', 'State', 'Started', 'Waited', 'Took'], shown.map((bar) => h('tr',
            h('td', this.model.keyOf(bar.i)), h('td.num', String(bar.attempt)), h('td', stateOf(bar.state).word),
            h('td.num', bar.start ? clockTime(bar.start, {millis: true}) : '–'),
            h('td.num', bar.start && bar.ready ? duration(bar.start - bar.ready) : '–'),
            h('td.num', bar.start ? duration(this.endOf(bar) - bar.start) : '–')))),
        this.spans.bars.length > 1000 && h('p.dim', `The first 1000 of ${this.spans.bars.length.toLocaleString()}`));
    }

    close() {
        this.closed = true;
        clearInterval(this.timer);
        window.removeEventListener('flowrun-theme', this.draw);
        this.stopResize();
        this.load.stop();
        this.stop();
        this.unbind();
    }
}

export function open(el, context) {
    return new Timeline(el, context);
}

