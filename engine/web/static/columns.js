/* Instances as the server packs them, 13 bytes each: schema/openapi.json has the rules. */
import {letters} from './states.js';

/* [value, how often, value, how often, …] */
function flat(runs) {
    const out = [];

    for (let i = 0; i < runs.length; i += 2)
        out.push(...Array(runs[i + 1]).fill(runs[i]));
    return out;
}

function timeOf(packed, base) {
    return packed && base + packed - (packed > 0);
}

/* Columns of equal length: {seq, idx: [], key: [], task: [], …} */
export function unpack(doc) {
    let next = 0, last = doc.wall;
    const idx = flat(doc.idx).map((skipped) => {
        next += skipped + 1;
        return next - 1;
    });
    const started_wall = doc.started.map((packed) => {
        const wall = timeOf(packed, last);

        last = wall || last;
        return wall;
    });
    const task = flat(doc.task).map((t) => doc.tasks[t]), node = doc.node.map((n) => doc.nodes[n]);

    return {seq: doc.seq, idx, task, node, key: doc.key || task.map((name, i) => `${name}@${node[i]}`),
        state: Array.from(doc.state, (letter) => letters[letter]), attempt_no: flat(doc.attempt_no), cause: flat(doc.cause),
        code: flat(doc.code), reason: flat(doc.reason), unreachable_wall: flat(doc.unreachable).map((t) => timeOf(t, doc.wall)),
        due_wall: flat(doc.due).map((t) => timeOf(t, doc.wall)),
        started_wall, ended_wall: doc.ended.map((t, i) => timeOf(t, started_wall[i] || doc.wall))};
}
