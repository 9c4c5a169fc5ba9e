/* The tab "Metrics": training curves of this run, others over them, and the nodes' load on the same time. */
import {fill, h, table, throttled} from './dom.js';
import {clockTime, duration, now} from './times.js';
import {bindKeys} from './keys.js';
import {Chart} from './chart.js';
import {empty, failed} from './ask.js';
import {short} from './smooth.js';
import {metrics, nodeSamples} from './api.js';
import {query, setQuery} from './nav.js';

const palette = ['k4', 'k1', 'k2', 'k5', 'k3', 'k6', 'k12', 'k10', 'k9', 'k13'];
const axes = [['step', 'step'], ['tokens', 'tokens'], ['time', 'time, with the nodes'], ['epoch', 'epoch']];
const STALLED_MS = 600000, WIDTH = 1000, ROWS = 50;
/* The order of charts, and which curves share one. */
const order = ['loss', 'eval_loss', 'grad_norm', 'lr', 'learning_rate', 'tokens_per_second', 'throughput'];
/* What the axes and the head line show already. */
const axesKeys = new Set(['current_steps', 'step', 'total_steps', 'elapsed_time', 'remaining_time', 'percentage', 'epoch', 'total_tokens', 'checkpoint']);
const beside = (key) => key.replace(/^(eval|train)_/, '');

/* Runs are compared from where each began. */
function sinceBegin(set) {
    const from = Math.min(...set.lines.map((line) => line.points[0][0]));

    set.lines.forEach((line) => { line.points = line.points.map(([x, y]) => [x - from, y]); });
    set.restarts = set.restarts.map((x) => x - from);
}

/* State that all charts share: the x axis, the crosshair, the zoomed range. */
class Board {
    constructor(redraw, zoomed) {
        this.charts = [];
        this.redraw = redraw;
        this.zoomed = zoomed;
        this.at = this.range = null;
        this.axis = 'step';
    }

    extent() {
        let from = Infinity, to = -Infinity;

        for (const chart of this.charts)
            for (const line of chart.raw)
                for (const [x] of line.points.length > 0 ? [line.points[0], line.points.at(-1)] : []) {
                    from = Math.min(from, x);
                    to = Math.max(to, x);
                }
        return from < to ? [from, to] : Number.isFinite(from) ? [from - 1, from + 1] : [0, 1];
    }

    view() {
        return this.range || this.extent();
    }

    formatX(x) {
        return this.axis === 'time' ? (x > 1e11 ? clockTime(x) : duration(x)) : short(Math.abs(x - Math.round(x)) < 1e-6 || this.axis === 'step' ? Math.round(x) : x);
    }

    setAt(x) {
        this.at = x;
        this.charts.forEach((chart) => chart.draw());
    }

    setRange(range) {
        this.range = range;
        this.zoomed(range);
    }
}

class CurvesTab {
    constructor(el, {model}) {
        this.el = el;
        this.model = model;
        this.sets = new Map(); /* run number: what api.metrics() gave */
        this.others = (query().get('with') || '').split(',').filter(Boolean).map(Number).slice(0, 9);
        this.weight = Number(localStorage.getItem('flowrun.smooth') ?? 0.6);
        this.charts = new Map();
        this.machines = []; /* of the nodes, as api.nodeSamples() gives it */
        this.board = new Board(() => this.draw(), () => this.loadNow());
        this.board.axis = query().get('x') || 'step';
        this.load = throttled(() => this.loadNow(), 2000);
        this.build();
        model.onNews((event) => (event === 'metric' || event === 'reset') && this.load());
        this.stop = model.listen((changed) => changed.run && this.load());
        this.theme = () => this.charts.forEach((chart) => chart.draw());
        window.addEventListener('flowrun-theme', this.theme);
        this.timer = setInterval(() => this.drawHead(), 5000);
        this.unbind = bindKeys('Metrics', {0: ['all of it', () => this.board.setRange(null)],
            l: ['logarithmic, all charts', () => this.charts.forEach((c) => c.setLog(!c.log))],
            t: ['as a table', () => this.asTable.click()]});
        this.load();
    }

