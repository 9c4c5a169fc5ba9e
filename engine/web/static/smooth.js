/* Arithmetic of curves: smoothing, percentiles, ticks. Pure. */

/*
 * An exponential mean whose weights fall with the distance in x, not with the count of points, and
 * whose start is debiased (Kingma and Ba 2015, 3): uneven points bend nothing. weight 0 … <1; span: of
 * the x axis. Points without a finite value are passed over.
 */
export function smooth(points, weight, span) {
    const base = Math.min(Math.sqrt(weight), 0.999), unit = span > 0 ? 1000 / span : 1;
    let sum = 0, norm = 0, before = points.length > 0 ? points[0][0] : 0;

    return points.filter(([, y]) => Number.isFinite(y)).map(([x, y]) => {
        const keep = base ** ((x - before) * unit);

        before = x;
        sum = sum * keep + y;
        norm = norm * keep + 1;
        return [x, sum / norm];
    });
}

/* undefined if there are none. */
function percentile(sorted, share) {
    return sorted[Math.round(share * (sorted.length - 1))];
}

/* [low, high] from the 1st to the 99th percentile, with room; log: of positive values alone. */
export function yRange(values, log) {
    const sorted = values.filter((v) => Number.isFinite(v) && (!log || v > 0)).sort((a, b) => a - b);
    const few = sorted.length < 200;
    let low = percentile(sorted, few ? 0 : 0.01), high = percentile(sorted, few ? 1 : 0.99);

    if (!Number.isFinite(low))
        return log ? [0.1, 1] : [0, 1];
    if (low === high) {
        low -= Math.abs(low) * 0.1 || (log ? 0 : 0.5);
        high += Math.abs(high) * 0.1 || 0.5;
    }
    if (log)
        return [low / (high / low) ** 0.05, high * (high / low) ** 0.05];
    const room = (high - low) * 0.06;

    return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

/* Round numbers within low..high, about n of them. */
export function ticks(low, high, n) {
    const raw = (high - low) / Math.max(1, n), power = 10 ** Math.floor(Math.log10(raw || 1));
    const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((s) => s >= raw) || 10 * power;
    const out = [];

    for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step)
        out.push(Math.abs(v) < step * 1e-9 ? 0 : v);
    return out;
}

export function logTicks(low, high) {
    const out = [];

    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
        for (const k of high / low > 1000 ? [1] : [1, 2, 5])
            if (k * 10 ** e >= low && k * 10 ** e <= high)
                out.push(k * 10 ** e);
    return out;
}

/* "0.000123" as 1.23e-4, 12345 as 12.3k: four figures at most. */
export function short(v) {
    const abs = Math.abs(v);

    if (!Number.isFinite(v))
        return Number.isNaN(v) ? 'NaN' : v > 0 ? '∞' : '−∞';
    if (abs >= 1e6)
        return `${Number((v / 1e6).toPrecision(4))}M`;
    if (abs >= 1e4)
        return `${Number((v / 1e3).toPrecision(4))}k`;
    if (abs !== 0 && abs < 1e-3)
        return v.toExponential(2).replace('e-', 'e−');
    return String(Number(v.toPrecision(4)));
}
