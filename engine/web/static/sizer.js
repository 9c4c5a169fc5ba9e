/* A bar between two panes: dragged, or moved by arrow keys; the width of the right pane is kept. */
import {h} from './dom.js';

const STEP = 24;

/* el: whose property --side is that width. */
export function sizer(el, {name, label, least, most, usual}) {
    const key = `flowrun.${name}`;
    const bar = h('div.sizer', {role: 'separator', tabindex: '0', 'aria-orientation': 'vertical', 'aria-label': label,
        'aria-valuemin': String(least), 'aria-valuemax': String(most), title: 'Drag, or arrow keys; twice: as it was'});
    const set = (width) => {
        const now = Math.round(Math.min(most, Math.max(least, width)));

        el.style.setProperty('--side', `${now}px`);
        bar.setAttribute('aria-valuenow', String(now));
        return now;
    };
    const keep = (width) => localStorage.setItem(key, String(set(width)));
    const width = () => Number(bar.getAttribute('aria-valuenow'));

    set(Number(localStorage.getItem(key)) || usual);
    bar.addEventListener('pointerdown', (event) => bar.setPointerCapture(event.pointerId));
    bar.addEventListener('pointermove', (event) => bar.hasPointerCapture(event.pointerId)
        && keep(el.getBoundingClientRect().right - event.clientX));
    bar.addEventListener('dblclick', () => keep(usual));
    bar.addEventListener('keydown', (event) => {
        const step = {ArrowLeft: STEP, ArrowRight: -STEP}[event.key];

        if (step === undefined)
            return;
        event.preventDefault();
        keep(width() + step);
    });
    return bar;
}
