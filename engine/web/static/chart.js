/*
 * One chart on a canvas: lines over a shared x axis. A faint line is raw, the full one smoothed; lost
 * work is faint and dotted; what is no finite number is a triangle at its place; an arrow says that
 * something lies outside.
 */
import {canvasContext, colour, fill, h, onResize, oncePerFrame} from './dom.js';
import {logTicks, short, smooth, ticks, yRange} from './smooth.js';

const LEFT = 52, BOTTOM = 20, TOP = 6, RIGHT = 8;

export class Chart {
    /*
     * board: what charts share: {range: [x, x] | null, at: x | null, formatX(x), setAt(x), setRange([x, x] | null)}
     * lines: [{name, colour, points: [[x, y]], lost}], restarts: [x]
     */
    constructor(title, board) {
        Object.assign(this, {title, board, log: false, height: 190});
        this.says = h('span.last.num.dim');
        this.canvas = h('canvas', {role: 'img', tabindex: '0', 'aria-label': title});
        this.logButton = h('button', {'aria-pressed': 'false', title: 'Logarithmic', on: {click: () => this.setLog(!this.log)}}, 'log');
        this.el = h('section.chart', h('header', h('h3', title), this.says, this.logButton), this.canvas);
        this.draw = oncePerFrame(() => this.drawNow());
        this.stop = onResize(this.el, this.draw);
        this.canvas.addEventListener('pointermove', (event) => this.onMove(event));
        this.canvas.addEventListener('pointerleave', () => board.setAt(null));
        this.canvas.addEventListener('pointerdown', (event) => this.onDown(event));
        this.canvas.addEventListener('pointerup', (event) => this.onUp(event));
        this.canvas.addEventListener('dblclick', () => board.setRange(null));
        this.canvas.addEventListener('keydown', (event) => this.onKey(event));
    }

    setLog(on) {
        this.log = on;
        this.logButton.setAttribute('aria-pressed', String(on));
        this.draw();
    }

    /* Draws chart.raw. */
    show(restarts, weight) {
        const [from, to] = this.board.extent();

        this.restarts = restarts;
        this.lines = this.raw.map((line) => ({...line, soft: weight > 0 && !line.lost ? smooth(line.points, weight, to - from) : null}));
        this.draw();
    }

    /* ---- scales ---- */

    inView(points) {
        const [from, to] = this.board.view();

        return points.filter(([x]) => x >= from && x <= to);
    }

    x(v) {
        const [from, to] = this.board.view();

        return LEFT + (v - from) / Math.max(1e-12, to - from) * (this.width - LEFT - RIGHT);
    }

    y(v) {
        const [low, high] = this.range, share = this.log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);

