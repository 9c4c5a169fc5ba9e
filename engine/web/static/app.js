/* The shell: the bar on top, which page is shown, the theme, keys that hold everywhere. */
import {append, fill, forgetColours, h, kept, painted} from './dom.js';
import {bindKeys, moveFocus, showKeys, startKeys} from './keys.js';
import {failed, menu, say} from './ask.js';
import {clock, clockTime, showZone, startTicking, switchZone} from './times.js';
import {go, onGo, path, query, startNav} from './nav.js';
import {login, loginByCode, logout, me, onLoginNeeded} from './api.js';
import {reconnect, startStream, subscribe, watchStatus} from './stream.js';
import {startTips} from './tip.js';

/* [path, name, its module, key of the bar] */
const pages = [
    [/^(?:runs)?$/, 'runs', kept(() => import('./runs.js')), 'runs'],
    [/^runs\/([^/]+)$/, 'run', kept(() => import('./run.js')), 'runs'],
    [/^pipelines$/, 'pipelines', kept(() => import('./pipelines.js')), 'pipelines'],
    [/^pipelines\/([^/]+)$/, 'pipeline', kept(() => import('./pipeline.js')), 'pipelines'],
    [/^schedules$/, 'schedules', kept(() => import('./schedules.js')), 'schedules'],
    [/^queue$/, 'queue', kept(() => import('./queue.js')), 'queue'],
    [/^nodes$/, 'nodes', kept(() => import('./nodes.js')), 'nodes'],
    [/^settings$/, 'settings', kept(() => import('./settings.js')), 'settings'],
];
const bar = [['runs', 'Runs', 'r'], ['pipelines', 'Pipelines', 'p'], ['schedules', 'Schedules', 's'],
    ['queue', 'Queue', 'q'], ['nodes', 'Nodes', 'n'], ['settings', 'Settings', ',']];
const main = document.getElementById('main');
let page = null, shown = 0, user = null;

/* ---- the bar ---- */

function liveMark() {
    const mark = h('button.plain.live', {on: {click: reconnect}}, h('span.dot'), h('span.word'));

    watchStatus((status) => {
        const since = clockTime(status.since);

        mark.dataset.kind = status.kind;
        mark.lastChild.textContent = status.kind === 'stale' ? `stale since ${since}` : status.kind;
        mark.title = status.kind === 'live' ? 'What you see is what happens now' : status.kind === 'polling' ? 'No stream of news comes through; asked every 5 s'
            : `No news from flowrun since ${since}; press to try now`;
    });
    return mark;
}

function zoneSwitch() {
    const zone = h('span.zone');

    showZone(zone);
    return h('button.plain.clock', {title: 'Times in your zone or in UTC', on: {click: () => {
        switchZone();
        showZone(zone);
        show();
    }}}, clock(), ' ', zone);
}

const themes = [['', '◐', 'as the system'], ['light', '☀', 'light'], ['dark', '☾', 'dark']];

function themeSwitch() {
    const stored = () => localStorage.getItem('flowrun.theme') || '';
    const now = () => themes.find(([name]) => name === stored());
    const button = h('button.plain.icon', {on: {click: () => {
        const next = themes[(themes.indexOf(now()) + 1) % themes.length][0];

        localStorage.setItem('flowrun.theme', next);
        document.documentElement.dataset.theme = next;
        draw();
        themeChanged();
    }}});
    const draw = () => {
        button.textContent = now()[1];
        button.title = `Colours: ${now()[2]}`;
        button.setAttribute('aria-label', button.title);
    };

    draw();
    return button;
}

function themeChanged() {
    forgetColours();
    window.dispatchEvent(new Event('flowrun-theme'));
}

function userMenu() {
    if (user === null || user.name === '')
        return null;
    return menu(`${user.name} ▾`, [['Log out', async () => {
        await logout();
        location.assign(document.baseURI);
    }]]);
}

function drawBar(current) {
    fill(document.getElementById('top'),
        h('a.mark', {href: 'runs'}, h('span.logo', {'aria-hidden': 'true'}), 'flowrun'),
        h('nav', {'aria-label': 'Pages'}, bar.map(([to, word]) => h('a', {href: to,
            'aria-current': to === current ? 'page' : null}, word))),
        h('span.end', parts.live, parts.zone, parts.theme, userMenu(),
            h('button.plain.icon', {'aria-label': 'Keyboard', title: 'Keyboard (?)', on: {click: showKeys}}, '?')));
}