    build() {
        const axis = h('select', {'aria-label': 'x axis', on: {change: () => {
            this.board.axis = axis.value;
            this.board.range = null;
            setQuery({x: axis.value === 'step' ? null : axis.value});
            this.loadNow();
        }}}, axes.map(([value, word]) => h('option', {value}, word)));
        const says = h('span.num', this.weight.toFixed(2));
        const slider = h('input', {type: 'range', min: '0', max: '0.99', step: '0.01', value: String(this.weight), 'aria-label': 'Smoothing',
            on: {input: () => {
                this.weight = Number(slider.value);
                says.textContent = this.weight.toFixed(2);
                localStorage.setItem('flowrun.smooth', slider.value);
                this.draw();
            }}});
        const field = h('input', {type: 'search', inputmode: 'numeric', placeholder: 'run number', 'aria-label': 'Compare with run', size: '10',
            on: {change: () => {
                this.addRun(Number(field.value));
                field.value = '';
            }}});

        axis.value = this.board.axis;
        this.head = h('div.headline', {hidden: true});
        this.legend = h('div.legend');
        this.grid = h('div.charts');
        this.note = h('div');
        this.table = h('div', {hidden: true});
        this.asTable = h('button', {'aria-pressed': 'false', title: 'The same as numbers (t)', on: {click: () => {
            this.grid.hidden = this.table.hidden;
            this.table.hidden = !this.grid.hidden;
            this.asTable.setAttribute('aria-pressed', String(this.grid.hidden));
            this.draw();
        }}}, 'Table');
        this.tools = h('div.bar-row', h('label.inline', 'over ', axis), h('label.inline', 'smooth ', slider, says),
            h('label.inline', 'beside ', field), h('span.grow'), h('button', {on: {click: () => this.board.setRange(null)}}, 'Fit'),
            this.asTable, h('button', {on: {click: () => this.csv()}}, 'CSV'));
        fill(this.el, this.head, this.tools, this.legend, this.note, this.table, this.grid);
    }

    addRun(no) {
        if (!no || no === this.model.no || this.others.includes(no) || this.others.length >= 9)
            return;
        this.others.push(no);
        this.compared();
    }

    compared() {
        setQuery({with: this.others.join(',')});
        this.loadNow();
    }

    /* ---- data ---- */

    async loadNow() {
        const turn = this.turn = (this.turn || 0) + 1, zoomed = this.board.axis !== 'time' && this.board.range;
        const q = {x: this.board.axis, width: WIDTH, from: zoomed ? zoomed[0] : '', to: zoomed ? zoomed[1] : ''};

        try {
            const [mine, ...theirs] = await Promise.all([metrics(this.model.no, q), ...this.others.map((no) => metrics(no, q).catch(() => null))]);

            if (turn !== this.turn || this.closed)
                return;
            this.sets = new Map([[this.model.no, mine]]);
            this.others.forEach((no, i) => theirs[i] && this.sets.set(no, theirs[i]));
            if (this.board.axis === 'time' && this.sets.size > 1)
                this.sets.forEach(sinceBegin);
            await this.loadMachines(mine);
            this.draw();
        } catch (problem) {
            if (turn === this.turn && !this.closed && this.charts.size === 0)
                this.tell(problem.status === 404 ? null : problem);
        }
    }

    /* How the nodes' machines fared while the run went: on the time axis. */
    async loadMachines(mine) {
        const on = this.board.axis === 'time' && this.sets.size === 1 && mine.lines.length > 0;

        this.machines = on ? await nodeSamples([...new Set(this.model.inst.node)], this.model.run.started, this.model.run.ended || now()) : [];
    }

    tell(problem) {
        this.tools.hidden = true;
        fill(this.note, problem ? failed(problem, () => this.loadNow()) : empty('No metrics',
            h('p', 'Built-in ', h('code', 'train'), ' tasks have them, and each task with ', h('code', 'metrics: FILE'), ': lines of JSON with a step and numbers.')));
    }

    /* ---- drawing ---- */

