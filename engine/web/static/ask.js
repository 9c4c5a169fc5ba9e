/* Dialogs, menus and short messages. A button that changes something names the change, and asks once. */
import {append, fill, h} from './dom.js';

function close(dialog) {
    dialog.close();
    dialog.remove();
}

/* A dialog with a title and content; Esc, its button and a click beside it close it. */
export function openDialog(title, content, {wide = false} = {}) {
    const heading = h('h2', title);
    const dialog = h(wide ? 'dialog.wide' : 'dialog', {'aria-label': title},
        h('div.titlebar', heading, h('button.plain.icon', {'aria-label': 'Close', on: {click: () => close(dialog)}}, '×')),
        h('div.body', content));

    dialog.addEventListener('close', () => dialog.remove());
    dialog.addEventListener('click', (event) => {
        if (event.target === dialog)
            close(dialog);
    });
    document.body.append(dialog);
    dialog.showModal();
    return dialog;
}

/*
 * Asks before act() is done: what will happen (lines of text), and fields where there are some. act
 * gets the fields' values; its error is shown in the dialog, which stays. Resolves to act's result,
 * undefined when the user thought better of it.
 */
export function ask({title, lines = [], content = null, yes, danger = false, act}) {
    return new Promise((resolve) => {
        const error = h('p.error', {role: 'alert', hidden: true});
        const button = h(danger ? 'button.danger' : 'button.primary', {type: 'submit'}, yes);
        const form = h('form', lines.map((line) => h('p', line)), content, error,
            h('footer', h('button', {type: 'button', on: {click: () => close(dialog)}}, 'Back'), button));
        const dialog = openDialog(title, form);
        let result;

        form.addEventListener('submit', async (event) => {
            event.preventDefault();
            button.disabled = true;
            try {
                result = await act(form);
                close(dialog);
            } catch (problem) {
                error.hidden = false;
                fill(error, problemLines(problem));
                button.disabled = false;
            }
        });
        dialog.addEventListener('close', () => resolve(result));
        (form.querySelector('input, select, textarea') || button).focus();
    });
}

/* What went wrong, with each mistake of a pipeline on a line of its own. */
function problemLines(problem) {
    const issues = problem.doc && Array.isArray(problem.doc.issues) ? problem.doc.issues : [];

    return [h('span', problem.message), issues.map((i) => h('span.issue',
        `${i.file ? `${i.file}:` : ''}${i.line || ''}${i.col ? `:${i.col}` : ''} ${i.text}`))];
}

/* One line at the foot of the page for a few seconds; errors stay until they are closed. */
export function say(text, kind = 'info') {
    const note = h(`div.toast.${kind}`, {role: kind === 'error' ? 'alert' : null}, h('span', text),
        h('button.plain.icon', {'aria-label': 'Close', on: {click: () => note.remove()}}, '×'));

    document.getElementById('over').append(note);
    if (kind !== 'error')
        setTimeout(() => note.remove(), 5000);
}

/* Told to those who listen to the page. */
export function announce(text) {
    document.getElementById('said').textContent = text;
}

/* A button that opens a list of actions: [[label, fn, disabled reason]]. */
export function menu(label, items, {name = 'menu'} = {}) {
    const list = h('div.menu', {role: 'menu', hidden: true});
    const button = h('button', {'aria-haspopup': 'menu', 'aria-expanded': 'false'}, label);
    const box = h('span.menubox', {'data-menu': name}, button, list);
    const show = (open) => {
        list.hidden = !open;
        button.setAttribute('aria-expanded', String(open));
    };

    append(list, items.map(([text, fn, off]) => h('button.plain', {role: 'menuitem', disabled: Boolean(off),
        title: off || null, on: {click: () => {
            show(false);
            fn();
        }}}, text)));
    button.addEventListener('click', () => {
        show(list.hidden);
        if (!list.hidden)
            list.querySelector('button:not([disabled])')?.focus();
    });
    box.addEventListener('focusout', (event) => {
        if (!box.contains(event.relatedTarget))
            show(false);
    });
    box.addEventListener('keydown', (event) => {
        if (event.key === 'Escape' && !list.hidden) {
            show(false);
            button.focus();
        } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
            const all = [...list.querySelectorAll('button:not([disabled])')];
            const at = all.indexOf(document.activeElement) + (event.key === 'ArrowDown' ? 1 : -1);

            event.preventDefault();
            all[(at + all.length) % all.length]?.focus();
        }
    });
    return box;
}

/* In place of content that cannot be had. */
export function failed(problem, again = null) {
    return h('div.empty.error', {role: 'alert'}, problemLines(problem),
        again && h('button', {on: {click: again}}, 'Try again'));
}

export function empty(title, ...more) {
    return h('div.empty', h('p.lead', title), more);
}
