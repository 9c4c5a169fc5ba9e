/* States of instances, tasks and runs: glyph, word and shape; colours stand in app.css by class. */
import {h} from './dom.js';

/* The rows of engine/words/states.h, put here by embed.py: name, letter where there are many, whether it failed by
 * itself, whether it is over. Of several instances the one that comes first shows. */
const table = STATES;

/* Glyph, and the look where it has another name. */
const looks = {
    stop_unproven: ['‼', 'unproven'], failed: ['✗'], timed_out: ['⏱', 'failed'], lost: ['?', 'failed'], retrying: ['↻'],
    stopping: ['◫'], running: ['▶'], starting: ['◔'], ready: ['○'], cancelled: ['■'], upstream_failed: ['–', 'skipped'],
    waiting: ['◌'], succeeded: ['✓'], skipped: ['–'], queued: ['○', 'ready'],
};

const states = [...table, ['queued']].map(([name], rank) => {
    const [glyph, look = name] = looks[name];

    return {name, glyph, word: name.replace('_', ' '), look, rank};
});

const byName = new Map(states.map((s) => [s.name, s]));
const unknown = {name: '', glyph: '·', word: 'unknown', look: 'waiting', rank: 99};

export const letters = Object.fromEntries(table.map(([name, letter]) => [letter, name]));

/* The order in which the parts of a bar stand. */
export const barOrder = ['succeeded', 'skipped', 'failed', 'timed_out', 'lost', 'stop_unproven', 'upstream_failed',
    'cancelled', 'stopping', 'running', 'starting', 'retrying', 'ready', 'waiting'];

const named = (rows) => new Set(rows.map(([name]) => name));

export const ended = named(table.filter((row) => row[3]));
export const live = new Set(['starting', 'running', 'stopping']);
export const failures = named(table.filter((row) => row[2]));

export function stateOf(name) {
    return byName.get(name) || unknown;
}

/* A run's state as one word: what it is, or how it ended. */
export function runState(run) {
    if (run.state === 'over')
        return stateOf(run.outcome || 'failed');
    if (run.state === 'cancelling')
        return {...stateOf('stopping'), word: 'cancelling'};
    if (run.state === 'hooks')
        return {...stateOf('running'), word: 'running hooks'};
    return stateOf(run.state);
}

export function isOver(run) {
    return run.state === 'over';
}

/* Glyph and word. */
export function badge(state, {word = true} = {}) {
    return h(`span.badge.st-${state.look}`, {title: word ? null : state.word},
        h('span.glyph', {'aria-hidden': 'true'}, state.glyph),
        h(word ? 'span.word' : 'span.unseen', state.word));
}

/* The worst state among counts {state: number}. */
export function worst(counts) {
    let out = unknown;

    for (const [name, n] of Object.entries(counts))
        if (n > 0 && stateOf(name).rank < out.rank)
            out = stateOf(name);
    return out;
}

export function sum(counts) {
    return Object.values(counts).reduce((a, b) => a + b, 0);
}

export function done(counts) {
    return Object.entries(counts).reduce((a, [name, n]) => a + (ended.has(name) ? n : 0), 0);
}

/* "3 running, 2 waiting" */
export function countWords(counts) {
    return barOrder.filter((name) => counts[name] > 0)
        .map((name) => `${counts[name]} ${stateOf(name).word}`).join(', ') || 'nothing';
}

/* Counts as one bar of parts; its sentence is its name for those who do not see it. */
export function countBar(counts) {
    const all = sum(counts);
    const bar = h('span.bar', {role: 'img', 'aria-label': countWords(counts), title: countWords(counts)});

    for (const name of barOrder)
        if (counts[name] > 0)
            bar.append(h(`span.part.st-${stateOf(name).look}`, {style: {'flex-grow': String(counts[name] / all)}}));
    return bar;
}
