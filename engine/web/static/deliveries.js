/* Messages of the home's rules: what became of each, a test of a channel, once more by hand. */
import {ago, absolute, duration, minutes} from './times.js';
import {ask, empty} from './ask.js';
import {badge, stateOf} from './states.js';
import {channels, deliverAgain, deliveries, testChannel} from './api.js';
import {h, table} from './dom.js';
import {runLink} from './nav.js';

const looks = {waiting: 'queued', sent: 'succeeded', dead: 'failed', held: 'skipped', quiet: 'queued'};

/* A button that sends a message through the channel, and asks before. */
function sender(label, channel, act, done) {
    return h('button', {on: {click: () => ask({title: label, lines: [`A message goes through the channel ${channel}.`], yes: 'Send', act}).then(done)}}, label);
}

function channelTable(items, done) {
    return table('', ['Channel', 'Kind', 'State', ''], items.map((c) => h('tr', h('td', c.name), h('td', c.kind), h('td.wide', c.off || 'used'),
        h('td.actions', sender('Send a test', c.name, () => testChannel(c.name), done)))));
}

/* Which events go to which channel; pipelines may have rules of their own. */
function ruleTable(rules) {
    return table('', ['Events', 'Pipelines', 'To', 'At most'], rules.map((r) => h('tr', h('td.wide', r.on.join(', ')), h('td', r.pipelines.join(', ') || 'all'),
        h('td', r.to.join(', ')), h('td', [r.throttle_ms > 0 && `one in ${duration(r.throttle_ms)}`,
            r.quiet && `quiet ${r.quiet.map(minutes).join('–')}`].filter(Boolean).join(', ')))));
}

function deliveryTable(items, done) {
    return table('deliveries', ['Event', 'Run', 'Channel', 'State', 'Tries', 'Answer', ''], items.map((d) => h('tr',
        h('td', {title: absolute(d.made_wall)}, d.kind, ' ', ago(d.made_wall)), h('td', d.run > 0 && runLink(d.run), ' ', d.pipeline),
        h('td', d.channel), h('td', badge({...stateOf(looks[d.state]), word: d.state}), (d.tries > 0 || d.state === 'quiet') && ['waiting', 'quiet'].includes(d.state) && [' next try ', ago(d.due_wall)]),
        h('td.num', String(d.tries)), h('td.wide', d.answer),
        h('td.actions', d.state !== 'waiting' && sender('Send again', d.channel, () => deliverAgain(d.id), done)))));
}

/* Calls done() after a change. */
export async function messages(done) {
    const [{items: known, rules}, {items}] = await Promise.all([channels(), deliveries()]);

    return [known.length > 0 ? channelTable(known, done) : empty('No channels', h('p', 'channels: and notify: of the home’s config.yaml make some.')),
        rules.length > 0 && ruleTable(rules), items.length > 0 && deliveryTable(items, done)];
}
