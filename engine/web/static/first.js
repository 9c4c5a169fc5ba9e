/* Runs before all else: the choice of light or dark, where one was made, and what the page of the address needs at once. Of a
 * run the page itself has it (engine/web/shell.c); else requests go out while the other scripts come. api.js takes the answers. */
'use strict';
const chosenTheme = localStorage.getItem('flowrun.theme');
const knownAhead = document.getElementById('known');
const runAhead = /\/runs\/(\d+)$/.exec(location.pathname);
const pathsAhead = knownAhead ? [] : ['me'];

if (chosenTheme === 'light' || chosenTheme === 'dark')
    document.documentElement.dataset.theme = chosenTheme;
if (runAhead !== null && !knownAhead)
    pathsAhead.push(`runs/${runAhead[1]}?form=row`);
/* Path below api/v1: [its answer, what it says where that is no error]. Not with a code for a login, which comes first. */
window.flowrunAhead = new Map(location.hash.startsWith('#login=') ? [] : pathsAhead.map((path) => {
    const answer = fetch(new URL(`api/v1/${path}`, document.baseURI), {cache: 'no-cache'});
    const doc = answer.then((response) => (response.ok ? response.json() : null));

    doc.catch(() => {}); /* the consumer reports the error */
    return [path, [answer, doc]];
}));
if (knownAhead && !location.hash.startsWith('#login='))
    for (const [path, doc] of Object.entries(JSON.parse(knownAhead.textContent)))
        window.flowrunAhead.set(path, [null, doc]);
