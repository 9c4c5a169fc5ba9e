/*
 * The lines of one attempt's log. Its address is the byte offset. A log of up to WHOLE_BYTES (one that
 * grows: four times that) is held whole, as bytes, and a line is decoded when it is shown; of a larger
 * one lines come by number from the server's index, in blocks.
 */
import {logLines, logRange, logSearch, logSize, logTimes} from './api.js';

const WHOLE_BYTES = 16 << 20, BLOCK_LINES = 256, BLOCKS_KEPT = 64, PEEK_BYTES = 256 << 10, NEWLINE = 10;
const decoder = new TextDecoder();

export class LogSource {
    constructor(no, attempt) {
        this.no = no;
        this.attempt = attempt;
        this.bytes = new Uint8Array(1 << 16);
        this.size = 0;      /* bytes held */
        this.total = 0;     /* bytes that are there */
        this.starts = [0];  /* offsets of lines; the last may be empty still */
        this.indexed = false;
        this.blocks = new Map();
        this.marks = [];
        this.count = 0;
    }

    /* ---- held whole ---- */

    add(bytes) {
        if (this.size + bytes.length > this.bytes.length) {
            const larger = new Uint8Array(Math.max(2 * this.bytes.length, this.size + bytes.length));

            larger.set(this.bytes.subarray(0, this.size));
            this.bytes = larger;
        }
        this.bytes.set(bytes, this.size);
        for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1))
            this.starts.push(this.size + at + 1);
        this.size += bytes.length;
        this.count = this.starts.length - (this.starts.at(-1) === this.size ? 1 : 0);
    }

    /* Reads what is there beyond what is held; tell() behind each piece. peek(): what is to be shown of a large log while
     * the server counts its lines, which takes seconds for some GB. */
    async read(tell, peek = () => {}) {
        this.again = true; /* more was written than a read under way has asked for */
        if (this.reading)
            return;
        this.reading = true;
        try {
            do {
                this.again = false;
                this.total = Math.max(this.total, await logSize(this.no, this.attempt));
                if (!this.indexed && this.total > (this.size === 0 ? WHOLE_BYTES : 4 * WHOLE_BYTES)) {
                    await Promise.all([this.beginIndex(), peek()]);
                    tell();
                }
                while (!this.closed && !this.indexed && this.size < this.total) {
                    const {bytes, total} = await logRange(this.no, this.attempt, this.size);

                    this.add(bytes);
                    this.total = Math.max(total, this.size);
                    tell();
                }
            } while (this.again);
        } finally {
            this.reading = false;
        }
    }

    /* ---- by the server's index ---- */

    /* The first lines, or the last ones, without their numbers. */
    async someLines(atEnd) {
        const {bytes} = await logRange(this.no, this.attempt, atEnd ? Math.max(0, this.total - PEEK_BYTES) : 0);
        const lines = decoder.decode(bytes).split('\n');

        return lines.slice(atEnd ? 1 : 0, !atEnd || lines.at(-1) === '' ? -1 : undefined).map((text) => ({text}));
    }

    async beginIndex() {
        this.indexed = true;
        this.bytes = new Uint8Array(0);
        this.starts = [0];
        await this.block(0);
    }

    async block(k) {
        const doc = await logLines(this.no, this.attempt, k * BLOCK_LINES + 1, BLOCK_LINES);

        if (doc.total < this.count && this.blocks.get(k)?.length >= doc.items.length)
            return; /* a newer answer was faster */
        this.count = doc.total;
        this.total = doc.bytes;
        this.blocks.delete(k);
        this.blocks.set(k, doc.items);
        for (const old of this.blocks.keys())
            if (this.blocks.size > BLOCKS_KEPT)
                this.blocks.delete(old);
    }

    /* Makes lines from..from+n available; true: all are. */
    async ensure(from, n) {
        if (!this.indexed)
            return true;
        const wanted = [];

        for (let k = Math.floor(from / BLOCK_LINES); k <= Math.floor((from + n - 1) / BLOCK_LINES); k++)
            if (!this.blocks.has(k) && k * BLOCK_LINES < this.count)
                wanted.push(k);
        await Promise.all(wanted.map((k) => this.block(k)));
        return true;
    }

    /* ---- both ---- */

    /* More was written: {size} of a hint. */
    async grow(size, tell) {
        if (size <= this.total && this.count > 0)
            return;
        if (!this.indexed) {
            await this.read(tell);
            return;
        }
        await this.block(Math.floor(Math.max(0, this.count - 1) / BLOCK_LINES));
        tell();
    }

    /* Makes times of these lines available. */
    async ensureTimes(from, n) {
        const to = (this.line(Math.min(this.count, from + n) - 1)?.offset ?? 0) + 1, marks = [];

        for (let at = this.line(from)?.offset ?? 0, doc; at !== undefined && at < to; at = doc.next) {
            doc = await logTimes(this.no, this.attempt, at, to);
            marks.push(...doc.items);
        }
        this.marks = marks;
    }

    /* When the line was written, about; undefined: that is not known. */
    timeOf(line) {
        return this.marks.findLast(([at]) => at <= line.offset)?.[1];
    }

    /* What the server finds by a pattern, the first of it: {line, from 0; text}. It answers within seconds, with nothing
     * and from where to go on when it has found nothing by then. */
    async first(pattern) {
        let doc = {next: ''};

        do
            doc = await logSearch(this.no, this.attempt, {q: pattern, re: 1, from: doc.next});
        while (!this.closed && doc.items.length === 0 && doc.next !== undefined);
        return doc.items.map((hit) => ({line: hit.line - 1, text: hit.text}));
    }

    /* All of a line of which the server gave the beginning; at most what one range has. */
    async whole(i) {
        const line = this.line(i), {bytes} = await logRange(this.no, this.attempt, line.offset), end = bytes.indexOf(NEWLINE);

        line.text = decoder.decode(bytes.subarray(0, end < 0 ? bytes.length : end));
        line.cut = false;
    }

    /* {text, offset} of line i from 0; null: not here (yet). cut: it is longer. */
    line(i) {
        if (this.indexed) {
            const block = this.blocks.get(Math.floor(i / BLOCK_LINES));

            return block ? block[i % BLOCK_LINES] || null : null;
        }
        if (i >= this.count)
            return null;
        const from = this.starts[i], to = i + 1 < this.starts.length ? this.starts[i + 1] - 1 : this.size;

        return {text: decoder.decode(this.bytes.subarray(from, to)), offset: from};
    }

    /* The line that has that byte; of an indexed log the nearest by ratio. */
    lineAt(offset) {
        if (this.indexed)
            return Math.min(this.count - 1, Math.floor(this.count * offset / Math.max(1, this.total)));
        let low = 0, high = this.starts.length - 1;

        while (low < high) {
            const middle = (low + high + 1) >> 1;

            if (this.starts[middle] <= offset)
                low = middle;
            else
                high = middle - 1;
        }
        return low;
    }

    close() {
        this.closed = true;
    }
}

/* Lines that are here as text: {text, prefix, rank, ms}. uncounted: their numbers are not known. */
export class TextSource {
    constructor(items, uncounted = false) {
        this.uncounted = uncounted;
        this.set(items);
    }

    set(items) {
        this.items = items;
        this.count = items.length;
    }

    /* Lines, from 0, with that text, or of that pattern. */
    find(q) {
        return this.items.flatMap(({text}, i) => (text.split(q, 2).length > 1 ? [i] : []));
    }

    async ensure() {
        return true;
    }

    async ensureTimes() {}

    timeOf(line) {
        return line.ms;
    }

    line(i) {
        return this.items[i] || null;
    }

    close() {}
}
