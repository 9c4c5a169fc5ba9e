/*
 * The server's interface, /api/v1. The only module that knows its shapes: what others get from here
 * has the names of this file. Errors are Problem: status, message, doc (application/problem+json).
 */
import {learnNow} from './times.js';
import {unpack} from './columns.js';

const root = new URL('api/v1/', document.baseURI);
const ahead = window.flowrunAhead; /* path: [its answer, its document], of first.js; null: the page had it */
let onLogin = () => {};

class Problem extends Error {
    constructor(status, doc) {
        super(doc.detail || doc.title || `the server answered ${status}`);
        this.status = status;
        this.doc = doc;
    }
}

export function apiUrl(path) {
    return new URL(path, root).href;
}

export function onLoginNeeded(fn) {
    onLogin = fn;
}

export function loginNeeded() {
    onLogin();
}

function randomHex(bytes) {
    return [...crypto.getRandomValues(new Uint8Array(bytes))].map((b) => b.toString(16).padStart(2, '0')).join('');
}

async function request(path, options = {}) {
    let response;

    try {
        response = await (options.early || fetch(apiUrl(path), {cache: 'no-cache', ...options}));
    } catch (error) {
        if (error.name === 'AbortError')
            throw error;
        throw new Problem(0, {detail: 'flowrun does not answer'});
    }
    const date = Date.parse(response.headers.get('Date') || '');

    if (Number.isFinite(date) && Math.abs(date - Date.now()) > 5000)
        learnNow(date);
    if (response.ok)
        return response;
    const doc = await response.json().catch(() => ({}));

    if (response.status === 401)
        ahead.clear(); /* all of them were asked for by nobody */
    if (response.status === 401 && path !== 'login')
        onLogin();
    throw new Problem(response.status, doc);
}

export async function get(path) {
    const [early, doc] = ahead.get(path) || [];

    ahead.delete(path);
    if (early === null)
        return doc;
    const response = await request(path, {early});

    return doc || response.json();
}

/* A change. One key for one press of a button: a second send of it is the same action. */
async function send(method, path, body = {}, headers = {}) {
    const response = await request(path, {method, cache: 'no-store', body: JSON.stringify(body),
        headers: {'Content-Type': 'application/json', 'Idempotency-Key': randomHex(16), ...headers}});

    return response.status === 204 ? {} : response.json().catch(() => ({}));
}

const post = (path, body, headers) => send('POST', path, body, headers);

function queryText(values) {
    const q = new URLSearchParams();

    for (const [name, value] of Object.entries(values))
        if (value !== '' && value !== null && value !== undefined)
            q.set(name, value);
    return q.toString() ? `?${q}` : '';
}

/* ---- who I am ---- */

const roles = ['view', 'operate', 'admin'];

export async function me() {
    const doc = await get('me');

    return {name: doc.name || '', role: doc.role || 'view', may: (role) => roles.indexOf(doc.role) >= roles.indexOf(role)};
}

export const login = (token) => post('login', {token});
export const loginByCode = (code) => post('login', {code});
export const logout = () => post('logout', {});

/* ---- runs ---- */

function runOf(doc) {
    return {...doc, counts: doc.counts || null, started: doc.started_wall, ended: doc.ended_wall,
        queued: doc.queued_wall};
}

/* The reasons why queued runs wait, from the queue. */
async function withWhy(items) {
    if (items.some((one) => one.state === 'queued')) {
        const known = new Map((await queue()).items.map((one) => [one.no, one.why_waiting]));

        items.forEach((one) => { one.why = known.get(one.no); });
    }
    return items;
}

/* filters: state, pipeline, origin, schedule, since, until, q; next: of the page before. */
export async function runs(filters, next = '') {
    const doc = await get(next ? next.replace('/api/v1/', '') : `runs${queryText(filters)}`);

    return {items: await withWhy(doc.items.map(runOf)), next: doc.next || ''};
}

/* The run itself; its tasks follow from its instances. */
export async function run(no) {
    const [one] = await withWhy([runOf(await get(`runs/${no}?form=row`))]);

    return one;
}

/*
 * The plan's picture, where tasks that stand between the same ones are one box but for those of these numbers: {width, height, boxes: [{tasks, x, y, w}], edges: [{from, to, critical, points:
 * [[x, y], …]}], tasks: [{name, hook, gang, count, first, needs, critical, help}]}
 */
