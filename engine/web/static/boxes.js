/* The picture of a graph: boxes and edges in SVG, from the server's coordinates. */
import {append, fill, h, svg} from './dom.js';
import {barOrder, countWords, done, stateOf, sum, worst} from './states.js';

const STRETCH_Y = 1.5;
export const BOX_H = 36;
const GLYPH_W = 24, PAD = 10;

const ruler = document.createElement('canvas').getContext('2d');
ruler.font = '12.5px system-ui, sans-serif';

const textWidth = (text) => ruler.measureText(text).width;

function clip(text, width) {
    if (textWidth(text) <= width)
        return text;
    let n = Math.max(1, Math.floor(text.length * width / textWidth(text)));

    while (n > 1 && textWidth(`${text.slice(0, n)}…`) > width)
        n--;
    return `${text.slice(0, n)}…`;
}

function countText(n) {
    return n > 1 ? `${n}/${n}` : '';
}

/* How much wider than the server's the picture is: glyph, name and counts have room, and it fills what there is. */
function stretch(doc, room, nameOf, countOf) {
    let most = 1;

    for (const box of doc.boxes) {
        const need = GLYPH_W + Math.min(150, textWidth(nameOf(box))) + textWidth(countText(countOf(box))) + 2 * PAD;

        most = Math.max(most, need / box.w);
    }
    return Math.max(Math.min(1.9, most), Math.min(3, room / doc.width));
}

function edgePath(points, sx) {
    const p = points.map(([x, y]) => [Math.round(x * sx), y * STRETCH_Y]);
    let d = `M${p[0][0]} ${p[0][1]}`;

    for (let i = 0; i + 1 < p.length; i += 2) {
        const middle = (p[i][0] + p[i + 1][0]) / 2;

        if (i > 0)
            d += `L${p[i][0]} ${p[i][1]}`;
        d += `C${middle} ${p[i][1]} ${middle} ${p[i + 1][1]} ${p[i + 1][0]} ${p[i + 1][1]}`;
    }
    return d;
}

function neighbours(doc) {
    const up = doc.boxes.map(() => []), down = doc.boxes.map(() => []);

    for (const e of doc.edges) {
        down[e.from].push(e.to);
        up[e.to].push(e.from);
    }
    return {up, down};
}

function reach(lists, from, steps = Infinity) {
    const seen = new Set([from]);
    let edge = [from];

    for (let i = 0; i < steps && edge.length > 0; i++) {
        edge = edge.flatMap((b) => lists[b]).filter((b) => !seen.has(b) && seen.add(b));
    }
    return seen;
}

/*
 * doc: a graph of api.js; taskOf(name): {counts: {state: number}, away} of a task, undefined where there is no run.
 * choose(box number) is called for a press or Enter; stage: that shows them.
 */
export class Boxes {
    constructor(doc, taskOf, choose, stage) {
        Object.assign(this, {doc, taskOf, choose, stage}, neighbours(doc));
        this.ofTask = new Map();
        doc.boxes.forEach((box, b) => box.tasks.forEach((t) => this.ofTask.set(doc.tasks[t].name, b)));
        this.view = svg('g');
        this.edges = new Map(); /* number: its path, of those that were shown */
        this.boxes = new Map(); /* likewise */
        this.chosen = -1;
        this.height = doc.height * STRETCH_Y;
    }

    /* Names are measured once the picture is shown: of a thousand that takes a frame. */
    get sx() {
        this.stretched = this.stretched || stretch(this.doc, this.stage.clientWidth, (box) => this.nameOf(box), (box) => this.total(box));
        return this.stretched;
    }

    get width() {
        return this.doc.width * this.sx;
    }

    nameOf(box) {
        return box.tasks.length > 1 ? `${box.tasks.length} tasks` : this.doc.tasks[box.tasks[0]].name;
    }

