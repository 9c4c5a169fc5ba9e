/* The tab "Artifacts": values that tasks gave, and files that the run kept. */
import {append, fill, h, table} from './dom.js';
import {artifacts, artifactText, artifactUrl, outputs} from './api.js';
import {empty, failed, openDialog} from './ask.js';
import {bytes} from './words.js';
import {visible} from './ansi.js';

const SHOWN_BYTES = 256 << 10, RESULT = '_result', NO_VALUE = 'No task gave a value';
const IMAGE = /\.(png|jpe?g|gif|webp)$/i;

function outputTable(items) {
    return table('', ['Task', 'Name', 'Value'], items.map((o) => h('tr', h('td', o.key), h('th', {scope: 'row'}, o.name),
        h('td.mono.wide', visible(o.value)))));
}

/* Artifacts of the last tasks, the results of the run, come first; outputs of built-in tasks come last. */
function outputTables(items) {
    const own = items.filter((o) => o.name !== RESULT).reverse(), found = items.filter((o) => o.name === RESULT);

    return [own.length > 0 ? outputTable(own) : empty(NO_VALUE), found.length > 0 && h('details', h('summary', 'Results of built-in tasks'), outputTable(found))];
}

/* Shows a text (as text nodes) or an image in a dialog; other files can only be downloaded. */
async function show(no, f) {
    const body = h('div');

    openDialog(visible(f.path), body, {wide: true});
    if (IMAGE.test(f.path)) {
        fill(body, h('img', {src: artifactUrl(no, f.sha256), alt: visible(f.path)}));
        return;
    }
    try {
        const text = await artifactText(no, f.sha256);

        fill(body, text.includes('\0') ? empty('This is no text: download it') : h('pre.spec', {tabindex: '0'}, visible(text)));
    } catch (problem) {
        fill(body, failed(problem));
    }
}

function fileTable(items, no) {
    return table('', ['File', 'Size', 'SHA-256', ''], items.map((f) => h('tr', h('th.mono.wide', {scope: 'row'}, visible(f.path)),
        h('td.num', bytes(f.bytes)), h('td.mono.dim', {title: f.sha256}, f.sha256.slice(0, 16)),
        h('td.actions', h('a.button', {href: artifactUrl(no, f.sha256), download: f.path.split('/').at(-1),
            'aria-label': `Download ${visible(f.path)}`}, 'Download'),
        (f.bytes <= SHOWN_BYTES || IMAGE.test(f.path)) && h('button', {'aria-label': `Show ${visible(f.path)}`, on: {click: () => show(no, f)}}, 'Show')))));
}

export function open(el, {model}) {
    const values = h('section'), files = h('section');
    let closed = false;

    async function load(part, get, title, draw, none) {
        try {
            const {items} = await get(model.no);

            if (!closed)
                fill(part, h('h3', title), items.length > 0 ? draw(items, model.no) : empty(none));
        } catch (problem) {
            if (!closed)
                fill(part, h('h3', title), problem.status === 404 ? empty(none) : failed(problem));
        }
    }
    append(el, [values, files]);
    load(values, outputs, 'Outputs', outputTables, NO_VALUE);
    load(files, artifacts, 'Files', fileTable, 'The run kept no files');
    return {close() {
        closed = true;
    }};
}
