/*
 * Live news: one stream of server-sent events a browser. Web Locks elects the tab that reads it, a
 * BroadcastChannel hands its events to the others. Where a page may not lock (plain HTTP on an
 * address of a network), each tab reads its own.
 *
 * It is read with fetch, not EventSource: then the comments that keep it alive are seen too. A stream
 * that is silent for 40 s is opened anew. While there is none (a proxy refuses it, holds it back, cuts
 * it off) and the host answers all the same, subscribers load again every 5 s.
 */
import {apiUrl, loginNeeded} from './api.js';
import {learnNow, now} from './times.js';

const SILENT_MS = 40000, HIDDEN_MS = 300000, POLL_MS = 5000, WAIT_MOST_MS = 30000;
const tab = Math.random().toString(36).slice(2);
const name = `flowrun ${new URL(document.baseURI).pathname}`;
const channel = new BroadcastChannel(name);
const subscribers = new Set();
const others = new Map(); /* tab: what it wants; kept by the tab that leads */
const watchers = new Set();
let leading = false, standing = false, lastId = '', suspended = false, failures = 0;
let status = {kind: 'connecting', since: now()};
let abort = null, retryTimer = 0, pollTimer = 0, reopenTimer = 0, release = null, openUrl = '';

/* ---- the state of the stream ---- */

function setStatus(kind, hand = true) {
    if (status.kind !== kind)
        status = {kind, since: now()};
    for (const fn of watchers)
        fn(status);
    if (hand && leading)
        channel.postMessage({kind: 'status', status});
}

/* Calls fn({kind: live | connecting | stale | polling, since}) now and at each change. */
export function watchStatus(fn) {
    watchers.add(fn);
    fn(status);
}

/* ---- subscribers ---- */

function wanted() {
    const runs = new Set(), topics = new Set();

    for (const s of suspended ? [] : subscribers) {
        s.runs.forEach((r) => runs.add(r));
        s.topics.forEach((t) => topics.add(t));
    }
    return {runs: [...runs], topics: [...topics]};
}

function sayWanted() {
    channel.postMessage({kind: 'want', tab, ...wanted()});
    reopenSoon();
}

function deliver(event, data) {
    for (const s of [...subscribers])
        s.fn(event, data);
}

/* Calls fn(event, data) for each event; "reset": load everything again, "hello": later events are new. */
export function subscribe({runs = [], topics = []}, fn) {
    const s = {runs: runs.map(Number), topics, fn};

    subscribers.add(s);
    sayWanted();
    return () => {
        subscribers.delete(s);
        sayWanted();
    };
}

/* ---- reading, by the tab that leads ---- */

function streamUrl() {
    const all = [wanted(), ...others.values()];
    const runs = [...new Set(all.flatMap((w) => w.runs))].sort((a, b) => a - b).slice(-64);
    const topics = [...new Set(all.flatMap((w) => w.topics))].sort();

    if (runs.length === 0 && topics.length === 0)
        return '';
    return `${apiUrl('stream')}?runs=${runs.join(',')}&topics=${topics.join(',')}`;
}

function hand(event, data) {
    channel.postMessage({kind: 'event', event, data, lastId});
    deliver(event, data);
}

function takeEvent(lines) {
    let event = 'message', data = '';

    for (const line of lines) {
        const colon = line.indexOf(':'), field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');

        if (field === 'event')
            event = value;
        else if (field === 'data')
            data += (data ? '\n' : '') + value;
        else if (field === 'id')
            lastId = value;
    }
    if (data === '')
        return;
    const doc = JSON.parse(data);

    if (event === 'hello')
        learnNow(doc.now_ms);
    hand(event, doc);
}

/* Cuts whole events off the front of text and takes them; returns the rest. */
function takeEvents(text) {
    const events = text.split(/\r?\n\r?\n/);
    const rest = events.pop();

    for (const one of events)
        takeEvent(one.split(/\r?\n/).filter((line) => line !== '' && !line.startsWith(':')));
    return rest;
}

async function readAll(response, alive) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';

    for (;;) {
        const {value, done} = await reader.read();

        if (done)
            return;
        alive();
        text = takeEvents(text + value);
    }
}

