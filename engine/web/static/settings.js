/* Who may do what, the host's health, what was asked of it. */
import {addToken, audit, host, removeToken, tokens} from './api.js';
import {ago, absolute, duration} from './times.js';
import {ask, empty, failed, openDialog} from './ask.js';
import {fill, h, table} from './dom.js';
import {messages} from './deliveries.js';
import {setTitle} from './nav.js';

/* ---- tokens ---- */

async function add(done) {
    const name = h('input', {name: 'name', required: true, maxlength: '64', pattern: '[A-Za-z0-9._\\-]+', autocomplete: 'off'});
    const role = h('select', {name: 'role'}, [['view', 'view: sees all but secrets'], ['operate', 'operate: starts and stops runs'],
        ['admin', 'admin: also tokens, nodes, removal']].map(([value, word]) => h('option', {value}, word)));
    const days = h('input', {name: 'days', type: 'number', min: '1', max: '3650', value: '90'});
    const made = await ask({title: 'New token', content: [h('label', 'Name', name), h('label', 'Role', role), h('label', 'Days', days)],
        yes: 'Make it', act: () => addToken({name: name.value, role: role.value, days: Number(days.value)})});

    if (made === undefined)
        return;
    openDialog(`Token of ${made.name}`, [h('p', 'It is shown once. Only its hash is kept.'), h('code.secret', {tabindex: '0'}, made.token)]);
    done();
}

function drop(t, done) {
    return ask({title: `Remove the token of ${t.name}`, lines: ['Whoever uses it is logged out at once.'], yes: 'Remove', danger: true,
        act: () => removeToken(t.name)}).then(done);
}

function tokenTable(items, done) {
    return table('', ['Name', 'Role', 'Ends', 'Last use', ''], items.map((t) => h('tr', h('th', {scope: 'row'}, t.name), h('td', t.role), h('td', {title: absolute(t.ends_wall)}, ago(t.ends_wall)),
            h('td', t.used_wall ? ago(t.used_wall) : h('span.dim', 'never')),
            h('td', h('button.danger', {on: {click: () => drop(t, done)}}, 'Remove …')))));
}

async function tokenBlock(done) {
    const {items} = await tokens();

    return [h('p', h('button', {on: {click: () => add(done)}}, 'New token …')),
        items.length > 0 ? tokenTable(items, done) : empty('No tokens', h('p', 'A token lets a browser or a program in.'))];
}

/* ---- the host, the audit ---- */

function facts(pairs) {
    return h('dl.facts', pairs.filter(([, value]) => value !== undefined && value !== '').map(([name, value]) => [h('dt', name), h('dd.num', value)]));
}

async function hostBlock() {
    const doc = await host();

    return facts([['Version', `${doc.version}, licence Apache-2.0`], ['Hosts so far', String(doc.epoch)], ['Runs it drives', String(doc.runs)],
        ['Turns of its loop', doc.turns.toLocaleString()], ['Over 100 ms', String(doc.slow_turns)],
        ['Longest', `${duration(doc.longest_ms)}${doc.held_by && `, held by ${doc.held_by}`}`]]);
}

async function auditBlock() {
    const {items} = await audit();

    return items.length === 0 ? empty('Nothing was asked yet') : table('', null,
        items.slice(0, 50).map((a) => h('tr', h('td', ago(a.wall)), h('td', a.who), h('td.dim', a.address || 'socket'),
            h('td.mono.wide', a.what === 'asked' || !a.what ? a.name : `${a.what} ${a.name}`), h('td.num', String(a.outcome ?? '')))));
}

/* A part of the page; load(again) gives what stands below its title. */
function part(title, load) {
    const el = h('section.block');
    const show = async () => {
        try {
            const content = await load(show);

            fill(el, h('h2', title), content);
        } catch (problem) {
            fill(el, h('h2', title), failed(problem, show));
        }
    };

    return [el, show()];
}

export async function open(main, {user}) {
    const parts = [['Host', hostBlock]].concat(user.may('admin') ? [['Tokens', tokenBlock], ['Messages', messages], ['Who asked for what', auditBlock]] : [])
        .map(([title, load]) => part(title, load));

    setTitle('Settings');
    fill(main, h('div.head', h('h1', 'Settings')), h('div.columns', h('section', h('h2', 'You'), facts([['Name', user.name], ['Role', user.role]])), parts[0][0]),
        parts.slice(1).map(([el]) => el));
    await Promise.all(parts.map(([, shown]) => shown));
    return {};
}
