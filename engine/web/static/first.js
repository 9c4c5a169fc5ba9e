/* Runs before all else: the choice of light or dark, where one was made, and requests for what the page of the address needs
 * at once. Those go out while the other scripts come; api.js takes the answers. */
'use strict';
const chosenTheme = localStorage.getItem('flowrun.theme');
const pathsAhead = ['me'];
const runAhead = /\/runs\/(\d+)$/.exec(location.pathname);

if (chosenTheme === 'light' || chosenTheme === 'dark')
    document.documentElement.dataset.theme = chosenTheme;
if (runAhead !== null) /* what its head is drawn from, and no more: the rest would delay that */
    pathsAhead.push(`runs/${runAhead[1]}?form=row`);
/* Path below api/v1: [its answer, what it says where that is no error]. Not with a code for a login, which comes first. */
window.flowrunAhead = new Map(location.hash.startsWith('#login=') ? [] : pathsAhead.map((path) => {
    const answer = fetch(new URL(`api/v1/${path}`, document.baseURI), {cache: 'no-cache'});
    const doc = answer.then((response) => (response.ok ? response.json() : null));

    doc.catch(() => {}); /* who takes it says what is wrong */
    return [path, [answer, doc]];
}));