/* One connection, from its request to its end. */
async function readOnce(url, control) {
    let timer = 0;
    const watch = () => {
        clearTimeout(timer);
        timer = setTimeout(() => control.abort(), SILENT_MS);
    };

    watch();
    try {
        const response = await fetch(url, {headers: lastId ? {'Last-Event-ID': lastId} : {}, cache: 'no-store',
            signal: control.signal});
        const type = response.headers.get('Content-Type') || '';

        if (response.status === 401)
            loginNeeded();
        if (response.ok && type.startsWith('text/event-stream'))
            await readAll(response, () => {
                watch();
                failures = 0;
                setStatus('live');
            });
    } catch (error) {
        if (error.name !== 'AbortError' && !(error instanceof TypeError))
            throw error;
    } finally {
        clearTimeout(timer);
    }
}

async function read() {
    const url = streamUrl();

    openUrl = url;
    clearTimeout(retryTimer);
    if (abort !== null)
        abort.abort();
    if (!leading || url === '')
        return;
    const control = abort = new AbortController();

    await readOnce(url, control);
    if (abort !== control || !leading)
        return; /* another one took its place */
    abort = null;
    if (status.kind !== 'polling')
        setStatus('stale');
    pollTimer = pollTimer || setInterval(poll, POLL_MS);
    const wait = Math.min(WAIT_MOST_MS, 1000 * 2 ** failures++) * (0.8 + 0.4 * Math.random());

    retryTimer = setTimeout(read, wait);
}

/* Loads again only when the host answers; the page stays as it is while the host is away. */
async function poll() {
    const {ok} = status.kind === 'live' ? {} : await fetch(apiUrl('health'), {cache: 'no-store'}).catch(() => ({}));

    if (status.kind === 'live' || !leading) {
        clearInterval(pollTimer);
        pollTimer = 0;
    } else {
        setStatus(ok ? 'polling' : 'stale');
        if (ok)
            hand('reset', {});
    }
}

/* What is wanted may have changed; moves within a moment count as one. */
function reopenSoon() {
    clearTimeout(reopenTimer);
    if (!leading)
        return;
    reopenTimer = setTimeout(() => {
        if (streamUrl() !== openUrl)
            read();
    }, 30);
}

/* Tries at once what would be tried later: the user asked, or a machine woke up. */
export function reconnect() {
    failures = 0;
    if (leading && abort === null)
        read();
}

/* ---- who reads ---- */

function lead() {
    leading = true;
    others.clear();
    channel.postMessage({kind: 'who'});
    reopenSoon();
    return new Promise((resolve) => {
        release = resolve;
    });
}

function leave() {
    if (leading)
        standing = false; /* who waits for its turn goes on waiting */
    leading = false;
    clearTimeout(retryTimer);
    if (abort !== null)
        abort.abort();
    abort = null;
    openUrl = '';
    if (release !== null)
        release();
    release = null;
}

function stand() {
    if (standing)
        return;
    standing = true;
    if (navigator.locks !== undefined)
        navigator.locks.request(name, lead);
    else
        lead();
}

function onMessage({data}) {
    if (data.kind === 'want') {
        others.set(data.tab, data);
        reopenSoon();
    } else if (data.kind === 'leave') {
        others.delete(data.tab);
        reopenSoon();
    } else if (data.kind === 'who') {
        sayWanted();
    } else if (data.kind === 'status' && !leading) {
        status = data.status;
        setStatus(status.kind, false);
    } else if (data.kind === 'event' && !leading && navigator.locks !== undefined) {
        lastId = data.lastId;
        deliver(data.event, data.data);
    }
}

/* A tab that nobody looks at for minutes wants nothing; who comes back looks at everything again. */
function onVisibility() {
    clearTimeout(onVisibility.timer);
    if (document.hidden) {
        onVisibility.timer = setTimeout(() => {
            suspended = true;
            channel.postMessage({kind: 'leave', tab});
            leave();
        }, HIDDEN_MS);
    } else if (suspended) {
        suspended = false;
        stand();
        sayWanted();
        deliver('reset', {});
    } else {
        reconnect();
    }
}

export function startStream() {
    channel.addEventListener('message', onMessage);
    document.addEventListener('visibilitychange', onVisibility);
    window.addEventListener('online', reconnect);
    window.addEventListener('pagehide', () => channel.postMessage({kind: 'leave', tab}));
    stand();
}