    total(box) {
        return box.tasks.reduce((n, t) => n + this.doc.tasks[t].count, 0);
    }

    rect(b) {
        const box = this.doc.boxes[b];

        return {x: box.x * this.sx, y: box.y * STRETCH_Y, w: box.w * this.sx, h: BOX_H};
    }

    make(box, b) {
        const {x, y, w} = this.rect(b), first = this.doc.tasks[box.tasks[0]];
        const one = {
            glyph: svg('text.glyph', {x: 13, y: 22, 'text-anchor': 'middle'}),
            name: svg('text.name', {x: GLYPH_W + 2, y: 22}),
            count: svg('text.count', {x: w - PAD, y: 22, 'text-anchor': 'end'}),
            away: svg('text.away', {x: w - 3, y: 5, 'text-anchor': 'end'}),
            bar: svg('g', {transform: `translate(4 ${BOX_H - 5})`}),
        };
        const room = w - GLYPH_W - PAD - textWidth(countText(this.total(box))) - 6;

        one.g = svg('g', {transform: `translate(${x} ${y})`, tabindex: '0', role: 'button',
            'data-box': b, on: {click: () => this.choose(b), keydown: (event) => this.onKey(event, b)}},
        box.tasks.length > 1 && svg('rect.behind', {x: 3, y: 3, width: w, height: BOX_H, rx: 6}),
        svg('rect.ground', {width: w, height: BOX_H, rx: 6}), svg('rect.tint', {width: w, height: BOX_H, rx: 6}),
        one.glyph, one.name, one.count, one.away, one.bar);
        one.shape = `box${first.gang ? ' gang' : ''}${first.hook ? ' hook' : ''}${first.critical ? ' critical' : ''}`;
        one.name.textContent = clip(this.nameOf(box), room);
        one.w = w;
        return one;
    }

    /* Its elements, made when it is shown first. */
    box(b) {
        if (!this.boxes.has(b)) {
            this.boxes.set(b, this.make(this.doc.boxes[b], b));
            this.draw(b);
        }
        return this.boxes.get(b);
    }

    edge(i) {
        const e = this.doc.edges[i];

        if (!this.edges.has(i))
            this.edges.set(i, svg(e.critical ? 'path.edge.critical' : 'path.edge', {d: edgePath(e.points, this.sx)}));
        return this.edges.get(i);
    }

    counts(b) {
        const all = {};

        for (const t of this.doc.boxes[b].tasks)
            for (const [state, n] of Object.entries(this.taskOf(this.doc.tasks[t].name)?.counts || {}))
                all[state] = (all[state] || 0) + n;
        return all;
    }

    /* How many of its instances are on nodes that do not answer. */
    away(b) {
        return this.doc.boxes[b].tasks.reduce((n, t) => n + (this.taskOf(this.doc.tasks[t].name)?.away || 0), 0);
    }

    /* State is a class; colour is CSS. */
    draw(b) {
        const one = this.boxes.get(b);

        if (one === undefined)
            return;
        const counts = this.counts(b), n = sum(counts), box = this.doc.boxes[b], away = this.away(b);
        const state = n > 0 ? worst(counts) : null;
        const sign = JSON.stringify([counts, away]);

        if (one.sign === sign)
            return;
        one.sign = sign;
        one.g.setAttribute('class', `${one.shape}${state ? ` st-${state.look}` : ''}${b === this.chosen ? ' chosen' : ''}`);
        one.glyph.textContent = state ? state.glyph : '';
        one.count.textContent = n > 1 ? `${done(counts)}/${n}` : '';
        one.away.textContent = away > 0 ? '⚠' : '';
        one.g.setAttribute('aria-label', `${this.nameOf(box)}: ${n > 0 ? countWords(counts) : 'a task'}`
            + `${away > 0 ? `, ${away} unreachable` : ''}${this.doc.tasks[box.tasks[0]].gang ? ', a gang' : ''}`);
        this.drawBar(one, counts, n);
    }

