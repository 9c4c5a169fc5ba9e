/* What a title says is shown at once, also to who goes by keys: the browser's own comes late, and to pointers alone. */
import {fill, h} from './dom.js';

const tip = h('div.tip', {role: 'tooltip', hidden: true});
let of = null, text = '';

function hide() {
    if (of !== null && !of.title)
        of.title = text;
    of = null;
    tip.hidden = true;
}

/* alone: without the browser's own, which pointers get. */
function show(el, alone) {
    if (el === of)
        return;
    hide();
    if (!el?.title)
        return;
    const {left, bottom, top} = el.getBoundingClientRect();

    of = el;
    text = el.title;
    if (alone)
        el.title = '';
    fill(tip, text);
    tip.hidden = false;
    tip.style.left = `${Math.max(4, Math.min(left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${bottom + tip.offsetHeight + 8 < innerHeight ? bottom + 4 : top - tip.offsetHeight - 4}px`;
}

export function startTips() {
    const titled = (event) => event.target.closest?.('[title]');

    document.body.append(tip);
    document.addEventListener('pointerover', (event) => event.pointerType === 'mouse' && show(titled(event), true));
    document.addEventListener('focusin', (event) => event.target.matches(':focus-visible') && show(titled(event), false));
    for (const end of ['focusout', 'pointerdown', 'keydown', 'scroll'])
        document.addEventListener(end, hide, true);
}