        return this.height - BOTTOM - share * (this.height - BOTTOM - TOP);
    }

    valueAt(px) {
        const [from, to] = this.board.view();

        return from + (px - LEFT) / Math.max(1, this.width - LEFT - RIGHT) * (to - from);
    }

    /* ---- drawing ---- */

    drawNow() {
        if (!this.el.isConnected)
            return;
        this.width = this.el.clientWidth - 22;
        const c = this.c = canvasContext(this.canvas, this.width, this.height);

        this.range = yRange(this.lines.flatMap((line) => this.inView(line.points).map(([, y]) => y)), this.log);
        c.clearRect(0, 0, this.width, this.height);
        c.font = '11px system-ui, sans-serif';
        c.textBaseline = 'middle';
        this.drawGrid();
        c.save();
        c.beginPath();
        c.rect(LEFT, 0, this.width - LEFT - RIGHT, this.height - BOTTOM + 1);
        c.clip();
        this.drawRestarts();
        for (const line of this.lines)
            this.drawLine(line);
        c.restore();
        this.drawOutside();
        this.drawCross();
        this.tell();
    }

    drawGrid() {
        const {c, board} = this, [from, to] = board.view(), [low, high] = this.range;

        c.textAlign = 'right';
        for (const v of this.log ? logTicks(low, high) : ticks(low, high, 4)) {
            c.fillStyle = colour('line');
            c.fillRect(LEFT, Math.round(this.y(v)), this.width - LEFT - RIGHT, 1);
            c.fillStyle = colour('dim');
            c.fillText(short(v), LEFT - 6, this.y(v));
        }
        c.textAlign = 'center';
        for (const v of ticks(from, to, Math.max(2, Math.floor((this.width - LEFT) / 90)))) {
            c.fillStyle = colour('dim');
            c.fillText(board.formatX(v), Math.min(this.width - 20, this.x(v)), this.height - BOTTOM / 2 + 2);
        }
        c.textAlign = 'left';
    }

    drawRestarts() {
        const {c} = this;

        c.strokeStyle = colour('st-retrying');
        c.globalAlpha = 0.7;
        c.setLineDash([2, 3]);
        for (const at of this.restarts) {
            c.beginPath();
            c.moveTo(this.x(at), 0);
            c.lineTo(this.x(at), this.height);
            c.stroke();
        }
        c.setLineDash([]);
        c.globalAlpha = 1;
    }

    path(points) {
        const {c} = this;
        let open = false;

        c.beginPath();
        for (const [x, y] of points) {
            const ok = Number.isFinite(y) && (!this.log || y > 0);

            if (ok && open)
                c.lineTo(this.x(x), this.y(y));
            else if (ok)
                c.moveTo(this.x(x), this.y(y));
            open = ok;
        }
        c.stroke();
    }

    drawLine(line) {
        const {c} = this;

        c.strokeStyle = c.fillStyle = line.lost ? colour('dim') : colour(line.colour);
        c.lineWidth = line.soft || line.lost ? 1 : 1.6;
        c.globalAlpha = line.soft ? 0.28 : line.lost ? 0.5 : 1;
        c.setLineDash(line.lost ? [2, 2] : line.dashed ? [6, 3] : []);
        this.path(line.points);
        c.globalAlpha = 1;
        c.lineWidth = 1.8;
        if (line.soft)
            this.path(line.soft);
        c.setLineDash([]);
        if (line.points.length === 1 && Number.isFinite(line.points[0][1]))
            c.fillRect(this.x(line.points[0][0]) - 2, this.y(line.points[0][1]) - 2, 4, 4);
        c.fillStyle = colour('st-failed');
        for (const [x, y] of line.points)
            if (!Number.isFinite(y))
                this.triangle(this.x(x), this.height - BOTTOM - 1, 5);
    }

    triangle(x, y, size) {
        const {c} = this;

        c.beginPath();
        c.moveTo(x - size, y);
        c.lineTo(x + size, y);
        c.lineTo(x, y - 1.6 * size);
        c.fill();
    }

    /* Arrows where points lie beyond what the y axis shows. */
    drawOutside() {
        const {c} = this, [low, high] = this.range;

        for (const line of this.lines)
            for (const [x, y] of this.inView(line.points)) {
                if (!Number.isFinite(y) || (y <= high && y >= low))
                    continue;
                c.fillStyle = colour(line.lost ? 'dim' : line.colour);
                c.beginPath();
                const tip = y > high ? TOP - 5 : this.height - BOTTOM + 3, base = y > high ? TOP + 2 : this.height - BOTTOM - 4;

                c.moveTo(this.x(x), tip);
                c.lineTo(this.x(x) - 4, base);
                c.lineTo(this.x(x) + 4, base);
                c.fill();
            }
    }

    nearest(line, at) {
        let best = null;

        for (const p of line.soft || line.points)
            if (best === null || Math.abs(p[0] - at) < Math.abs(best[0] - at))
                best = p;
        return best;
    }

    drawCross() {
        const {c, board} = this;

        if (this.brush) {
            c.globalAlpha = 0.18;
            c.fillStyle = colour('accent');
            c.fillRect(Math.min(...this.brush), TOP, Math.abs(this.brush[1] - this.brush[0]), this.height - BOTTOM - TOP);
            c.globalAlpha = 1;
        }
        if (board.at === null)
            return;
        c.fillStyle = colour('dim');
        c.globalAlpha = 0.6;
        c.fillRect(Math.round(this.x(board.at)), TOP, 1, this.height - BOTTOM - TOP);
        c.globalAlpha = 1;
        for (const line of this.lines) {
            const p = line.lost ? null : this.nearest(line, board.at);

            if (p === null || !Number.isFinite(p[1]))
                continue;
            c.fillStyle = colour(line.colour);
            c.beginPath();
            c.arc(this.x(p[0]), this.y(p[1]), 3, 0, 7);
            c.fill();
        }
    }

    /* The values at the crosshair, else the last ones. */
    tell() {
        const {board} = this, whole = this.lines.filter((line) => !line.lost && line.points.length > 0);
        const values = whole.map((line) => [line, board.at === null ? (line.soft || line.points).at(-1) : this.nearest(line, board.at)])
            .filter(([, p]) => p);

        fill(this.says, values.slice(0, 6).map(([line, p], i) => [i > 0 && '  ', h('span', {style: {color: `var(--${line.colour})`}},
            `${line.dashed ? '┄ ' : ''}${values.length > 1 ? `${line.name} ` : ''}${short(p[1])}`)]), board.at !== null && ` @ ${board.formatX(board.at)}`);
        this.canvas.setAttribute('aria-label', `${this.title}: ${values.map(([line, p]) => `${line.name} ${short(p[1])}`).join(', ') || 'no values'}`);
    }

    /* ---- pointer and keys ---- */

    onMove(event) {
        if (this.brush) {
            this.brush[1] = event.offsetX;
            this.draw();
        }
        if (event.offsetX >= LEFT)
            this.board.setAt(this.valueAt(event.offsetX));
    }

    onDown(event) {
        if (event.button === 0 && event.pointerType === 'mouse') {
            this.canvas.setPointerCapture(event.pointerId);
            this.brush = [event.offsetX, event.offsetX];
        }
    }

    onUp() {
        const brush = this.brush;

        this.brush = null;
        if (brush && Math.abs(brush[1] - brush[0]) > 6)
            this.board.setRange(brush.map((px) => this.valueAt(px)).sort((a, b) => a - b));
        this.draw();
    }

    onKey(event) {
        const [from, to] = this.board.view(), at = this.board.at ?? to;
        const step = {ArrowLeft: -0.01, ArrowRight: 0.01}[event.key];

        if (step === undefined)
            return;
        event.preventDefault();
        this.board.setAt(Math.min(to, Math.max(from, at + step * (to - from))));
    }

    close() {
        this.stop();
    }
}
