/* What a run's events say of its attempts: when each was ready, started, ran, stopped, ended. */
import {ended} from './states.js';

export class Spans {
    constructor(model) {
        this.model = model;
        this.bars = [];          /* {i, attempt, state, ready, start, run, stop, end, away: [[from, to]], retryUntil} */
        this.current = new Map(); /* position: the bar that goes on */
        this.ready = new Map();
        this.from = 0;
        this.to = 0;
    }

    add(events) {
        for (const e of events) {
            const i = this.model.at.get(e.idx);

            this.from = this.from || e.wall;
            this.to = Math.max(this.to, e.wall);
            if (i !== undefined)
                this.take(i, e);
        }
    }

    bar(i, e) {
        const had = this.current.get(i);

        if (had !== undefined && had.attempt === e.attempt_no && !had.end)
            return had;
        const bar = {i, attempt: e.attempt_no || 1, state: e.kind, ready: this.ready.get(i) || 0, start: 0, run: 0,
            stop: 0, end: 0, away: [], retryUntil: 0};

        this.current.set(i, bar);
        this.bars.push(bar);
        return bar;
    }

    take(i, e) {
        const had = this.current.get(i);

        if (e.kind === 'ready') {
            this.ready.set(i, e.wall);
        } else if (e.kind === 'starting') {
            const bar = this.bar(i, e);

            bar.start = e.wall;
            bar.state = e.kind;
        } else if (e.kind === 'running' || e.kind === 'stopping') {
            const bar = this.bar(i, e);

            bar.start = bar.start || e.wall;
            bar[e.kind === 'running' ? 'run' : 'stop'] = e.wall;
            bar.state = e.kind;
        } else if (had === undefined || had.end) {
            return; /* it had no attempt: skipped, upstream failed */
        } else if (e.kind === 'unreachable') {
            had.away.push([e.wall, 0]);
        } else if (e.kind === 'reachable') {
            if (had.away.length > 0)
                had.away.at(-1)[1] = e.wall;
        } else if (e.kind === 'retrying') {
            had.end = e.wall;
            had.state = e.cause === 'timeout' ? 'timed_out' : 'failed';
            had.retryUntil = e.wall + (e.delay_ms || 0);
        } else if (ended.has(e.kind)) {
            had.end = e.wall;
            had.state = e.kind;
        }
    }

    /* A head a node, then a row an instance in the plan's order. */
    rows() {
        const {inst} = this.model, byNode = new Map(), byInst = new Map();

        for (const bar of this.bars) {
            if (!byInst.has(bar.i)) {
                const node = inst.node[bar.i] || 'control';

                byInst.set(bar.i, []);
                byNode.set(node, [...(byNode.get(node) || []), bar.i]);
            }
            byInst.get(bar.i).push(bar);
        }
        return [...byNode].sort(([one], [other]) => one.localeCompare(other, undefined, {numeric: true}))
            .flatMap(([node, list]) => [{head: node}, ...list.sort((a, b) => inst.idx[a] - inst.idx[b])
                .map((i) => ({name: inst.task[i], bars: byInst.get(i)}))]);
    }
}

/* Attempts of gangs that started together: [{start, rows: [number of the row] …}] */
export function gangs(spans, rows, graph) {
    const {inst} = spans.model, together = new Map();
    const isGang = new Set(graph === null ? [] : graph.tasks.filter((t) => t.gang).map((t) => t.name));

    rows.forEach((row, r) => (row.bars || []).filter((bar) => bar.start && isGang.has(inst.task[bar.i])).forEach((bar) => {
        const key = `${inst.task[bar.i]} ${bar.attempt}`;

        together.set(key, [...(together.get(key) || []), {bar, r}]);
    }));
    return [...together.values()].filter((list) => list.length > 1).map((list) => {
        list.forEach(({bar}) => { bar.gang = list.length; });
        return {start: Math.min(...list.map(({bar}) => bar.start)), rows: list.map(({r}) => r)};
    });
}

/* Positions of the chain that decided the end: from the last to end back by the need that ended last. */
export function criticalPath(spans, graph) {
    const out = new Set();

    if (graph === null)
        return out;
    const {inst} = spans.model, last = new Map();

    for (const bar of spans.bars) {
        const name = inst.task[bar.i], best = last.get(name);

        if (bar.end && inst.cause[bar.i] !== 'gang_peer' && (best === undefined || bar.end > best.end))
            last.set(name, bar);
    }
    const byName = new Map(graph.tasks.map((t) => [t.name, t]));
    let at = [...last.values()].filter((bar) => !byName.get(inst.task[bar.i])?.hook).sort((a, b) => b.end - a.end)[0];

    while (at !== undefined && !out.has(at.i)) {
        out.add(at.i);
        const needs = (byName.get(inst.task[at.i])?.needs || []).map((n) => last.get(graph.tasks[n].name)).filter(Boolean);
        const before = needs.sort((a, b) => b.end - a.end)[0];

        if (before !== undefined)
            at.need = spans.model.keyOf(before.i);
        at = before;
    }
    return out;
}
