/*
 * One run as the page knows it: its row, its instances as columns, counts by task. Loaded whole, then
 * kept by the stream's changes; listeners are called once a frame.
 */
import {ended, failures, isOver, live} from './states.js';
import {instances, run} from './api.js';
import {oncePerFrame, painted, throttled} from './dom.js';
import {subscribe} from './stream.js';

export class RunModel {
    constructor(no) {
        this.no = no;
        this.run = null;
        this.inst = null;
        this.tasks = new Map(); /* name: {name, counts, away: unreachable, insts: [position]} in the plan's order */
        this.listeners = new Set();
        this.early = [];        /* changes that came while the whole was read */
        this.changed = {run: false, tasks: new Set(), insts: new Set(), whole: false};
        this.tell = oncePerFrame(() => this.tellNow());
        this.reload = throttled(() => this.load().catch(() => {}), 1000);
        this.reloadRun = throttled(() => this.loadRun().catch(() => {}), 300);
    }

    /* fn({run, tasks: Set of names, insts: Set of positions, whole}); returns what ends it. */
    listen(fn) {
        this.listeners.add(fn);
        return () => this.listeners.delete(fn);
    }

    /* fn(event, data) for log and metric news of this run */
    onNews(fn) {
        this.news = fn;
    }

    tellNow() {
        const changed = this.changed;

        this.changed = {run: false, tasks: new Set(), insts: new Set(), whole: false};
        for (const fn of [...this.listeners])
            fn(changed);
    }

    /* onRow is called once the run itself is there, which may be before its instances are. */
    async open(onRow) {
        if (!/^\d+$/.test(this.no)) /* its id */
            this.no = (await run(this.no)).no;
        this.no = Number(this.no);
        this.close = subscribe({runs: [this.no], topics: []}, (event, data) => this.take(event, data));
        this.onRow = onRow;
        await this.load();
    }

    async loadRun() {
        this.run = await run(this.no);
        this.changed.run = true;
        this.tell();
    }

    load() {
        this.loaded = this.loadNow();
        return this.loaded;
    }

    /* The stream has no events from between the load and its begin. */
    async catchUp() {
        await this.loaded;
        const {seq} = await run(this.no);

        if (seq > this.inst.seq)
            this.reload();
    }

    async loadNow() {
        this.early = [];
        this.loading = true;
        try {
            const [row, columns] = await Promise.all([run(this.no).then((one) => this.takeRow(one)), instances(this.no)]);

            this.run = row;
            this.inst = columns();
            this.index();
        } finally {
            this.loading = false;
        }
        if (this.run.seq < this.inst.seq) /* the run was read before its instances, so it lacks the changes in between */
            this.reloadRun();
        for (const data of this.early)
            if (data.seq > this.inst.seq)
                this.apply(data);
        this.changed.run = this.changed.whole = true;
        this.tell();
    }

    async takeRow(row) {
        if (this.run === null) {
            this.run = row;
            this.onRow();
            await painted();
        }
        return row;
    }

    index() {
        this.at = new Map();
        this.byKey = new Map();
        this.tasks = new Map();
        this.inst.idx.forEach((idx, i) => {
            const name = this.inst.task[i];

            this.at.set(idx, i);
            this.byKey.set(this.keyOf(i), i);
            if (!this.tasks.has(name))
                this.tasks.set(name, {name, counts: {}, away: 0, insts: []});
            const task = this.tasks.get(name);

            task.insts.push(i);
            task.away += this.inst.unreachable_wall[i] > 0;
            task.counts[this.inst.state[i]] = (task.counts[this.inst.state[i]] || 0) + 1;
        });
    }

    /* "train@n2" */
    keyOf(i) {
        return this.inst.key[i];
    }

    take(event, data) {
        if (event === 'hello')
            this.catchUp().catch(() => {}); /* the stream comes again */
        else if (event === 'reset' && (data.run === undefined || data.run === this.no))
            this.reload();
        else if (data.run !== this.no && data.no !== this.no)
            return;
        else if (event === 'inst' && (this.loading || this.inst === null))
            this.early.push(data);
        else if (event === 'inst')
            this.apply(data);
        else if (event === 'run')
            this.reloadRun();
        if (this.news)
            this.news(event, data);
    }

    apply({changes, seq}) {
        for (const [idx, ...change] of changes) {
            const i = this.at.get(idx);

            if (i === undefined)
                this.reload();
            else
                this.applyOne(i, change);
        }
        this.inst.seq = Math.max(this.inst.seq, seq);
        this.tell();
    }

    /* As the host keeps its row (engine/run/times.c). */
    applyOne(i, [state, attempt, cause, code, reason, wall, due, unreachable]) {
        const {inst} = this, task = this.tasks.get(inst.task[i]), away = inst.unreachable_wall[i];

        task.counts[inst.state[i]]--;
        task.counts[state] = (task.counts[state] || 0) + 1;
        if (ended.has(inst.state[i]) && !ended.has(state)) /* the user runs it again */
            inst.started_wall[i] = 0;
        if (live.has(state))
            inst.started_wall[i] = inst.started_wall[i] || wall;
        inst.ended_wall[i] = ended.has(state) ? inst.ended_wall[i] || wall : 0;
        inst.unreachable_wall[i] = unreachable && (away || wall);
        inst.state[i] = state;
        inst.attempt_no[i] = attempt;
        inst.cause[i] = cause;
        inst.code[i] = code;
        inst.reason[i] = reason;
        inst.due_wall[i] = due;
        task.away += unreachable - (away > 0);
        this.changed.whole = this.changed.whole || unreachable !== Number(away > 0); /* the run's head counts them */
        this.changed.tasks.add(task.name);
        this.changed.insts.add(i);
    }

    counts() {
        const all = {};

        for (const task of this.tasks.values())
            for (const [state, n] of Object.entries(task.counts))
                all[state] = (all[state] || 0) + n;
        return all;
    }

    /* The failure that came first and is no consequence of another; -1: none. */
    firstFailure() {
        const {inst} = this;
        let best = -1;

        for (let i = 0; i < inst.idx.length; i++) {
            const isOne = failures.has(inst.state[i]) && inst.cause[i] !== 'gang_peer';

            if (isOne && (best < 0 || inst.ended_wall[i] < inst.ended_wall[best]))
                best = i;
        }
        return best;
    }

    /* Positions of instances that run now. */
    liveOnes() {
        return this.inst.idx.map((_, i) => i).filter((i) => live.has(this.inst.state[i]));
    }

    over() {
        return isOver(this.run);
    }
}
