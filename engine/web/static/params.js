/* The tab "Params": those of the run beside their defaults and beside another run's, and its file. */
import {append, fill, h, table} from './dom.js';
import {diffLines} from './diff.js';
import {empty, failed} from './ask.js';
import {params, spec} from './api.js';
import {query, setQuery} from './nav.js';
import {rerun} from './actions.js';

const AROUND = 3;

/* A path may be written in another way than its default. */
export const differs = (p) => p.from === 'given' && p.default !== undefined && String(p.value) !== String(p.default);

function paramTable(list, other) {
    return table('params', ['Parameter', 'Value', 'Default', 'From', other && `Run ${other.no}`].filter(Boolean), list.map((p) => {
        const theirs = other && other.list.find((o) => o.name === p.name);

        return h(differs(p) ? 'tr.differs' : 'tr', h('th', {scope: 'row'}, p.name, p.help && h('span.hint', p.help)),
            h('td.mono', p.secret ? '•••' : String(p.value ?? '')), h('td.mono.dim', String(p.default ?? '')),
            h('td.dim', p.from || ''),
            other && h(theirs && String(theirs.value) === String(p.value) ? 'td.mono.dim' : 'td.mono.other',
                theirs ? String(theirs.value) : '–'));
    }));
}

const linesOf = (doc) => String(doc.text || '').replace(/\n$/, '').split('\n');

function specLine(label, kind, line) {
    return h(`span.line${kind}`, h('span.lno', {'aria-hidden': 'true'}, label), `${line}\n`);
}

function specText(doc) {
    return h('pre.spec', {tabindex: '0'}, linesOf(doc).map((line, i) => specLine(String(i + 1), '', line)));
}

/* The diff from the other run's file to this one; equal lines further than AROUND from a change are left out. */
function specDiff(theirs, mine) {
    const all = diffLines(linesOf(theirs), linesOf(mine));
    const near = (i) => all.slice(Math.max(0, i - AROUND), i + AROUND + 1).some(([kind]) => kind !== ' ');
    const looks = {'-': ['−', '.removed'], '+': ['+', '.added'], ' ': ['', '']};

    if (all === null)
        return empty('They differ in too much to be shown beside each other');
    const shown = all.flatMap((line, i) => (near(i) ? [[...line, i]] : []));

    return shown.length === 0 ? empty('The file is the same')
        : h('pre.spec.diffed', {tabindex: '0'}, shown.map(([kind, line, i], n) => [n > 0 && shown[n - 1][2] < i - 1 && specLine('', '.gap', '⋯'),
            specLine(looks[kind][0], looks[kind][1], line)]));
}

/* context: {model, user} */
export function open(el, {model, user}) {
    const list = h('div'), text = h('div');
    const field = h('input', {type: 'search', inputmode: 'numeric', placeholder: 'run number', 'aria-label': 'Compare with run',
        value: query().get('with')});
    let mine = [], closed = false;

    /* The other run stands in the address. */
    async function compare() {
        const no = Number(field.value);

        setQuery({with: no || null});
        if (!no)
            return load();
        try {
            const [doc, theirs, own] = await Promise.all([params(no), spec(no), spec(model.no)]);

            if (closed)
                return undefined;
            fill(list, paramTable(mine, {no, list: doc.items}));
            return fill(text, h('h3', `What changed in the pipeline from run ${no} to run ${model.no}`), specDiff(theirs, own));
        } catch (problem) {
            return fill(list, failed(problem, compare));
        }
    }
    /* What was changed in the file since. */
    async function since() {
        try {
            const [own, now] = await Promise.all([spec(model.no), spec(model.no, 'now')]);

            fill(text, h('h3', `What changed in the file since run ${model.no}`), specDiff(own, now));
        } catch (problem) {
            fill(text, failed(problem, since));
        }
    }
    async function load() {
        try {
            mine = (await params(model.no)).items;
            if (!closed)
                fill(list, mine.length > 0 ? paramTable(mine, null) : empty('This pipeline has no parameters'));
        } catch (problem) {
            fill(list, failed(problem, load));
        }
        try {
            const doc = await spec(model.no);

            if (!closed)
                fill(text, h('h3', 'Pipeline as it was stored', h('span.dim', ` ${model.run.file || ''}`)), specText(doc));
        } catch (problem) {
            fill(text, failed(problem, load));
        }
    }
    field.addEventListener('change', compare);
    append(el, [h('div.bar-row', h('label.inline', 'Compare with ', field), h('button', {on: {click: since}}, 'or the file now'), h('span.grow'),
        user.may('operate') && h('button', {on: {click: () => rerun(model)}}, 'Run again with these …')), list, text]);
    load().then(() => closed || (field.value && compare()));
    return {close() {
        closed = true;
    }};
}