export async function graph(no, apart) {
    return graphOf(await get(`runs/${no}/graph${queryText({apart})}`));
}

export function graphOf(doc) {
    const pairs = (p) => Array.from({length: p.length / 2}, (_, i) => [p[2 * i], p[2 * i + 1]]);

    return {...doc, edges: doc.edges.map((e) => ({...e, points: pairs(e.points)}))};
}

/* All instances; what they are is unpacked by a call of what this gives. */
export async function instances(no) {
    const doc = await get(`runs/${no}/instances?form=columns`);

    return () => unpack(doc);
}

/* Of one instance, by its key: [[no, id], …], the newest last. */
export async function attempts(no, task) {
    const {items: [row]} = await get(`runs/${no}/instances${queryText({task})}`);

    return row.attempts || (row.attempt ? [[row.attempt_no, row.attempt]] : []);
}

export async function events(no, after = 0) {
    return get(`runs/${no}/events${queryText({after})}`);
}

export const asked = (no) => get(`runs/${no}/audit`);
export const outputs = (no) => get(`runs/${no}/outputs`);
export const params = (no) => get(`runs/${no}/params`);
export const spec = (no, form) => get(`runs/${no}/spec${queryText({form})}`);
export const artifacts = (no) => get(`runs/${no}/artifacts`);
export const artifactUrl = (no, hash) => apiUrl(`runs/${no}/artifacts/${hash}`);

export async function artifactText(no, hash) {
    return (await request(`runs/${no}/artifacts/${hash}`)).text();
}

/* x of a point; on the time axis, which comes as seconds of an attempt, the time of day in ms. */
function xOf(part, x, axis) {
    return axis === 'time' ? part.started_wall + 1000 * x : x;
}

/* Lines of one key and instance: the current points, all parts in order, and the replaced points. */
function linesOf(doc, axis) {
    const many = new Set(doc.parts.map((part) => part.instance)).size > 1;
    const whole = new Map(), lost = [];

    for (const one of doc.series) {
        const part = doc.parts[one.part], name = many ? `${one.key} ${part.instance}` : one.key;
        const points = one.x.map((x, i) => [xOf(part, x, axis), one.y[i] === null ? NaN : one.y[i]]);

        if (one.lost) {
            lost.push({key: one.key, name, lost: true, points});
            continue;
        }
        if (!whole.has(name))
            whole.set(name, {key: one.key, name, lost: false, points: []});
        whole.get(name).points.push(...points);
    }
    return [...lost, ...whole.values()].filter((line) => line.points.length > 0);
}

/* Where a later part of an instance begins. */
function restartsOf(doc, axis) {
    const seen = new Set(), out = [];

    doc.parts.forEach((part, i) => {
        const first = doc.series.find((one) => one.part === i && one.x.length > 0);

        if (seen.has(part.instance) && first)
            out.push(xOf(part, first.x[0], axis));
        seen.add(part.instance);
    });
    return out;
}

/*
 * Curves: {lines: [{key, name, lost, points: [[x, y]]}], restarts: [x], head: null or {step, total, loss, rate,
 * rate_median, eta_s, bad_since, checkpoint, checkpoint_age_s, wall: when all this was so}}. A value that is no finite
 * number is NaN; lost: replaced by a later attempt.
 */
export async function metrics(no, q) {
    const doc = await get(`runs/${no}/metrics${queryText(q)}`);

    return {lines: linesOf(doc, q.x), restarts: restartsOf(doc, q.x), head: doc.head};
}

/* Load of nodes over a time: [{title, lines: [{name, points}]}]; of nodes without samples nothing. */
export async function nodeSamples(names, from, to) {
    const sampled = (await get('nodes')).items.filter((n) => n.home && names.includes(n.name));
    const known = await Promise.all(sampled.map(async ({name}) => [name, await get(`nodes/${encodeURIComponent(name)}/samples${queryText({from, to})}`)]));
    const lines = (key, scale) => known.map(([name, doc]) => ({name, lost: false,
        points: doc.t.flatMap((t, i) => (doc[key][i] === null ? [] : [[t, doc[key][i] * scale]]))})).filter((line) => line.points.length > 0);

    return [['GPU, %', 'gpu', 100], ['GPU memory, GiB', 'gpu_memory', 2 ** -30], ['CPU, %', 'cpu', 100], ['memory, GiB', 'memory', 2 ** -30],
        ['received, MB/s', 'rx', 1e-6], ['sent, MB/s', 'tx', 1e-6]]
        .map(([title, key, scale]) => ({title, lines: lines(key, scale)})).filter((one) => one.lines.length > 0);
}

