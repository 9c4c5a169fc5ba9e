/* The keyboard: keys and pairs of keys ("g r"), each with a sentence for the list that "?" shows. */
import {h} from './dom.js';
import {openDialog} from './ask.js';

const groups = new Set();
let first = '', timer = 0;

/* bindings: {key: [sentence, fn]}; returns what unbinds them. Those bound last come first. */
export function bindKeys(title, bindings) {
    const group = {title, bindings};

    groups.add(group);
    return () => groups.delete(group);
}

function isTyping(target) {
    return target.closest('input, textarea, select, [contenteditable]') !== null;
}

function find(keys) {
    for (const group of [...groups].reverse())
        if (group.bindings[keys] !== undefined)
            return group.bindings[keys][1];
    return null;
}

function begins(key) {
    return [...groups].some((g) => Object.keys(g.bindings).some((k) => k.startsWith(`${key} `)));
}

function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)
        || document.querySelector('dialog[open]') !== null)
        return;
    const fn = find(first ? `${first} ${event.key}` : event.key);

    clearTimeout(timer);
    if (fn !== null) {
        first = '';
        if (fn(event) !== false)
            event.preventDefault();
        return;
    }
    first = first === '' && begins(event.key) ? event.key : '';
    timer = setTimeout(() => {
        first = '';
    }, 1000);
}

export function showKeys() {
    openDialog('Keyboard', [...groups].map((g) => h('section.keys',
        h('h3', g.title),
        h('dl', Object.entries(g.bindings).map(([keys, [sentence]]) => [
            h('dt', keys.split(' ').map((k) => h('kbd', k))), h('dd', sentence)])))));
}

export function startKeys() {
    document.addEventListener('keydown', onKey);
}

/* Moves the focus among the rows of tables, to the row or the first link in it; where they end it stays. */
export function moveFocus(container, step) {
    const rows = [...container.querySelectorAll('tbody tr')].map((row) => (row.tabIndex < 0 ? row.querySelector('a, button') : row))
        .filter((el) => el?.checkVisibility());
    const at = rows.findIndex((el) => el.closest('tr').contains(document.activeElement));
    const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + step))];

    if (next !== undefined) {
        next.focus();
        next.scrollIntoView({block: 'nearest'});
    }
}