    groups() {
        const keys = new Set([...this.sets.values()].flatMap((set) => set.lines.map((line) => line.key)).filter((key) => !axesKeys.has(key)));
        const groups = new Map();
        const rank = (key) => (order.indexOf(beside(key)) + 1 || order.indexOf(key) + 1 || 99);

        for (const key of [...keys].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b)))
            groups.set(beside(key), [...(groups.get(beside(key)) || []), key].sort((a, b) => a.length - b.length));
        return groups;
    }

    draw() {
        const groups = this.groups();

        if (groups.size === 0) {
            this.tell(null);
            return;
        }
        fill(this.note);
        this.tools.hidden = false;
        for (const [name, keys] of groups)
            this.chart(name).raw = this.lines(keys);
        for (const one of this.machines)
            this.chart(one.title).raw = one.lines.map((line, i) => ({...line, colour: palette[i % palette.length]}));
        for (const [name, chart] of this.charts)
            if (!groups.has(name) && !this.machines.some((one) => one.title === name)) {
                chart.close();
                chart.el.remove();
                this.charts.delete(name);
            }
        this.board.charts = [...this.charts.values()];
        for (const [name, chart] of this.charts)
            chart.show(this.sets.get(this.model.no)?.restarts || [], groups.has(name) && !/^(lr|learning_rate)$/.test(name) ? this.weight : 0);
        this.drawLegend();
        this.drawHead();
        this.drawTable();
    }

    /* Some points of the axis that the longest line has, with what all lines have there. */
    drawTable() {
        const {board} = this, [from, to] = board.view();
        const lines = board.charts.flatMap((chart) => chart.raw.filter((line) => !line.lost).map((line) => ({...line, chart})));
        const xs = lines.reduce((most, {points}) => (points.length > most.length ? points : most), []).map(([x]) => x).filter((x) => x >= from && x <= to);
        const every = Math.ceil(xs.length / ROWS);

        if (!this.table.hidden)
            fill(this.table, table('', [board.axis, ...lines.map(({chart, name}) => (name === chart.title ? name : `${chart.title} ${name}`))],
                xs.filter((_, i) => (xs.length - 1 - i) % every === 0).map((x) => h('tr', h('th.num', {scope: 'row'}, board.formatX(x)),
                    lines.map(({chart, points}) => h('td.num', short(chart.nearest({points}, x)?.[1] ?? NaN)))))));
    }

    chart(name) {
        if (!this.charts.has(name)) {
            const chart = new Chart(name, this.board);

            this.charts.set(name, chart);
            this.grid.append(chart.el);
        }
        return this.charts.get(name);
    }

    /* Lines of these keys: of each run in its colour; a key beside another is the next colour. */
    lines(keys) {
        const many = this.sets.size > 1;

        return [...this.sets].flatMap(([no, set], r) => {
            const own = set.lines.filter((line) => keys.includes(line.key));
            const names = [...new Set(own.map((line) => line.name))].sort((a, b) => a.length - b.length);

            return own.map((line) => ({points: line.points, lost: line.lost,
                name: !many ? line.name : names.length > 1 ? `#${no} ${line.name}` : `#${no}`,
                colour: palette[(many ? r : names.indexOf(line.name)) % palette.length],
                dashed: many && names.indexOf(line.name) > 0}));
        });
    }

    drawLegend() {
        fill(this.legend, this.sets.size > 1 && [...this.sets.keys()].map((no, i) => h('span.key', h('span.swatch', {
            style: {'--series': `var(--${palette[i]})`}}), h('a', {href: `runs/${no}?tab=metrics`}, `#${no}`),
        no !== this.model.no && h('button.plain.icon', {'aria-label': `Without run ${no}`, on: {click: () => {
            this.others = this.others.filter((o) => o !== no);
            this.compared();
        }}}, '×'))));
    }

    /* Progress of the training: step, loss, speed, expected end, and problems. */
    drawHead() {
        const head = this.sets.get(this.model.no)?.head, on = !this.model.over();

        this.head.hidden = !head;
        if (!head)
            return;
        const quiet = on && head.wall > 0 ? now() - head.wall : 0;
        const cell = (word, big, more) => h('div', h('div.dim', word), h('span.big', big), more && h('span.dim', ` ${more}`));

        fill(this.head, head.step !== null && cell('step', head.step.toLocaleString(), head.total !== null && `of ${head.total.toLocaleString()}`),
            head.loss_smooth !== null && cell('loss', short(head.loss_smooth), `smoothed, ${head.loss === null ? 'not finite' : short(head.loss)} last`),
            head.rate !== null && cell('tokens/s', short(head.rate), `median ${short(head.rate_median)}`),
            head.epoch !== null && cell('epoch', short(head.epoch)),
            head.checkpoint !== null && cell('checkpoint', head.checkpoint.toLocaleString(), on && head.checkpoint_age_s !== null
                && `${duration(1000 * head.checkpoint_age_s + now() - head.wall)} ago`),
            on && head.eta_s !== null && cell('left', duration(1000 * head.eta_s), 'by the last 50 steps'),
            !on && head.elapsed_s !== null && cell('trained', head.elapsed_s < 1 ? 'under 1s' : duration(1000 * head.elapsed_s)),
            head.bad_since !== null && h('div.alarm', `loss not finite since step ${head.bad_since}`),
            quiet > STALLED_MS && h('div.alarm', `no progress for ${duration(quiet)}`));
    }

    csv() {
        const rows = [['run', 'key', this.board.axis, 'value', 'lost'], ...[...this.sets].flatMap(([no, set]) => set.lines.flatMap((line) =>
            line.points.map(([x, y]) => [no, line.key, x, y, line.lost ? 1 : 0])))];
        const url = URL.createObjectURL(new Blob([rows.map((row) => row.join(',')).join('\n')], {type: 'text/csv'}));
        const a = h('a', {href: url, download: `run${this.model.no}-metrics.csv`});

        a.click();
        setTimeout(() => URL.revokeObjectURL(url), 1000);
    }

    close() {
        this.closed = true;
        clearInterval(this.timer);
        window.removeEventListener('flowrun-theme', this.theme);
        this.charts.forEach((chart) => chart.close());
        this.load.stop();
        this.model.onNews(null);
        this.stop();
        this.unbind();
    }
}

export function open(el, context) {
    return new CurvesTab(el, context);
}

