/* Times and durations. The clock is the server's: its offset is learnt with each answer's time. */
import {h} from './dom.js';

const ZONE_MS = 500;
const zones = ['browser', 'UTC'];
let mine = ''; /* the browser's own zone, once it was asked for */
let offset_ms = 0;
let zone = Math.max(0, zones.indexOf(localStorage.getItem('flowrun.zone')));

export function learnNow(server_ms) {
    if (Number.isFinite(server_ms))
        offset_ms = server_ms - Date.now();
}

export function now() {
    return Date.now() + offset_ms;
}

/* Not while the page loads: the first use of Intl takes longer than all else that is done before it is painted. */
function zoneOfBrowser() {
    mine = mine || Intl.DateTimeFormat().resolvedOptions().timeZone;
    return mine;
}

/* The zone that is chosen. */
export const zoneName = () => (zone === 1 ? 'UTC' : zoneOfBrowser());

export function switchZone() {
    zone = (zone + 1) % zones.length;
    localStorage.setItem('flowrun.zone', zones[zone]);
}

/* Says in el which zone is chosen; at first once the page stands. */
export function showZone(el) {
    const say = () => {
        el.textContent = zoneName();
    };

    if (mine === '')
        setTimeout(() => zoneOfBrowser() && say(), ZONE_MS);
    else
        say();
}

function pad(n, width = 2) {
    return String(n).padStart(width, '0');
}

/* In the browser's zone, or in UTC: without Intl. */
function plain(d) {
    return zone === 1 ? d.toISOString().slice(0, 19).replace('T', ' ')
        : `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${[d.getHours(), d.getMinutes(), d.getSeconds()].map((n) => pad(n)).join(':')}`;
}

/* In the zone of that name; '': one that the browser does not know. */
export function inZone(ms, name) {
    try {
        return new Date(ms).toLocaleString('sv', {timeZone: name});
    } catch {
        return '';
    }
}

/* "2026-11-23 05:17:47" */
export const absolute = (ms) => (Number.isFinite(ms) ? plain(new Date(ms)) : '–');

/* "07:05" of minutes of the day */
export const minutes = (n) => `${pad(Math.floor(n / 60))}:${pad(n % 60)}`;

export const clockTime = (ms, {millis = false} = {}) => absolute(ms).slice(11) + (millis ? `.${pad(Math.floor(ms % 1000), 3)}` : '');

/* When the day "2026-11-23", or one of the next, begins in the zone that is chosen; '': it is none. */
export function dayBegin(text, later = 0) {
    const day = Date.parse(text) + later * 86400e3;

    return Number.isFinite(day) ? Date.parse(`${new Date(day).toISOString().slice(0, 10)}T00:00${zone === 1 ? 'Z' : ''}`) : '';
}

/* "850ms", "4.3s", "2m 05s", "3h 12m", "2d 4h" */
export function duration(ms) {
    const s = Math.max(0, ms) / 1000;

    if (s < 1)
        return `${Math.round(s * 1000)}ms`;
    if (s < 10)
        return `${s.toFixed(1)}s`;
    if (s < 60)
        return `${Math.floor(s)}s`;
    if (s < 3600)
        return `${Math.floor(s / 60)}m ${pad(Math.floor(s % 60))}s`;
    if (s < 86400)
        return `${Math.floor(s / 3600)}h ${pad(Math.floor(s / 60) % 60)}m`;
    return `${Math.floor(s / 86400)}d ${Math.floor(s / 3600) % 24}h`;
}

/* "now", "12s ago", "in 3h", "35d ago" */
function relative(ms) {
    const diff = now() - ms, abs = Math.abs(diff);
    const word = abs < 60e3 ? `${Math.floor(abs / 1000)}s` : abs < 3600e3 ? `${Math.floor(abs / 60e3)}m`
        : abs < 86400e3 ? `${Math.floor(abs / 3600e3)}h` : `${Math.floor(abs / 86400e3)}d`;

    if (abs < 1500)
        return 'now';
    return diff > 0 ? `${word} ago` : `in ${word}`;
}

/* Elements that count: [element, {its text, its title}]. They leave by themselves once out of the document. */
const ticking = new Map();

function tick() {
    for (const [el, one] of ticking)
        if (!el.isConnected && el.dataset.shown)
            ticking.delete(el);
        else if (el.isConnected) {
            const t = one.text();

            el.dataset.shown = '1';
            if (mine !== '' && one.title !== null) {
                el.title = one.title();
                one.title = null; /* it stays */
            }
            if (el.textContent !== t)
                el.textContent = t;
        }
}

export function startTicking() {
    setInterval(() => {
        if (!document.hidden)
            tick();
    }, 1000);
    document.addEventListener('visibilitychange', tick);
}

function counting(el, text, title = null) {
    el.textContent = text();
    ticking.set(el, {text, title});
    return el;
}

/* How long ago, with the time itself in the tooltip once the zone is known. */
export function ago(ms) {
    if (!ms)
        return h('span.none', '–');
    return counting(h('time', {datetime: new Date(ms).toISOString()}), () => relative(ms), () => `${absolute(ms)} ${zoneName()}`);
}

/* A duration that goes on until end is there. */
export function lasting(start, end) {
    if (!start)
        return h('span.none', '–');
    if (end)
        return h('span.num', duration(end - start));
    return counting(h('span.num'), () => duration(now() - start));
}

/* The time of day, in the zone that is chosen. */
export function clock() {
    return counting(h('span.num'), () => clockTime(now()));
}
