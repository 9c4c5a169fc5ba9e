/* Where the page is: paths below the base, and what of the view stands in the query. */
import {h} from './dom.js';

const base = new URL(document.baseURI).pathname;
const listeners = [];

/* "runs/41" of /flowrun/runs/41 */
export function path() {
    return decodeURI(location.pathname.startsWith(base) ? location.pathname.slice(base.length) : '');
}

export function query() {
    return new URLSearchParams(location.search);
}

/* Changes parts of the query in place; null removes one. The hash goes with it unless it is given. */
export function setQuery(changes, hash = '') {
    const q = query();

    for (const [name, value] of Object.entries(changes))
        if (value === null || value === '')
            q.delete(name);
        else
            q.set(name, value);
    const text = q.toString().replaceAll('%40', '@').replaceAll('%2F', '/');

    history.replaceState(null, '', location.pathname + (text ? `?${text}` : '') + hash);
}

export function onGo(fn) {
    listeners.push(fn);
}

function tell() {
    for (const fn of listeners)
        fn();
}

/* To a page: "runs/41?tab=logs" */
export function go(to, {replace = false} = {}) {
    const url = new URL(to, document.baseURI);

    history[replace ? 'replaceState' : 'pushState'](null, '', url);
    tell();
}

function isOwn(a, event) {
    return !(event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey
        || event.altKey || a.target || a.hasAttribute('download') || a.origin !== location.origin
        || !a.pathname.startsWith(base) || a.pathname.startsWith(`${base}api/`));
}

export function startNav() {
    window.addEventListener('popstate', tell);
    document.addEventListener('click', (event) => {
        const a = event.target.closest('a[href]');

        if (a === null || !isOwn(a, event))
            return;
        event.preventDefault();
        if (a.id === 'skip')
            document.getElementById('main').focus();
        else
            go(a.href);
    });
}

const ICON_MS = 300;
let titled = null; /* the next state of the icon */

/* What a title and the tab's icon say: the state's glyph in its colour, and the words. The icon follows: to draw it takes
 * longer than the head of a page. */
export function setTitle(words, state = null, colourOf = null) {
    document.title = `${state ? `${state.glyph} ` : ''}${words} · flowrun`;
    if (titled === null)
        setTimeout(drawIcon, ICON_MS);
    titled = {state, colourOf};
}

function drawIcon() {
    const {state, colourOf} = titled;
    const icon = document.querySelector('link[rel=icon]');
    const canvas = document.createElement('canvas');
    const c = canvas.getContext('2d');

    canvas.width = canvas.height = 32;
    c.fillStyle = state && colourOf ? colourOf(`st-${state.look}`) : '#1d63c9';
    c.beginPath();
    c.roundRect(2, 2, 28, 28, 8);
    c.fill();
    c.fillStyle = '#fff';
    c.font = 'bold 20px system-ui, sans-serif';
    c.textAlign = 'center';
    c.textBaseline = 'middle';
    c.fillText(state ? state.glyph : 'f', 16, 17);
    icon.href = canvas.toDataURL();
    titled = null;
}

/* Where the log of an instance, or of all of a task, is shown. */
export const logPage = (no, instance) => `runs/${no}?tab=logs&i=${encodeURIComponent(instance)}`;

export const runLink = (no) => h('a', {href: `runs/${no}`}, `#${no}`);
