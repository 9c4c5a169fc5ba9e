/* Times and durations. The clock is the server's: its offset is learnt with each answer's time. */
import {h} from './dom.js';

const zones = ['browser', 'UTC'];
let offset_ms = 0;
let zone = localStorage.getItem('flowrun.zone') === 'UTC' ? 'UTC' : 'browser';

export function learnNow(server_ms) {
    if (Number.isFinite(server_ms))
        offset_ms = server_ms - Date.now();
}

export function now() {
    return Date.now() + offset_ms;
}

export function zoneName() {
    return zone === 'UTC' ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone;
}

export function switchZone() {
    zone = zones[(zones.indexOf(zone) + 1) % zones.length];
    localStorage.setItem('flowrun.zone', zone);
}

function pad(n, width = 2) {
    return String(n).padStart(width, '0');
}

function parts(ms) {
    const d = new Date(ms);

    return zone === 'UTC'
        ? [d.getUTCFullYear(), d.getUTCMonth() + 1, d.getUTCDate(), d.getUTCHours(), d.getUTCMinutes(),
            d.getUTCSeconds(), d.getUTCMilliseconds()]
        : [d.getFullYear(), d.getMonth() + 1, d.getDate(), d.getHours(), d.getMinutes(), d.getSeconds(),
            d.getMilliseconds()];
}

/* "2026-11-23 05:17:47" */
export function absolute(ms) {
    const [y, m, d, hour, min, s] = parts(ms);

    return `${y}-${pad(m)}-${pad(d)} ${pad(hour)}:${pad(min)}:${pad(s)}`;
}

/* "07:05" of minutes of the day */
export const minutes = (n) => `${pad(Math.floor(n / 60))}:${pad(n % 60)}`;

export function clockTime(ms, {millis = false} = {}) {
    const [, , , hour, min, s, f] = parts(ms);

    return `${pad(hour)}:${pad(min)}:${pad(s)}${millis ? `.${pad(f, 3)}` : ''}`;
}

/* When the day "2026-11-23", or one of the next, begins in the zone that is chosen; '': it is none. */
export function dayBegin(text, later = 0) {
    const day = Date.parse(text) + later * 86400e3;

    return Number.isFinite(day) ? Date.parse(`${new Date(day).toISOString().slice(0, 10)}T00:00${zone === 'UTC' ? 'Z' : ''}`) : '';
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

function dayAndTime(ms) {
    const [, m, d, hour, min] = parts(ms);

    return `${d} ${months[m - 1]} ${pad(hour)}:${pad(min)}`;
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

/* "now", "12s ago", "in 3h", "5 Nov" beyond a week */
function relative(ms) {
    const diff = now() - ms, abs = Math.abs(diff);
    const word = abs < 60e3 ? `${Math.floor(abs / 1000)}s` : abs < 3600e3 ? `${Math.floor(abs / 60e3)}m`
        : abs < 86400e3 ? `${Math.floor(abs / 3600e3)}h` : `${Math.floor(abs / 86400e3)}d`;

    if (abs < 1500)
        return 'now';
    if (abs > 7 * 86400e3)
        return dayAndTime(ms).replace(/ \d\d:\d\d$/, '');
    return diff > 0 ? `${word} ago` : `in ${word}`;
}

/* Elements that count: [element, text function]. They leave by themselves once out of the document. */
const ticking = new Map();

function tick() {
    for (const [el, text] of ticking)
        if (!el.isConnected && el.dataset.shown)
            ticking.delete(el);
        else if (el.isConnected) {
            el.dataset.shown = '1';
            const t = text();

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

function counting(el, text) {
    el.textContent = text();
    ticking.set(el, text);
    return el;
}

/* How long ago, with the time itself in the tooltip. */
export function ago(ms) {
    if (!ms)
        return h('span.none', '–');
    return counting(h('time', {datetime: new Date(ms).toISOString(), title: `${absolute(ms)} ${zoneName()}`}),
        () => relative(ms));
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
