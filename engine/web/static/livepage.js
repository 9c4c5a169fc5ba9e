/* A page that is loaded as a whole, and loaded again after an event of the stream. */
import {failed} from './ask.js';
import {fill, h, throttled} from './dom.js';
import {setTitle} from './nav.js';
import {subscribe} from './stream.js';

/* load(body, again) fills body; tools stand beside the title; every: ms after which it is loaded anyway. */
export async function livePage(main, {title, topics, load, tools = null, every = 0}) {
    const body = h('div');
    const nameOf = (el) => `${el.closest('tr')?.cells[0].textContent} ${el.textContent}`;
    /* Drawn anew, it has the focus where it was: on what has that text, in the row of that name. */
    const again = async () => {
        const fresh = h('div');
        let away = false;

        await load(fresh, again).catch((problem) => {
            away = !(problem.status < 500);
            fill(fresh, failed(problem, again));
        });
        if (away && body.firstChild !== null)
            return; /* the page stays as it is */
        const had = body.contains(document.activeElement) && nameOf(document.activeElement);

        fill(body, [...fresh.childNodes]);
        if (had)
            [...body.querySelectorAll('a, button, [tabindex]')].find((el) => nameOf(el) === had)?.focus({preventScroll: true});
    };
    const reload = throttled(again, 1000);
    const timer = every > 0 ? setInterval(() => document.hidden || reload(), every) : 0;

    setTitle(title);
    fill(main, h('div.head', h('h1', title), h('span.grow'), tools), body);
    await again();
    const close = subscribe({topics}, (event) => event !== 'log' && event !== 'note' && reload());

    return {close() {
        close();
        clearInterval(timer);
        reload.stop();
    }};
}
