/*
 * The last runs of a pipeline: bars (height: duration, capped at four times the median, colour:
 * outcome), a dash where a schedule made none, and below them a grid of task and run. Each run's states are one text, a
 * letter a task.
 */
import {append, canvasContext, colour, fill, h, onResize, oncePerFrame} from './dom.js';
import {absolute, duration, now} from './times.js';
import {count} from './words.js';
import {badge, letters, runState, stateOf} from './states.js';
import {decided} from './schedules.js';
import {go} from './nav.js';

const BAR_W = 14, HEIGHT = 76, CAP = 4, SHOWN = 50, GRID_TASKS = 200, CELL = 14;

function took(run) {
    return run.started_wall ? (run.ended_wall || now()) - run.started_wall : 0;
}

function median(list) {
    const sorted = [...list].sort((a, b) => a - b);

    return sorted.length > 0 ? sorted[sorted.length >> 1] : 0;
}

class Bars {
    /* items: runs, and instants without one, the oldest first */
    constructor(el, items, tasks) {
        this.items = items;
        this.tasks = tasks;
        this.at = -1;
        this.median = median(items.filter((r) => r.state === 'over').map(took));
        this.canvas = h('canvas.histbars', {role: 'img', tabindex: '0', 'aria-label': this.sentence()});
        this.says = h('p.num', {'aria-live': 'polite'});
        this.grid = h('canvas', {role: 'img', 'aria-label': 'Tasks of these runs'});
        fill(el, this.canvas, this.says, tasks.length > 0 && h('div.scroll', this.grid));
        this.draw = oncePerFrame(() => this.drawNow());
        this.stop = onResize(el, this.draw);
        window.addEventListener('flowrun-theme', this.draw);
        this.canvas.addEventListener('pointermove', (event) => this.look(Math.floor((event.offsetX - this.left) / BAR_W)));
        this.canvas.addEventListener('click', () => this.open());
        this.canvas.addEventListener('keydown', (event) => this.onKey(event));
        this.grid.addEventListener('pointermove', (event) => this.lookGrid(event));
        this.grid.addEventListener('click', () => this.open());
    }

    sentence() {
        const bad = this.items.filter((r) => r.outcome === 'failed').length, ran = this.items.filter((r) => r.no).length;

        return `The last ${count(ran, 'run')}, ${bad} failed; arrow keys walk through them`;
    }

    onKey(event) {
        const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];

        if (event.key === 'Enter')
            this.open();
        else if (step !== undefined)
            this.look(Math.max(0, Math.min(this.items.length - 1, (this.at < 0 ? this.items.length : this.at) + step)));
        else
            return;
        event.preventDefault();
    }

    open() {
        const run = this.items[this.at];

        if (run && run.no)
            go(`runs/${run.no}`);
    }

    look(i) {
        const run = this.items[i];

        this.at = run ? i : -1;
        fill(this.says, run && run.no ? [badge(runState(run)), ` #${run.no}  ${duration(took(run))}  `,
            h('span.dim', absolute(run.started_wall || run.queued_wall || 0)), run.reason && `  ${run.reason}`]
            : run ? [decided(run), ' ', h('span.dim', absolute(run.at_ms), ' ', run.note)] : h('span.dim', `median ${duration(this.median)}`));
        this.draw();
    }

    lookGrid(event) {
        const i = Math.floor((event.offsetX - this.namesW) / BAR_W), t = Math.floor(event.offsetY / CELL);

        this.look(i);
        if (this.items[i] && this.tasks[t])
            append(this.says, [h('strong', `  ${this.tasks[t]}: ${stateOf(letters[(this.items[i].states || '')[t]] || '').word}`)]);
    }

    drawNow() {
        const width = this.canvas.parentElement.clientWidth, c = canvasContext(this.canvas, width, HEIGHT);

        this.namesW = width < 520 ? 90 : 170;
        this.left = this.tasks.length > 0 ? this.namesW : 0;
        const most = Math.max(1, ...this.items.map((r) => Math.min(took(r), CAP * this.median || Infinity)));

        c.clearRect(0, 0, width, HEIGHT);
        c.fillStyle = colour('line');
        c.fillRect(this.left, HEIGHT - 1, this.items.length * BAR_W, 1);
        this.items.forEach((run, i) => this.drawBar(c, run, i, most));
        if (this.tasks.length > 0)
            this.drawGrid(width);
    }

    drawBar(c, run, i, most) {
        const x = this.left + i * BAR_W, capped = this.median > 0 && took(run) > CAP * this.median;
        const height = run.no ? Math.max(3, (HEIGHT - 8) * Math.min(took(run), most) / most) : 3;

        c.globalAlpha = this.at >= 0 && this.at !== i ? 0.55 : 1;
        c.fillStyle = run.no ? colour(`st-${runState(run).look}`) : colour('strong');
        c.fillRect(x + 1, HEIGHT - 1 - height, BAR_W - 3, height);
        if (capped) {
            c.fillStyle = colour('ground');
            c.fillRect(x, HEIGHT - height + 6, BAR_W, 2);
            c.fillRect(x, HEIGHT - height + 10, BAR_W, 2);
        }
        c.globalAlpha = 1;
    }

    drawGrid(width) {
        const rows = Math.min(GRID_TASKS, this.tasks.length), c = canvasContext(this.grid, Math.max(width, this.namesW + this.items.length * BAR_W), rows * CELL);

        c.font = '11px system-ui, sans-serif';
        c.textBaseline = 'middle';
        for (let t = 0; t < rows; t++) {
            c.fillStyle = colour('dim');
            c.fillText(this.tasks[t].length > 26 ? `${this.tasks[t].slice(0, 25)}…` : this.tasks[t], 0, t * CELL + CELL / 2, this.namesW - 8);
            this.items.forEach((run, i) => {
                const state = letters[(run.states || '')[t]];

                if (state === undefined)
                    return;
                c.fillStyle = colour(`st-${stateOf(state).look}`);
                c.globalAlpha = this.at >= 0 && this.at !== i ? 0.45 : 0.9;
                c.fillRect(this.namesW + i * BAR_W + 2, t * CELL + 2, BAR_W - 5, CELL - 4);
            });
            c.globalAlpha = 1;
        }
    }

    close() {
        this.stop();
        window.removeEventListener('flowrun-theme', this.draw);
    }
}

/* doc: {items: runs, the oldest first, gaps: instants without one, tasks: names} */
export function drawHistory(el, doc) {
    const all = [...doc.items, ...doc.gaps.map((gap) => ({...gap, queued_wall: gap.at_ms}))].sort((a, b) => a.queued_wall - b.queued_wall);
    const bars = new Bars(el, all.slice(-SHOWN), doc.tasks);

    bars.look(-1);
    return bars;
}
