/* Elements. Text reaches the document as text nodes only; nothing here or elsewhere parses HTML. */

const SVG = 'http://www.w3.org/2000/svg';
const SLICE_MS = 3, UNSEEN_MS = 100;

function isAttrs(value) {
    return value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof Node);
}

function setAttr(el, name, value) {
    if ((value ?? false) === false)
        return;
    if (name === 'on') {
        for (const [event, fn] of Object.entries(value))
            el.addEventListener(event, fn);
    } else if (name === 'style') {
        for (const [property, text] of Object.entries(value))
            el.style.setProperty(property, text);
    } else if (name === 'value') {
        el.value = value;
    } else {
        el.setAttribute(name, value === true ? '' : String(value));
    }
}

/* Children: nodes, texts, numbers, lists of them; null and false stand for none. */
export function append(el, children) {
    for (const child of children.flat(Infinity))
        if ((child ?? false) !== false)
            el.append(child instanceof Node ? child : String(child));
    return el;
}

const maker = (create) => (name, ...rest) => {
    const [tag, ...classes] = name.split('.'), el = create(tag), attrs = isAttrs(rest[0]) ? rest.shift() : {};

    if (classes.length > 0)
        el.setAttribute('class', classes.join(' '));
    append(el, rest);
    for (const [key, value] of Object.entries(attrs))
        setAttr(el, key, value);
    return el;
};

/* h('a.button.small', {href: 'runs', on: {click: fn}, style: {'--w': '3px'}}, 'text', child …) */
export const h = maker((tag) => document.createElement(tag));
export const svg = maker((tag) => document.createElementNS(SVG, tag));

export function fill(el, ...children) {
    el.replaceChildren();
    return append(el, children);
}

/* A table with a head; where it is too wide it scrolls by itself. */
export function table(name, heads, rows) {
    const box = h('div.scroll', h(`table.list${name ? `.${name}` : ''}`,
        heads && h('thead', h('tr', heads.map((word) => (word ? h('th', {scope: 'col'}, word) : h('td'))))), h('tbody', rows)));

    onResize(box, () => { /* what scrolls is to be reached by keys */
        if (box.scrollWidth > box.clientWidth)
            box.tabIndex = 0;
        else
            box.removeAttribute('tabindex');
    });
    return box;
}

/* fn, whose promise is kept for the next calls unless it fails. */
export function kept(fn) {
    let promise = null;

    return () => {
        promise = promise || fn().catch((problem) => {
            promise = null;
            throw problem;
        });
        return promise;
    };
}

/* fn at most once a frame, however often the result is called. */
export function oncePerFrame(fn) {
    let asked = false;

    return () => {
        if (asked)
            return;
        asked = true;
        requestAnimationFrame(() => {
            asked = false;
            fn();
        });
    };
}

/* Resolves once the changes are painted; soon if nothing is painted. */
export function painted() {
    return new Promise((resolve) => {
        requestAnimationFrame(() => setTimeout(resolve));
        setTimeout(resolve, UNSEEN_MS);
    });
}

/* Calls step, which does a little and returns whether more is left, as often as a part of a frame allows: now, then once a
 * frame. Returns what ends that. */
export function inSlices(step) {
    let stopped = false;
    const go = () => {
        const end = performance.now() + SLICE_MS;

        while (!stopped && performance.now() < end)
            if (!step())
                return;
        if (!stopped)
            requestAnimationFrame(go);
    };

    go();
    return () => {
        stopped = true;
    };
}

/* What ask() answers goes to show(), but for an answer that a newer one has overtaken. */
export function inOrder(ask, show) {
    let asked = 0, shown = 0;

    return async () => {
        const mine = ++asked, answer = await ask();

        if (mine < shown)
            return;
        shown = mine;
        show(answer);
    };
}

/* fn now, then at most once in ms; a last call is never lost. stop() ends it. */
export function throttled(fn, ms) {
    let timer = 0, again = false, stopped = false;
    const run = () => {
        again = false;
        timer = setTimeout(() => {
            timer = 0;
            if (again && !stopped)
                run();
        }, ms);
        fn();
    };
    const call = () => {
        if (timer === 0 && !stopped)
            run();
        else
            again = true;
    };

    call.stop = () => {
        stopped = true;
        clearTimeout(timer);
    };
    return call;
}

/* Calls fn with the element's size now and whenever it changes; returns what ends that. */
export function onResize(el, fn) {
    const watch = new ResizeObserver(() => fn(el.clientWidth, el.clientHeight));

    watch.observe(el);
    return () => watch.disconnect();
}

/* A canvas of that size in CSS pixels, sharp on any screen; returns its context, scaled and empty. */
export function canvasContext(canvas, width, height) {
    const ratio = window.devicePixelRatio || 1;
    const context = canvas.getContext('2d');

    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return context;
}

const probes = new Map();

/* A colour of app.css as canvas takes it; forgetColours() after a change of the theme. */
export function colour(name) {
    if (!probes.has(name)) {
        const probe = h('span', {style: {color: `var(--${name})`, display: 'none'}});

        document.body.append(probe);
        probes.set(name, getComputedStyle(probe).color);
        probe.remove();
    }
    return probes.get(name);
}

export function forgetColours() {
    probes.clear();
}
