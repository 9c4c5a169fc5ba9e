/* The tab "Graph": the picture, live, or a list by layers; a task that is chosen opens beside it. */
import {append, fill, h, inSlices, onResize, svg} from './dom.js';
import {badge, failures, live, worst} from './states.js';
import {bindKeys} from './keys.js';
import {BOX_H, Boxes, drawBoxButton} from './boxes.js';
import {empty, failed} from './ask.js';
import {graph} from './api.js';
import {openTask} from './task.js';
import {PanZoom} from './panzoom.js';
import {query, setQuery} from './nav.js';
import {sizer} from './sizer.js';

const NARROW = 560, MANY = 400, STEPS = 2, LISTED = 500, FEW = 5;

/* Whether something is in one of the states. */
const any = (counts, states) => Object.entries(counts).some(([state, n]) => n > 0 && states.has(state));

/*
 * A picture with buttons, search and list; also of a pipeline, where taskOf gives nothing. again(numbers of tasks) gives it
 * with boxes of their own for these.
 */
export class GraphView {
    constructor(el, doc, context) {
        Object.assign(this, context, {folded: doc.boxes.filter((box) => box.tasks.length > 1), open: [], apart: ''});
        this.chosen = -1;
        this.dirty = new Set(); /* boxes that are not drawn as they are now */
        this.stopUpdate = () => {};
        this.stage = svg('svg.stage', {role: 'group', 'aria-label': `Graph of ${doc.tasks.length} tasks`},
            ['stopping', 'unproven'].map((look) => svg('pattern', {id: `hatch-${look}`, class: `st-${look}`, width: 7, height: 7,
                patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)'}, svg('rect.seg', {width: 3, height: 7}))));
        this.list = h('div.layers', {hidden: true});
        this.side = h('aside.side', {hidden: true});
        const split = h('div.split');

        this.field = h('input', {type: 'search', placeholder: 'Find a task', 'aria-label': 'Find a task', 'data-find': '',
            list: 'task-names', on: {focus: () => this.offer(), change: () => this.find(), input: () => this.drawList()}});
        this.names = h('datalist', {id: 'task-names'});
        this.as = h('button', {'aria-pressed': 'false', on: {click: () => this.setList(this.list.hidden)}}, 'List');
        this.fold = h('button', {hidden: true, on: {click: () => this.unfold([])}}, 'Fold');
        const zoom = [h('button.icon', {'aria-label': 'Smaller', on: {click: () => this.pan.zoom(0.8)}}, '−'),
            h('button.icon', {'aria-label': 'Larger', on: {click: () => this.pan.zoom(1.25)}}, '+'),
            h('button', {on: {click: () => this.pan.fit()}}, 'Fit')];

        fill(el, h('div.bar-row', this.field, this.names, h('span.grow'), this.fold, zoom, this.as),
        append(split, [h('div.picture', this.stage, this.list), sizer(split, {name: 'side', label: 'Width of the task',
            least: 260, most: 900, usual: 340}), this.side]));
        this.pan = new PanZoom(this.stage);
        this.take(doc);
        this.stage.addEventListener('pointerover', (event) => this.hover(event));
        this.stage.addEventListener('pointerout', () => this.boxes.light(-1));
        this.stage.addEventListener('focusin', (event) => this.onFocus(event));
        this.stopResize = onResize(el, (width) => this.onWidth(width));
        this.lay();
    }

    /* Draws the graph; the focus and the selection stay. */
    take(doc) {
        const had = this.boxes, focused = had && document.activeElement.closest('[data-box]')?.dataset.box;
        const same = (b) => this.boxes.ofTask.get(had.doc.tasks[had.doc.boxes[b].tasks[0]].name);

        this.stopUpdate();
        this.dirty.clear();
        this.boxes = new Boxes(doc, this.taskOf, (b) => {
            if (!this.pan.dragged())
                this.pick(b);
        }, this.stage);
        this.many = doc.boxes.length > MANY; /* then only boxes near the selected one are drawn */
        if (this.chosen >= 0)
            this.chosen = same(this.chosen);
        this.placed = undefined;
        if (this.width)
            this.onWidth(this.width);
        this.drawList();
        if (focused)
            this.focus(same(focused));
    }

    /* Of each box that is folded the first that failed lie apart, with what was unfolded. */
    async lay() {
        const bad = (t) => any(this.taskOf(this.boxes.doc.tasks[t].name)?.counts || {}, failures);
        const apart = [...this.open, ...this.folded.flatMap((box) => box.tasks.filter(bad).slice(0, FEW))].join();

        if (apart === this.apart)
            return;
        this.apart = apart;
        const doc = await this.again(apart);

        if (apart !== this.apart)
            return; /* more failed meanwhile */
        this.take(doc);
    }

    async unfold(tasks) {
        const {chosen} = this;

        this.open = tasks;
        this.fold.hidden = tasks.length === 0;
        this.side.hidden = true;
        await this.lay();
        this.focus(Math.max(0, this.chosen));
    }

    hover(event) {
        const g = event.target.closest('[data-box]');

        if (g !== null && event.pointerType === 'mouse' && event.buttons === 0)
            this.boxes.light(Number(g.dataset.box));
    }

    onFocus(event) {
        const g = event.target.closest('[data-box]');

        if (g !== null && g.matches(':focus-visible'))
            this.pan.reveal(this.boxes.rect(Number(g.dataset.box)));
    }

    onWidth(width) {
        const height = Math.min(Math.max(this.boxes.height + 24, 180), Math.max(300, innerHeight - 260));

        this.stage.style.height = `${Math.round(height)}px`;
        if (this.width === undefined)
            this.setList(width < NARROW || this.many);
        this.width = width;
        if (!this.list.hidden)
            this.placed = undefined;
        else if (this.placed === undefined)
            this.place(width);
        else if (Math.abs(this.placed - width) > 100)
            this.take(this.boxes.doc);
    }

    /* All of it where it can be read so; else where something happens. */
    place(width) {
        this.placed = width;
        this.pan.view?.remove();
        this.stage.append(this.boxes.view);
        Object.assign(this.pan, {view: this.boxes.view, size: this.boxes});
        this.boxes.show(this.many ? Math.max(0, this.chosen) : -1, STEPS);
        this.boxes.select(this.chosen);
        if (this.pan.fit(0.6))
            return;
        const of = (set) => this.boxes.doc.boxes.findIndex((_, b) => any(this.boxes.counts(b), set));
        const b = Math.max(of(failures), of(live), 0);

        this.pan.x = this.pan.y = 12;
        this.pan.reveal({...this.boxes.rect(b), h: BOX_H}, 60);
    }

    setList(on) {
        this.list.hidden = !on;
        this.stage.toggleAttribute('hidden', on);
        this.as.setAttribute('aria-pressed', String(on));
        this.drawList();
        if (on)
            this.placed = undefined;
        else if (this.width)
            this.place(this.width);
    }

    /* Names for the field, once somebody looks for one. */
    offer() {
        if (this.names.firstChild === null)
            append(this.names, this.boxes.doc.tasks.slice(0, 2000).map((t) => h('option', {value: t.name})));
    }

    /* What is seen first comes first, the rest in the next frames. */
    drawList() {
        this.stopList?.();
        if (this.list.hidden)
            return;
        const want = this.field.value.trim().toLowerCase(), {doc} = this.boxes;
        const found = this.boxes.layers().map((layer) => layer.filter((b) => this.boxes.nameOf(doc.boxes[b]).toLowerCase().includes(want)));
        const todo = found.flatMap((layer, i) => layer.map((b) => [i, b])), listed = todo.slice(0, LISTED);
        let at = 0, last = -1, section = null;

        this.buttons = new Map(); /* number of the box: its button, of those that are listed */
        fill(this.list);
        this.stopList = inSlices(() => {
            if (at === listed.length) {
                append(this.list, [todo.length > LISTED && h('p.dim', `The first ${LISTED}; find others by name.`)]);
                return false;
            }
            const [i, b] = listed[at++];

            if (i !== last)
                append(this.list, [section = h('section', h('h3', `Step ${i + 1}`))]);
            last = i;
            section.append(this.button(b));
            return true;
        });
    }

    button(b) {
        const button = h('button', {'data-box': b, on: {click: () => this.pick(b)}});

        drawBoxButton(this.boxes, b, button);
        this.buttons.set(b, button);
        return button;
    }

    find() {
        const want = this.field.value.trim().toLowerCase();
        const all = [...this.boxes.ofTask];
        const found = all.find(([name]) => name.toLowerCase() === want) || all.find(([name]) => name.toLowerCase().includes(want));

        if (want === '' || found === undefined)
            return;
        this.pick(found[1], found[0]);
        if (!this.list.hidden)
            return;
        this.pan.reveal(this.boxes.rect(found[1]), 80);
        this.focus(found[1]);
    }

    focus(b) {
        if (this.list.hidden)
            this.boxes.focus(b);
        else
            this.buttons.get(b)?.focus();
    }

    pick(b, name = null) {
        const tasks = this.boxes.doc.boxes[b].tasks.map((t) => this.boxes.doc.tasks[t]);

        this.chosen = b;
        this.boxes.select(b);
        if (this.many && this.list.hidden)
            this.boxes.show(b, STEPS);
        this.choose(tasks, name);
        if (tasks.length > 1 && !name)
            this.side.prepend(h('button', {on: {click: () => this.unfold([...this.open, ...this.boxes.doc.boxes[b].tasks])}}, 'Unfold'));
    }

    unpick() {
        this.chosen = -1;
        this.boxes.select(-1);
        this.side.hidden = true;
    }

    /* Names of tasks whose counts changed; what many need is done over some frames. */
    update(names) {
        for (const name of names)
            this.dirty.add(this.boxes.ofTask.get(name));
        this.stopUpdate();
        this.stopUpdate = inSlices(() => {
            const [b] = this.dirty;

            this.dirty.delete(b);
            this.boxes.draw(b);
            if (!this.list.hidden)
                drawBoxButton(this.boxes, b, this.buttons.get(b));
            return this.dirty.size > 0;
        });
        this.lay();
    }

    close() {
        this.stopResize();
        this.stopList?.();
        this.stopUpdate();
    }
}

/* A folded box: its tasks, to choose one. */
function folded(model, tasks, choose) {
    return h('div.folded', h('h3', `${tasks.length} tasks`), tasks.slice(0, 200).map((t) => {
        const task = model.tasks.get(t.name);

        return h('button.boxrow', {on: {click: () => choose(t)}}, task && badge(worst(task.counts), {word: false}), h('span.name', t.name));
    }), tasks.length > 200 && h('p.dim', `and ${tasks.length - 200} more: find them by name`));
}

class GraphTab {
    constructor(el, {model, user, page}) {
        Object.assign(this, {el, model, user, page});
        this.unbind = bindKeys('Graph', {
            '+': ['larger', () => this.view?.pan.zoom(1.25)],
            '-': ['smaller', () => this.view?.pan.zoom(0.8)],
            '0': ['all of it', () => this.view?.pan.fit()],
            Escape: ['close the task', () => this.closeTask()],
        });
        this.load();
    }

    async load() {
        fill(this.el, h('div.loading', {'aria-label': 'Loading'}));
        try {
            const doc = await this.page.graph();

            if (this.closed)
                return;
            this.view = new GraphView(this.el, doc, {taskOf: (name) => this.model.tasks.get(name),
                choose: (tasks, name) => this.choose(tasks, name), again: (apart) => graph(this.model.no, apart)});
            this.stop = this.model.listen((changed) => this.take(changed));
            this.openAsked(doc);
        } catch (problem) {
            fill(this.el, problem.status === 404 ? empty('There is no picture of this run') : failed(problem, () => this.load()));
        }
    }

    openAsked(doc) {
        const name = query().get('task');

        if (name !== null && this.view.boxes.ofTask.has(name))
            this.view.pick(this.view.boxes.ofTask.get(name), doc.tasks.find((t) => t.name === name).name);
    }

    take(changed) {
        this.view.update(changed.whole ? this.model.tasks.keys() : changed.tasks);
        if (this.task)
            this.task.update(changed);
    }

    choose(tasks, name) {
        const one = name ? tasks.find((t) => t.name === name) : tasks.length === 1 ? tasks[0] : null;

        this.view.side.hidden = false;
        this.task = null;
        if (one === null) {
            fill(this.view.side, this.closer(), folded(this.model, tasks, (t) => this.choose(tasks, t.name)));
            return;
        }
        setQuery({task: one.name});
        fill(this.view.side, this.closer());
        const body = h('div.body');

        append(this.view.side, [body]);
        this.task = openTask(body, {model: this.model, user: this.user, task: one, graph: this.page.graphDoc});
    }

    closer() {
        return h('button.plain.icon.closer', {'aria-label': 'Close the task', on: {click: () => this.closeTask()}}, '×');
    }

    closeTask() {
        if (!this.view || this.view.side.hidden)
            return false;
        const {chosen} = this.view;

        this.view.unpick();
        this.task = null;
        setQuery({task: null});
        this.view.focus(chosen);
        return true;
    }

    close() {
        this.closed = true;
        this.unbind();
        this.view?.close();
        this.stop?.();
    }
}

export function open(el, context) {
    return new GraphTab(el, context);
}