let parts = {};

/* ---- pages ---- */

function find() {
    for (const [pattern, name, load, current] of pages) {
        const match = pattern.exec(path());

        if (match !== null)
            return {name, load, current, args: match.slice(1)};
    }
    return null;
}

const allRuns = () => h('a', {href: 'runs'}, 'All runs');

/* The page of the address: a page that is shown and has update() may take a change of the query. */
async function show() {
    const found = find(), turn = ++shown;

    page?.close?.();
    page = null;
    drawBar(found ? found.current : '');
    if (found === null) {
        fill(main, h('div.empty', h('p.lead', 'There is no such page'), allRuns()));
        return;
    }
    try {
        const module = await found.load();

        if (turn !== shown)
            return;
        main.className = `${found.name}-page`;
        page = await module.open(main, {args: found.args, query: query(), user});
        if (turn !== shown && page.close)
            page.close();
        else if (turn > 1 && document.activeElement === document.body)
            main.focus({preventScroll: true}); /* Tab continues in the opened page */
    } catch (problem) {
        if (turn === shown)
            fill(main, problem.status === 404 ? append(failed(problem), [allRuns()]) : failed(problem, show));
        if (problem.status === undefined)
            throw problem;
    }
}

/* ---- login ---- */

function showLogin() {
    const field = h('input', {type: 'password', name: 'token', autocomplete: 'current-password', required: true,
        placeholder: 'frt_…'});
    const error = h('p.error', {role: 'alert', hidden: true});
    const form = h('form.login', h('span.logo.large', {'aria-hidden': 'true'}), h('h1', 'flowrun'),
        h('label', 'Token', field), error, h('button.primary', {type: 'submit'}, 'Log in'),
        h('p.hint', h('code', 'flowrun token new NAME --role operate'), ' makes a token, ',
            h('code', 'flowrun web'), ' opens this page logged in.'));

    if (document.body.classList.contains('outside'))
        return;
    shown++;
    page?.close?.();
    page = null;
    document.body.classList.add('outside');
    fill(main, form);
    field.focus();
    form.addEventListener('submit', async (event) => {
        event.preventDefault();
        try {
            await login(field.value.trim());
            await begin();
        } catch (problem) {
            error.hidden = false;
            error.textContent = problem.status === 401 ? 'This token is not known, or its time is over.' : problem.message;
        }
    });
}

/* The one-time code of "flowrun web" stands in the fragment, which no server and no log sees. */
async function takeCode() {
    const match = /^#login=([\w-]+)$/.exec(location.hash);

    if (match === null)
        return;
    history.replaceState(null, '', location.pathname + location.search);
    await loginByCode(match[1]).catch((problem) => say(problem.message, 'error'));
}

async function begin() {
    find()?.load(); /* while the server identifies the caller */
    user = await me();
    document.body.classList.remove('outside');
    if (!begin.started) {
        startStream();
        subscribe({topics: ['list']}, () => {}); /* each page has the stream, so that its mark is true */
    }
    begin.started = true;
    parts = {live: liveMark(), zone: zoneSwitch(), theme: themeSwitch()};
    await show();
}

/* ---- everywhere ---- */

function focusFind() {
    const field = main.querySelector('[data-find]');

    if (field === null)
        return false;
    field.focus();
    field.select();
    return true;
}

function openActions() {
    const button = main.querySelector('.menubox button');

    if (button !== null)
        button.click();
}

function bindEverywhere() {
    const to = Object.fromEntries(bar.map(([name, word, key]) => [`g ${key}`, [word, () => go(name)]]));

    bindKeys('Everywhere', {...to,
        '?': ['these keys', showKeys],
        '/': ['find', focusFind],
        '.': ['actions', openActions],
        j: ['next row', () => moveFocus(main, 1)],
        k: ['row before', () => moveFocus(main, -1)]});
    document.addEventListener('keydown', (event) => {
        if (event.key === 'Escape' && event.target.matches('[data-find]'))
            event.target.blur();
    });
}

async function start() {
    if (main.firstChild !== null)
        await painted(); /* what the page begins with */
    startNav();
    startKeys();
    startTicking();
    startTips();
    bindEverywhere();
    onGo(show);
    onLoginNeeded(showLogin);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', themeChanged);
    await takeCode();
    try {
        await begin();
    } catch (problem) {
        if (problem.status !== 401)
            fill(main, failed(problem, () => location.reload()));
    }
}

start();
