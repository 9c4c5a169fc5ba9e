/* A user's actions on a run. Each shows its effect and asks once before it acts. */
import {append, h} from './dom.js';
import {ask, menu, say} from './ask.js';
import {count} from './words.js';
import {cancelRun, params, pinRun, removeRun, rerunRun, resumeRun, retryRun} from './api.js';
import {duration, now} from './times.js';
import {failures} from './states.js';
import {go} from './nav.js';
import {paramFields, valuesOf} from './paramform.js';

/* What a stop costs: "Stops 3 tasks on 3 nodes. train@n1 has run 4h 02m." */
function stopLines(model) {
    const on = model.liveOnes(), {inst} = model;
    const nodes = new Set(on.map((i) => inst.node[i]));
    const longest = on.reduce((a, i) => (a < 0 || inst.started_wall[i] < inst.started_wall[a] ? i : a), -1);
    const waiting = inst.state.filter((s) => ['waiting', 'ready', 'retrying'].includes(s)).length;
    const lines = [];

    if (on.length > 0)
        lines.push(`Stops ${count(on.length, 'task')} on ${count(nodes.size, 'node')}.`
            + ` ${model.keyOf(longest)} has run ${duration(now() - inst.started_wall[longest])}.`);
    else
        lines.push('No task runs now.');
    if (waiting > 0)
        lines.push(`${count(waiting, 'task')} that ${waiting === 1 ? 'has' : 'have'} not begun will not start.`);
    return lines;
}

function cancel(model) {
    return ask({title: `Cancel run ${model.no}`, lines: stopLines(model), yes: 'Cancel the run', danger: true,
        act: () => cancelRun(model.no)});
}

/* Tasks that a retry of what failed makes again. */
function failedTasks(model) {
    return [...model.tasks.values()].filter((t) => Object.entries(t.counts)
        .some(([state, n]) => n > 0 && (failures.has(state) || state === 'cancelled' || state === 'upstream_failed')));
}

function named(tasks) {
    const names = tasks.slice(0, 6).map((t) => t.name).join(', ');

    return tasks.length > 6 ? `${names} and ${tasks.length - 6} more` : names;
}

async function retryFailed(model) {
    const tasks = failedTasks(model);
    const done = await ask({title: `Retry what failed in run ${model.no}`,
        lines: [`Starts ${count(tasks.length, 'task')} again: ${named(tasks)}.`, 'What succeeded stays as it is.'],
        yes: 'Retry', act: () => retryRun(model.no, {failed: true})});

    if (done !== undefined)
        say(`Run ${model.no} goes on`);
}

/* The task and all that wait for it, by the graph where it is known. */
function behind(graph, name) {
    const at = graph.tasks.findIndex((t) => t.name === name);
    const marks = new Set([at]);

    for (let grown = true; grown;) {
        grown = false;
        graph.tasks.forEach((t, i) => {
            if (!marks.has(i) && !t.hook && t.needs.some((n) => marks.has(n))) {
                marks.add(i);
                grown = true;
            }
        });
    }
    return [...marks].filter((i) => i >= 0).map((i) => graph.tasks[i]);
}

export function retryFrom(model, graph, preset = '') {
    const names = [...model.tasks.keys()];
    const select = h('select', {name: 'from'}, names.map((n) => h('option', {value: n}, n)));
    const what = h('p.dim');
    const tell = () => {
        const tasks = graph ? behind(graph, select.value) : [];

        what.textContent = tasks.length > 1
            ? `Repeats ${count(tasks.length, 'task')}: ${named(tasks)}.` : `Repeats ${select.value} and what needs it.`;
    };

    select.value = preset || names[0];
    select.addEventListener('change', tell);
    tell();
    return ask({title: `Retry run ${model.no} from a task`, content: [h('label', 'From', select), what],
        yes: 'Retry', act: () => retryRun(model.no, {from: select.value})});
}

/* The same pipeline and files as a new run; its parameters may differ. */
export async function rerun(model) {
    const had = await params(model.no).catch(() => ({items: []}));
    const fields = paramFields(had.items || []);
    const made = await ask({title: `Run ${model.run.pipeline} again`,
        lines: [`Makes a new run with the pipeline and the small files that run ${model.no} kept.`], content: fields,
        yes: 'Start', act: (form) => rerunRun(model.no, {params: valuesOf(form)})});

    if (made !== undefined) {
        say(`Run ${made.no} was made`);
        go(`runs/${made.no}`);
    }
}

async function remove(model) {
    const done = await ask({title: `Remove run ${model.no}`, lines: ['Its rows, logs and files go. This cannot be undone.'],
        yes: 'Remove', danger: true, act: () => removeRun(model.no)});

    if (done !== undefined)
        go('runs');
}

function resume(model) {
    return ask({title: `Resume run ${model.no}`, lines: ['This host drives it on: what goes on is attached to, what waits is started.'],
        yes: 'Resume', act: () => resumeRun(model.no)});
}

async function pin(model) {
    const to = !model.run.pinned;

    await pinRun(model.no, to).catch((p) => say(p.message, 'error'));
    model.reloadRun();
    say(to ? `Run ${model.no} is kept` : `Run ${model.no} may be removed by age`);
}

/* The buttons of the run as it is now, and those that I may press. */
export function actionButtons(model, {user, graph}) {
    const box = h('span.actions'), {run} = model;
    const may = user.may('operate');
    const over = model.over(), bad = over && run.outcome !== 'succeeded';

    if (!may)
        return box;
    append(box, [
        !over && run.state !== 'cancelling' && h('button.danger', {on: {click: () => cancel(model)}}, 'Cancel'),
        !over && run.driven === false && run.state !== 'queued'
            && h('button.primary', {on: {click: () => resume(model)}}, 'Resume'),
        bad && failedTasks(model).length > 0 && h('button.primary', {on: {click: () => retryFailed(model)}}, 'Retry failed'),
        menu('Actions ▾', [
            ['Run again …', () => rerun(model)],
            ['Retry from a task …', () => retryFrom(model, graph()), over ? '' : 'The run is not over yet'],
            [run.pinned ? 'Let it go by age' : 'Keep this run', () => pin(model)],
            user.may('admin') && ['Remove …', () => remove(model), over ? '' : 'The run is not over yet'],
        ].filter(Boolean)),
    ]);
    return box;
}
