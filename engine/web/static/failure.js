/* The failure that came first: who, where, why, and the end of its output. */
import {ansiLine, ERRORS} from './ansi.js';
import {append, fill, h} from './dom.js';
import {ago} from './times.js';
import {badge, stateOf} from './states.js';
import {attempts, logRange, logSize} from './api.js';
import {logPage} from './nav.js';

const TAIL_BYTES = 8192, TAIL_LINES = 20;

/* {cause: its meaning}, of engine/words/causes.h, put into the shell by embed.py. */
const meanings = JSON.parse(document.getElementById('causes').text);

/* "exit code 1", "signal 9", "oom" */
export function causeWords(cause, code) {
    if (cause === 'exit')
        return `exit code ${code}`;
    if (cause === 'signal')
        return `signal ${code}`;
    return (cause || '').replaceAll('_', ' ');
}

/* As the title of an element; null: there is none. */
export function causeMeaning(cause) {
    return meanings[cause] || null;
}

/* The last lines, {text, offset}, of bytes that begin at from. */
function tailLines(bytes, from) {
    const out = [], decoder = new TextDecoder();

    for (let at = from === 0 ? 0 : bytes.indexOf(10) + 1, end; at < bytes.length; at = end + 1) {
        end = bytes.indexOf(10, at) < 0 ? bytes.length : bytes.indexOf(10, at);
        out.push({text: decoder.decode(bytes.subarray(at, end)).slice(0, 2000), offset: from + at});
    }
    return out.slice(-TAIL_LINES);
}

/* Shows it in el as soon as model has one; returns what ends that. */
export function openFailure(el, model) {
    let shown = '';

    async function draw() {
        const i = model.firstFailure();
        const sign = i < 0 ? '' : `${i} ${model.inst.attempt_no[i]} ${model.inst.state[i]}`;

        if (sign === shown)
            return;
        shown = sign;
        el.hidden = i < 0;
        if (i < 0)
            return;
        const {inst} = model, key = model.keyOf(i), list = await attempts(model.no, key);
        const log = h('div.tail'), to = logPage(model.no, key);

        fill(el, h('h2', badge(stateOf(inst.state[i])), ' ', h('a', {href: to}, inst.task[i]), h('span.dim', ' on '),
            inst.node[i], h('span.cause', {title: causeMeaning(inst.cause[i])}, causeWords(inst.cause[i], inst.code[i])),
            inst.attempt_no[i] > 1 && h('span.dim', ` attempt ${inst.attempt_no[i]}`), h('span.grow'),
            h('span.dim', ago(inst.ended_wall[i]))),
        inst.reason[i] && inst.reason[i] !== causeWords(inst.cause[i], inst.code[i]) && h('p.why', inst.reason[i]), log);
        if (list.length > 0)
            await drawTail(log, model, list.at(-1)[1], to);
    }
    const stop = model.listen((changed) => {
        if (changed.whole || changed.run || changed.tasks.size > 0)
            draw();
    });

    draw();
    return stop;
}

async function drawTail(el, model, attempt, to) {
    try {
        const total = await logSize(model.no, attempt), from = Math.max(0, total - TAIL_BYTES);

        if (total === 0)
            return;
        const {bytes} = await logRange(model.no, attempt, from), lines = tailLines(bytes, from);
        const error = lines.find(({text}) => ERRORS.test(text));

        fill(el, h('pre', {tabindex: '0'}, lines.map(({text}) => [ansiLine(text), '\n'])));
        append(el, [h('a.more', {href: error ? `${to}#B${error.offset}` : `${to}&end=1`}, from > 0 ? 'All of its output' : 'Open in Logs')]);
        el.firstChild.scrollTop = el.firstChild.scrollHeight;
    } catch (problem) {
        fill(el, h('p.dim', problem.message));
    }
}