    drawBar(one, counts, n) {
        const width = one.w - 8;
        let x = 0;

        fill(one.bar);
        if (n < 2)
            return;
        for (const name of barOrder)
            if (counts[name] > 0) {
                const w = width * counts[name] / n;

                one.bar.append(svg(`rect.seg.st-${stateOf(name).look}`, {x, width: Math.max(1, w), height: 3}));
                x += w;
            }
    }

    /* Lights what b needs and what needs it; -1: all alike again. */
    light(b) {
        const lit = b < 0 ? null : new Set([...reach(this.up, b), ...reach(this.down, b)]);

        this.view.classList.toggle('lighting', lit !== null);
        if (lit === null)
            return;
        this.boxes.forEach((one, i) => one.g.classList.toggle('lit', lit.has(i)));
        this.edges.forEach((path, i) => path.classList.toggle('lit', lit.has(this.doc.edges[i].from) && lit.has(this.doc.edges[i].to)));
    }

    /* Shows the boxes at most so many steps away from b; -1: all. */
    show(b, steps) {
        const shown = b < 0 ? null : new Set([...reach(this.up, b, steps), ...reach(this.down, b, steps)]);
        const has = (n) => shown === null || shown.has(n), focused = document.activeElement;

        fill(this.view, this.doc.edges.map((e, i) => has(e.from) && has(e.to) && this.edge(i)),
            this.doc.boxes.map((_, n) => has(n) && this.box(n).g));
        if (focused !== document.activeElement && this.view.contains(focused))
            focused.focus();
    }

    select(b) {
        this.chosen = b;
        this.boxes.forEach((one, i) => {
            one.g.classList.toggle('chosen', i === b);
            one.g.setAttribute('aria-pressed', String(i === b));
        });
    }

    focus(b) {
        this.boxes.get(b)?.g.focus();
    }

    /* Arrows follow the edges, and go up and down inside a layer. */
    onKey(event, b) {
        const {boxes} = this.doc;
        const layer = () => boxes.map((box, i) => [box, i]).filter(([box]) => box.x === boxes[b].x)
            .sort(([one], [other]) => one.y - other.y).map(([, i]) => i);
        const beside = (step) => layer()[layer().indexOf(b) + step];
        const next = {ArrowRight: () => this.down[b][0], ArrowLeft: () => this.up[b][0],
            ArrowDown: () => beside(1), ArrowUp: () => beside(-1)}[event.key];

        if (event.key === 'Enter' || event.key === ' ')
            this.choose(b);
        else if (next === undefined)
            return;
        else if (next() !== undefined)
            this.focus(next());
        event.preventDefault();
    }

    /* [[box numbers of a layer, top down] …] from left to right */
    layers() {
        const by = new Map();

        this.doc.boxes.forEach((box, b) => by.set(box.x, [...(by.get(box.x) || []), b]));
        return [...by].sort(([x], [other]) => x - other)
            .map(([, list]) => list.sort((one, other) => this.doc.boxes[one].y - this.doc.boxes[other].y));
    }
}

/* The button of a box in the list that stands for the picture where that has no room; undefined: it is not listed. */
export function drawBoxButton(boxes, b, button) {
    if (button === undefined)
        return;
    const counts = boxes.counts(b), n = sum(counts), state = n > 0 ? worst(counts) : stateOf(''), sign = JSON.stringify(counts);

    if (button.sign === sign)
        return;
    if (button.sign === undefined)
        append(button, [h('span.glyph', {'aria-hidden': 'true'}), h('span.name', boxes.nameOf(boxes.doc.boxes[b])), h('span.dim')]);
    button.sign = sign;
    button.className = `boxrow st-${state.look}`;
    button.firstChild.textContent = state.glyph;
    button.lastChild.textContent = n > 1 ? `${done(counts)}/${n}` : n > 0 ? state.word : '';
}