/* ---- logs ---- */

const logPath = (no, attempt) => `runs/${no}/attempts/${attempt}/log`;

export const logUrl = (no, attempt) => apiUrl(logPath(no, attempt));

/* How many bytes it has; a range of an empty log would be an error. */
export async function logSize(no, attempt) {
    const response = await request(logPath(no, attempt), {method: 'HEAD', cache: 'no-store'});

    return Number(response.headers.get('Content-Length') || 0);
}

/* Bytes from `from` on, at most what one answer has: {bytes, total}. from is below the log's size. */
export async function logRange(no, attempt, from) {
    const response = await request(logPath(no, attempt), {headers: {Range: `bytes=${from}-`}, cache: 'no-store'});
    const match = /bytes (\d+)-\d+\/(\d+)/.exec(response.headers.get('Content-Range') || '');

    return {bytes: new Uint8Array(await response.arrayBuffer()), total: match ? Number(match[2]) : 0};
}

export const logLines = (no, attempt, from, n) => get(`${logPath(no, attempt)}/lines${queryText({from, n})}`);
/* Of one attempt; '': of all the run, or of a task of it. */
export const logSearch = (no, attempt, q) => get(`${attempt ? logPath(no, attempt) : `runs/${no}/log`}/search${queryText(q)}`);
export const logTimes = (no, attempt, from, to) => get(`${logPath(no, attempt)}/times${queryText({from, to})}`);
/* Attempts of a task, or of the run, as one text by time; lines are "task@node | text". */
export const runLogUrl = (no, q) => apiUrl(`runs/${no}/log${queryText(q)}`);

export async function runLog(no, q) {
    return (await request(`runs/${no}/log${queryText(q)}`, {cache: 'no-store'})).text();
}

/* ---- actions on runs ---- */

export const submit = (body) => post('runs', body);
export const cancelRun = (no) => post(`runs/${no}/cancel`);
export const retryRun = (no, body) => post(`runs/${no}/retry`, body);
export const resumeRun = (no) => post(`runs/${no}/resume`);
export const rerunRun = (no, body) => post(`runs/${no}/rerun`, body);
export const pinRun = (no, pinned) => post(`runs/${no}/pin`, {pinned});
export const setPriority = (no, priority) => post(`runs/${no}/priority`, {priority});
export const removeRun = (no) => send('DELETE', `runs/${no}`);

/* ---- pipelines, schedules, nodes, the host ---- */

export const pipelines = () => get('pipelines');
export const pipeline = (name, apart) => get(`pipelines/${encodeURIComponent(name)}${queryText({apart})}`);
export const pastRuns = (name) => get(`pipelines/${encodeURIComponent(name)}/history`);
export const schedules = (pipeline) => get(`schedules${queryText({pipeline})}`);
export const fires = (id) => get(`schedules/${id}/fires`);
export const backfills = () => get('backfills');
export const makeBackfill = (body) => post('backfills', body);
export const backfill = (id, act) => post(`backfills/${id}/${act}`);
export const pauseSchedule = (s, body) => send('PUT', `schedules/${s.id}`, body, {'If-Match': s.etag});
export const runSchedule = (id) => post(`schedules/${id}/run`);
export const queue = () => get('queue');
export const pools = () => get('pools');
export const nodes = () => get('nodes');
export const drain = (name, body) => post(`nodes/${encodeURIComponent(name)}/${body ? 'drain' : 'undrain'}`, body);
export const host = () => get('host');
export const tokens = () => get('tokens');
export const addToken = (body) => post('tokens', body);
export const removeToken = (id) => send('DELETE', `tokens/${encodeURIComponent(id)}`);
export const audit = () => get('audit');
export const channels = () => get('channels');
export const deliveries = () => get('deliveries');
export const testChannel = (channel) => post('deliveries', {channel});
export const deliverAgain = (id) => post(`deliveries/${id}/again`);
