/* Output of programs as elements: SGR colours and weights (ECMA-48), all other escapes are dropped. */
import {h} from './dom.js';

const ESCAPES = /\x1b(?:\[([\d;:]*)([\x20-\x2f]*[\x40-\x7e])|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x20-\x2f]*[\x30-\x7e])|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]/g;
/* Marks that turn the direction of text: shown, so that a line cannot be read as another one. */
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/* Words that mark a line as an error. */
export const ERRORS = /Traceback|\b[Ee]rror\b[:!]|ERROR|FAILED|CUDA (?:error|out of memory)|NCCL WARN|\bKilled\b|Segmentation fault|panic:/;

function cube(n) {
    const step = (v) => (v === 0 ? 0 : 55 + 40 * v);

    if (n >= 232)
        return `rgb(${8 + 10 * (n - 232)} ${8 + 10 * (n - 232)} ${8 + 10 * (n - 232)})`;
    n -= 16;
    return `rgb(${step(Math.floor(n / 36))} ${step(Math.floor(n / 6) % 6)} ${step(n % 6)})`;
}

/* 38;5;n and 38;2;r;g;b; returns how many codes it took. */
function takeColour(codes, at, set) {
    if (codes[at + 1] === 5) {
        const n = codes[at + 2] || 0;

        set(n < 16 ? n : cube(Math.min(n, 255)));
        return 2;
    }
    if (codes[at + 1] === 2) {
        set(`rgb(${[2, 3, 4].map((k) => Math.min(255, codes[at + k] || 0)).join(' ')})`);
        return 4;
    }
    return 0;
}

const on = {1: 'bold', 2: 'faint', 3: 'italic', 4: 'under', 7: 'inverse', 8: 'hidden', 9: 'strike'};
const off = {22: ['bold', 'faint'], 23: ['italic'], 24: ['under'], 27: ['inverse'], 28: ['hidden'], 29: ['strike']};

function takeCode(look, codes, at) {
    const code = codes[at];

    if (code === 0)
        Object.keys(look).forEach((key) => delete look[key]);
    else if (on[code])
        look[on[code]] = true;
    else if (off[code])
        off[code].forEach((key) => delete look[key]);
    else if (code >= 30 && code <= 37)
        look.fg = code - 30;
    else if (code >= 90 && code <= 97)
        look.fg = code - 82;
    else if (code >= 40 && code <= 47)
        look.bg = code - 40;
    else if (code >= 100 && code <= 107)
        look.bg = code - 92;
    else if (code === 39)
        delete look.fg;
    else if (code === 49)
        delete look.bg;
    else if (code === 38)
        return takeColour(codes, at, (c) => { look.fg = c; });
    else if (code === 48)
        return takeColour(codes, at, (c) => { look.bg = c; });
    return 0;
}

function sgr(look, text) {
    const codes = text === '' ? [0] : text.split(/[;:]/).map(Number);

    for (let at = 0; at < codes.length; at++)
        at += takeCode(look, codes, at);
}

function piece(text, look) {
    const classes = [], style = {};

    for (const [key, value] of Object.entries(look))
        if (value === true)
            classes.push(key);
        else if (typeof value === 'number')
            classes.push(`${key}${value}`);
        else
            style[key === 'fg' ? 'color' : 'background-color'] = value;
    return classes.length === 0 && Object.keys(style).length === 0 ? text : h('span', {class: classes.join(' ') || null, style}, text);
}

export function visible(text) {
    return text.replace(BIDI, (c) => `‹${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}›`);
}

/* What a carriage return without a line feed leaves: the last piece, as a terminal shows it. */
function lastPiece(line) {
    const text = line.endsWith('\r') ? line.slice(0, -1) : line;
    const at = text.lastIndexOf('\r');

    return at < 0 ? text : text.slice(at + 1);
}

export function plain(line) {
    return visible(lastPiece(line).replace(ESCAPES, ''));
}

/* One line as texts and spans. */
export function ansiLine(line, {raw = false} = {}) {
    const text = raw ? line.replaceAll('\r', '␍') : lastPiece(line);
    const out = [], look = {};
    let from = 0;

    for (const match of text.matchAll(ESCAPES)) {
        if (match.index > from)
            out.push(piece(visible(text.slice(from, match.index)), look));
        if (match[2] === 'm')
            sgr(look, match[1]);
        from = match.index + match[0].length;
    }
    if (from < text.length)
        out.push(piece(visible(text.slice(from)), look));
    return out;
}
