/* Allocations of Slurm in an inventory: what they make of themselves, and what is wrong with them.
 */
#include "engine/spec/fence.h"

#include "tests/unit/spec/spec_load.h"

#define X60 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X250 X60 X60 X60 X60 "xxxxxxxxxx"
#define X1000 X250 X250 X250 X250
#define KEYS                                                                                       \
    "expected nodes, copies, time, partition, account, qos, reservation, constraint, gpus, cpus, " \
    "memory, exclusive, idle, lease, queue_for, chain, container, options, slots, labels, "        \
    "become, keep or "                                                                             \
    "env"
#define OPTIONS                                                                                    \
    "expected --licenses, --switches, --gpu-bind, --gpu-freq, --mem-bind, --tmp, --nice, "         \
    "--mail-type, --mail-user, --prefer, --core-spec, --thread-spec, --network, --wckey, --hint, " \
    "--distribution, --exclude, --nodelist, --mincpus, --gres-flags, --cpus-per-gpu or "           \
    "--mem-per-gpu"
#define FOLDER                                                                                     \
    "expected an absolute path of letters, digits, '_', '-', '.', '+' and '@', without '.' and "   \
    "'..', like /scratch/me/flowrun"
#define NAMES                                                                                      \
    "expected letters, digits, '_', '-' and '.', at most 59, the first neither '-' nor '.', and "  \
    "not all, head or control"

#define LOGIN_KEYS "transport, address, user, port, key, known_hosts, ssh_config, work or connect"
#define LOGIN(text)                                                                                \
    "nodes: {slurm: {login: " text ", work: /w, allocations: {t: {time: 1h}}}}\n"                  \
    "tasks: {a: {run: x}}"

/* An allocation t of that text gives exactly the lines of want. */
static const struct row {
    const char *name, *text, *want;
} allocation[] = {
    {"no time", "nodes: 2",
     "p.yaml:1:44: an allocation needs the key 'time'; expected time: 12h, how long it may last"},
    {"time without a unit", "time: 90",
     "p.yaml:1:51: time is '90'; expected a unit: 90m or 90s (to Slurm 90 would be minutes)"},
    {"time as Slurm writes it", "time: '1:30:00'",
     "p.yaml:1:51: time is '1:30:00'; expected a duration above zero, at most 365d, like 12h or "
     "1h30m"},
    {"time with days as Slurm writes it", "time: 2-00:00:00",
     "p.yaml:1:51: time is '2-00:00:00'; expected a duration above zero, at most 365d, like 12h or "
     "1h30m"},
    {"no limit", "time: UNLIMITED",
     "p.yaml:1:51: time is 'UNLIMITED'; expected a duration above zero, at most 365d, like 12h or "
     "1h30m"},
    {"time of nothing", "time: 0s",
     "p.yaml:1:51: time is '0s'; expected a duration above zero, at most 365d, like 12h or 1h30m"},
    {"more than a year", "time: 366d",
     "p.yaml:1:51: time is '366d'; expected a duration above zero, at most 365d, like 12h or "
     "1h30m"},
    {"no nodes", "time: 1h, nodes: 0",
     "p.yaml:1:62: nodes is '0'; expected a whole number from 1 to 4096"},
    {"too many nodes", "time: 1h, nodes: 4097",
     "p.yaml:1:62: nodes is '4097'; expected a whole number from 1 to 4096"},
    {"a range of nodes", "time: 1h, nodes: 2-4",
     "p.yaml:1:62: nodes is '2-4'; expected a whole number from 1 to 4096"},
    {"partition with a blank", "time: 1h, partition: 'gpu cpu'",
     "p.yaml:1:66: partition is 'gpu cpu'; expected one word that does not begin with '-'"},
    {"a partition without a name", "time: 1h, partition: 'a,,b'",
     "p.yaml:1:66: partition is 'a,,b'; expected a name on both sides of each comma"},
    {"one behind the last", "time: 1h, partition: 'a,b,'",
     "p.yaml:1:66: partition is 'a,b,'; expected a name on both sides of each comma"},
    {"one before the first", "time: 1h, reservation: ',b'",
     "p.yaml:1:68: reservation is ',b'; expected a name on both sides of each comma"},
    {"partition that is an option", "time: 1h, partition: --wrap=x",
     "p.yaml:1:66: partition is '--wrap=x'; expected one word that does not begin with '-'"},
    {"an empty account", "time: 1h, account: ''",
     "p.yaml:1:64: account is ''; expected one word that does not begin with '-'"},
    {"qos of two lines", "time: 1h, qos: \"a\\nb\"",
     "p.yaml:1:60: qos is 'a\\x0ab'; expected one word that does not begin with '-'"},
    {"reservation with a control byte", "time: 1h, reservation: \"a\\x07\"",
     "p.yaml:1:68: reservation is 'a\\x07'; expected one word that does not begin with '-'"},
    {"constraint with blanks", "time: 1h, constraint: 'a100 & nvlink'",
     "p.yaml:1:67: constraint is 'a100 & nvlink'; expected one word that does not begin with '-'"},
    {"a long constraint", "time: 1h, constraint: " X1000 "x",
     "p.yaml:1:67: constraint is a text of 1001 bytes; expected one word that does not begin with "
     "'-'"},
    {"a chain that is none", "time: 1h, chain: 1001",
     "p.yaml:1:62: chain is '1001'; expected a whole number from 0 to 1000"},
    {"a wait that is none", "time: 1h, queue_for: soon",
     "p.yaml:1:66: queue_for is 'soon'; expected never or a duration like 10s, "
     "above zero"},
    {"gpus below zero", "time: 1h, gpus: -1",
     "p.yaml:1:61: gpus is '-1'; expected a whole number from 0 to 1024, or TYPE:N like a100:8"},
    {"too many gpus", "time: 1h, gpus: 1025",
     "p.yaml:1:61: gpus is '1025'; expected a whole number from 0 to 1024, or TYPE:N like a100:8"},
    {"gpus as --gres has them", "time: 1h, gpus: 'gpu:a100:8'",
     "p.yaml:1:61: gpus is 'gpu:a100:8'; expected a whole number from 0 to 1024, or TYPE:N like "
     "a100:8"},
    {"a type without a number", "time: 1h, gpus: a100",
     "p.yaml:1:61: gpus is 'a100'; expected a whole number from 0 to 1024, or TYPE:N like a100:8"},
    {"a type of none", "time: 1h, gpus: 'a100:0'",
     "p.yaml:1:61: gpus is 'a100:0'; expected a whole number from 0 to 1024, or TYPE:N like "
     "a100:8"},
    {"a type that is an option", "time: 1h, gpus: '-a:1'",
     "p.yaml:1:61: gpus is '-a:1'; expected a whole number from 0 to 1024, or TYPE:N like a100:8"},
    {"a number without a type", "time: 1h, gpus: ':1'",
     "p.yaml:1:61: gpus is ':1'; expected a whole number from 0 to 1024, or TYPE:N like a100:8"},
    {"cpus", "time: 1h, cpus: 0",
     "p.yaml:1:61: cpus is '0'; expected a whole number from 1 to 65535"},
    {"too many cpus", "time: 1h, cpus: 65536",
     "p.yaml:1:61: cpus is '65536'; expected a whole number from 1 to 65535"},
    {"memory without a unit", "time: 1h, memory: 64",
     "p.yaml:1:63: memory is '64'; expected a unit: 64GiB (to Slurm 64 would be MiB)"},
    {"memory of nothing", "time: 1h, memory: 0B",
     "p.yaml:1:63: memory is '0B'; expected a size from 1MiB to 1024TiB, like 64GiB"},
    {"too little memory", "time: 1h, memory: 1KiB",
     "p.yaml:1:63: memory is '1KiB'; expected a size from 1MiB to 1024TiB, like 64GiB"},
    {"too much memory", "time: 1h, memory: 1025TiB",
     "p.yaml:1:63: memory is '1025TiB'; expected a size from 1MiB to 1024TiB, like 64GiB"},
    {"memory in words", "time: 1h, memory: all",
     "p.yaml:1:63: memory is 'all'; expected a size from 1MiB to 1024TiB, like 64GiB"},
    {"exclusive", "time: 1h, exclusive: user",
     "p.yaml:1:66: exclusive is 'user'; expected true or false"},
    {"slots", "time: 1h, slots: 0",
     "p.yaml:1:62: slots is '0'; expected a whole number from 1 to 4096"},
    {"a lease shorter than the pause of an engine's word", "time: 1h, lease: 59s",
     "p.yaml:1:62: lease is '59s'; expected a duration of 60s or more, like 1h30m"},
    {"a lease without an end", "time: 1h, lease: never",
     "p.yaml:1:62: lease is 'never'; expected a duration of 60s or more, like 1h30m"},
    {"idle without a unit", "time: 1h, idle: 5",
     "p.yaml:1:61: idle is '5'; expected a duration like 10s or 1h30m"},
    {"keys of nodes", "time: 1h, address: h, user: u, work: /x, connect: {timeout: 5s}",
     "p.yaml:1:55: an allocation has no key 'address'; " KEYS "\n"
     "p.yaml:1:67: an allocation has no key 'user'; " KEYS "\n"
     "p.yaml:1:76: an allocation has no key 'work'; " KEYS "\n"
     "p.yaml:1:86: an allocation has no key 'connect'; " KEYS},
    {"keys that are not there yet", "time: 1h, warn: 3m",
     "p.yaml:1:55: an allocation has no key 'warn'; " KEYS},
    {"keys of others", "time: 1h, walltime: 2h, mem: 1G, gres: 'gpu:1', queue: q, exclude: n1",
     "p.yaml:1:55: an allocation has no key 'walltime'; expected time: 12h\n"
     "p.yaml:1:69: an allocation has no key 'mem'; expected memory: 64GiB\n"
     "p.yaml:1:78: an allocation has no key 'gres'; expected gpus: N, or TYPE:N\n"
     "p.yaml:1:93: an allocation has no key 'queue'; expected partition: NAME\n"
     "p.yaml:1:103: an allocation has no key 'exclude'; expected options: [--NAME=VALUE]"},
    {"a key with a mistake", "tiem: 1h",
     "p.yaml:1:44: an allocation needs the key 'time'; expected time: 12h, how long it may last\n"
     "p.yaml:1:45: an allocation has no key 'tiem'; did you mean 'time'?"},
    {"option of flowrun",
     "time: 1h, options: [--requeue, --array=1-3, --export=ALL, --signal=USR1]",
     "p.yaml:1:65: option '--requeue' is flowrun's own to set; expected chain: N, how often "
     "it is followed by another\n"
     "p.yaml:1:76: option '--array' is flowrun's own to set; expected copies: N, allocations of "
     "one node each\n"
     "p.yaml:1:89: option '--export' is flowrun's own to set; expected env:\n"
     "p.yaml:1:103: option '--signal' is flowrun's own to set; expected grace: of a task"},
    {"option with a key",
     "time: 1h, options: [--nodes=4, -N4, --mem=3G, --gres=gpu:1, --partition=x]",
     "p.yaml:1:65: option '--nodes' is flowrun's own to set; expected nodes: N\n"
     "p.yaml:1:76: option '-N' is flowrun's own to set; expected nodes: N\n"
     "p.yaml:1:81: option '--mem' is flowrun's own to set; expected memory: 64GiB\n"
     "p.yaml:1:91: option '--gres' is flowrun's own to set; expected gpus: N or TYPE:N\n"
     "p.yaml:1:105: option '--partition' is flowrun's own to set; expected partition: NAME"},
    {"option that has no key", "time: 1h, options: [--comment=x, -J, --wait, --clusters=all]",
     "p.yaml:1:65: option '--comment' is flowrun's own to set: leave it out\n"
     "p.yaml:1:78: option '-J' is flowrun's own to set: leave it out\n"
     "p.yaml:1:82: option '--wait' is flowrun's own to set: leave it out\n"
     "p.yaml:1:90: option '--clusters' is flowrun's own to set: leave it out"},
    {"unknown options", "time: 1h, options: [--license=x, --uvw=1]",
     "p.yaml:1:65: option '--license' cannot stand here; did you mean '--licenses'?\n"
     "p.yaml:1:78: option '--uvw' cannot stand here; " OPTIONS},
    {"abbreviated options", "time: 1h, options: [--lic=x]",
     "p.yaml:1:65: option '--lic' cannot stand here; did you mean '--licenses'?"},
    {"no options", "time: 1h, options: [licenses=x, '-', --]",
     "p.yaml:1:65: an option is 'licenses=x'; expected --NAME=VALUE\n"
     "p.yaml:1:77: an option is '-'; expected --NAME=VALUE\n"
     "p.yaml:1:82: option '--' cannot stand here; " OPTIONS},
    {"option without a value", "time: 1h, options: [--licenses, --tmp=]",
     "p.yaml:1:65: an option is '--licenses'; expected --licenses=VALUE, the value without blanks\n"
     "p.yaml:1:77: an option is '--tmp='; expected --tmp=VALUE, the value without blanks"},
    {"option with a blank", "time: 1h, options: ['--licenses=a, b']",
     "p.yaml:1:65: an option is '--licenses=a, b'; expected --licenses=VALUE, the value without "
     "blanks"},
    {"an option twice", "time: 1h, options: [--tmp=1G, --tmp=2G]",
     "p.yaml:1:75: option '--tmp' stands here twice"},
    {"files of hosts", "time: 1h, options: [--exclude=/etc/hosts, --nodelist=./hosts]",
     "p.yaml:1:65: an option is '--exclude=/etc/hosts'; expected names of hosts, no file with "
     "them\n"
     "p.yaml:1:87: an option is '--nodelist=./hosts'; expected names of hosts, no file with them"},
    {"options beside keys",
     "time: 1h, memory: 1GiB, cpus: 4, options: [--mem-per-gpu=1G, --cpus-per-gpu=2]",
     "p.yaml:1:87: option '--mem-per-gpu' stands beside memory:; expected one of them\n"
     "p.yaml:1:87: option '--cpus-per-gpu' stands beside cpus:; expected one of them"},
    {"memory twice by exclusive", "time: 1h, exclusive: true, options: [--mem-per-gpu=1G]",
     "p.yaml:1:81: option '--mem-per-gpu' stands beside exclusive:, which takes all of the memory; "
     "expected one of them"},
    {"a label that is a place", "time: 1h, labels: [t1, all, big]",
     "p.yaml:1:41: label 't1' of allocation 't' is the name of a node or place; expected another "
     "word\n"
     "p.yaml:1:41: label 'all' of allocation 't' is the name of a node or place; expected another "
     "word"},
    {"a variable", "time: 1h, env: {FLOWRUN_X: 1}",
     "p.yaml:1:61: 'FLOWRUN_X' cannot be the name of a variable; expected letters, digits and '_'; "
     "FLOWRUN_ is ours"},
};

/* Every text gives exactly the lines of want. */
static const struct row wrong[] = {
    {"nothing under slurm",
     "nodes: {slurm: }\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:16: slurm is nothing; expected a map of its keys"},
    {"no work and no allocations",
     "nodes: {slurm: {rpc: 3}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:16: slurm needs the key 'work'; expected work: /FOLDER, which this machine and the "
     "compute nodes share\n"
     "p.yaml:1:16: slurm needs the key 'allocations'; expected allocations: {NAME: {nodes: 4, "
     "time: 12h}}"},
    {"no allocations",
     "nodes: {slurm: {work: /w, allocations: {}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:40: allocations is an empty map; expected a map of names, like {train: {nodes: 4, "
     "time: 12h}}"},
    {"a list of allocations",
     "nodes: {slurm: {work: /w, allocations: [{name: t}]}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:40: allocations is a list; expected a map of names, like {train: {nodes: 4, time: "
     "12h}}"},
    {"an allocation alone",
     "nodes: {slurm: {work: /w, allocations: {t: 12h}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:44: an allocation is '12h'; expected a map of its keys, like {time: 12h}"},
    {"a relative work",
     "nodes: {slurm: {work: scratch/me, allocations: {t: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:23: work is 'scratch/me'; " FOLDER},
    {"work of the user",
     "nodes: {slurm: {work: ~/x, allocations: {t: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:23: work is '~/x'; " FOLDER},
    {"work with ..",
     "nodes: {slurm: {work: /scratch/../etc, allocations: {t: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:23: work is '/scratch/../etc'; " FOLDER},
    {"work with a blank",
     "nodes: {slurm: {work: '/my files', allocations: {t: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:23: work is '/my files'; " FOLDER},
    {"work that Slurm expands",
     "nodes: {slurm: {work: /w/%u, allocations: {t: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:23: work is '/w/%u'; " FOLDER},
    {"work of a shell",
     "nodes: {slurm: {work: '$SCRATCH', allocations: {t: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:23: work is '$SCRATCH'; " FOLDER},
    {"work is the root",
     "nodes: {slurm: {work: /, allocations: {t: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:23: work is '/'; " FOLDER},
    {"two paths",
     "nodes: {slurm: {work: /w, path: '/opt/a:/opt/b', allocations: {t: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:33: path is '/opt/a:/opt/b'; " FOLDER},
    {"rpc",
     "nodes: {slurm: {work: /w, rpc: 61, allocations: {t: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:32: rpc is '61'; expected a whole number from 1 to 60"},
    {"keys in the wrong map",
     "nodes: {slurm: {work: /w, shared: false, partition: p, allocations: {t: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:27: slurm has no key 'shared'; expected login, work, account, path, rpc, "
     "max_jobs or allocations\n"
     "p.yaml:1:42: slurm has no key 'partition'; expected it in each of allocations:"},
    {"a login node that is a word", LOGIN("hpc"),
     "p.yaml:1:24: login is 'hpc'; expected a map of its keys, like {address: hpc}"},
    {"a login node without an address", LOGIN("{user: me, port: 22}"),
     "p.yaml:1:24: node 'login' has no address; expected address: HOST"},
    {"keys that a login node does not have",
     LOGIN("{address: h, name: n, slots: 4, executor: ssh, keep: {days: 1}}"),
     "p.yaml:1:37: login has no key 'name'; expected " LOGIN_KEYS "\n"
     "p.yaml:1:46: login has no key 'slots'; expected " LOGIN_KEYS "\n"
     "p.yaml:1:56: login has no key 'executor'; expected " LOGIN_KEYS "\n"
     "p.yaml:1:71: login has no key 'keep'; did you mean 'key'?"},
    {"values of a login node",
     LOGIN("{address: '-h', user: a@b, port: 0, transport: telnet, work: node:/x, connect: 5s}"),
     "p.yaml:1:24: address of node 'login' is '-h'; expected one word without '@'\n"
     "p.yaml:1:24: user of node 'login' is 'a@b'; expected one word without '@'\n"
     "p.yaml:1:24: work of node 'login' is 'node:/x'; expected a path of the node: /DIR, or ~/DIR "
     "below the user's home there\n"
     "p.yaml:1:57: port is '0'; expected a whole number from 1 to 65535\n"
     "p.yaml:1:71: transport is 'telnet'; expected auto, libssh2 or openssh\n"
     "p.yaml:1:103: connect is '5s'; expected a map of its keys"},
    {"a login node's address with a port", LOGIN("{address: 'h:22'}"),
     "p.yaml:1:24: address of node 'login' is 'h:22'; expected a name or an address; the port goes "
     "to port:"},
    {"no login node", LOGIN("null"), "p.yaml:1:24: login is nothing; expected a map of its keys"},
    {"slurm in the pipeline",
     "slurm: {work: /w}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:1: a pipeline has no key 'slurm'; expected it in the inventory: nodes: {slurm: "
     "{work: FOLDER, allocations: {NAME: {time: 1h}}}}"},
    {"an inventory of nothing",
     "nodes: {defaults: {slots: 2}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:8: an inventory needs the key 'nodes' or 'slurm'"},
    {"names",
     "nodes: {slurm: {work: /w, allocations: {all: {time: 1h}, .a: {time: 1h}, 'a b': {time: "
     "1h}, " X60 ": {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:41: 'all' cannot be the name of an allocation; " NAMES "\n"
     "p.yaml:1:58: '.a' cannot be the name of an allocation; " NAMES "\n"
     "p.yaml:1:74: 'a b' cannot be the name of an allocation; " NAMES "\n"
     "p.yaml:1:93: '" X60 "' cannot be the name of an allocation; " NAMES},
    {"a place and a node",
     "nodes:\n"
     "  nodes: [{name: t2}, {name: t3, labels: [t1]}, {name: t}, {name: u, labels: [v]}]\n"
     "  slurm: {work: /w, allocations: {t: {time: 1h, nodes: 2}, v: {time: 1h}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:2:11: node 't2' has the name of a place of allocation 't', which has t1 to t2; "
     "expected another name\n"
     "p.yaml:2:23: label 't1' of node 't3' is the name of a place of allocation 't'; expected "
     "another word\n"
     "p.yaml:3:35: allocation 't' has the name of the node at line 2; expected another name\n"
     "p.yaml:3:60: allocation 'v' has the name of a label of node 'u'; expected another name"},
    {"an allocation and a place",
     "nodes: {slurm: {work: /w, allocations: {a: {time: 1h, nodes: 11}, a1: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:67: allocation 'a1' has the name of a place of allocation 'a', which has a1 to a11; "
     "expected another name"},
    {"an allocation and a label of another",
     "nodes: {slurm: {work: /w, allocations: {a: {time: 1h, labels: [b]}, b: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:69: allocation 'b' has the name of a label of allocation 'a'; expected another "
     "name"},
    {"a gang of two allocations",
     "nodes: {slurm: {work: /w, allocations: {a: {time: 1h, nodes: 2}, b: {time: 1h}}}}\n"
     "tasks: {t: {run: x, gang: true, on: all}}",
     "p.yaml:2:37: task 't' is a gang, which has one allocation; a1 and b1 are of two; expected "
     "on: a, or on: b"},
    {"a gang of an allocation and a node",
     "nodes: {nodes: [{name: n}], slurm: {work: /w, allocations: {a: {time: 1h, nodes: 2}}}}\n"
     "tasks: {t: {run: x, gang: true, on: [a2, n]}}",
     "p.yaml:2:37: task 't' is a gang, which has one allocation; a2 is of 'a', and n of none; "
     "expected on: a, or nodes alone"},
    {"a gang by its kind",
     "nodes: {nodes: [{name: n}], slurm: {work: /w, allocations: {a: {time: 1h, nodes: 2}}}}\n"
     "tasks: {t: {uses: nccl-probe, on: all}}",
     "p.yaml:2:35: task 't' is a gang, which has one allocation; a1 is of 'a', and n of none; "
     "expected on: a, or nodes alone"},
    {"a notice as long as the allocation",
     "nodes: {slurm: {work: /w, allocations: {a: {time: 1h}, b: {time: 2h}}}}\n"
     "tasks: {t: {run: x, on: all, notice: 1h}, u: {run: x, on: b, notice: 1h}}",
     "p.yaml:2:38: task 't' has a notice of 1h00m, and allocation 'a' a time of 1h00m; expected "
     "less than that, or never"},
    {"a place that is not there",
     "nodes: {slurm: {work: /w, allocations: {train: {time: 1h, nodes: 2}}}}\n"
     "tasks: {t: {run: x, on: train3}, u: {run: x, on: trian}}",
     "p.yaml:2:25: on: there is no node or label 'train3'; expected all, head, control, or a node "
     "or label of the inventory; did you mean 'train'?\n"
     "p.yaml:2:50: on: there is no node or label 'trian'; expected all, head, control, or a node "
     "or label of the inventory; did you mean 'train'?"},
    {"executor of a node",
     "nodes: [{name: a, executor: slurm}]\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:29: executor is 'slurm'; expected local or ssh (nodes under Slurm stand in slurm: "
     "beside nodes:)"},
    {"partition of a task", "tasks: {a: {run: x, partition: gpu}}",
     "p.yaml:1:21: a task has no key 'partition'; expected on: ALLOCATION, which slurm: of the "
     "inventory has"},
    {"partition of a node",
     "nodes: [{name: a, partition: gpu}]\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:19: a node has no key 'partition'; expected slurm: {work: FOLDER, allocations: "
     "{NAME: {time: 1h}}} beside nodes:"},
};

static void check_wrong(const char *text, const char *want)
{
    struct fr_issues issues = {0};
    struct fr_spec *spec;
    struct fr_buf got = {0};

    CHECK_INT(load(text, NULL, 0, &spec, &issues), FR_USAGE);
    CHECK(spec == NULL);
    for (size_t k = 0; k < issues.n; k++)
        fr_buf_fmt(&got, "%s%s", k > 0 ? "\n" : "", issues.lines[k]);
    CHECK_TEXT(got.p ? got.p : "", want);
    fr_buf_finish(&got);
    fr_issues_finish(&issues);
    fr_spec_destroy(spec);
}

static const char *with_allocation(const char *text, struct fr_buf *out)
{
    fr_buf_fmt(out,
               "nodes: {slurm: {work: /w, allocations: {t: {%s}}}}\n"
               "tasks: {a: {run: x}}\n",
               text);
    return out->p;
}

static void test_wrong(void)
{
    for (size_t i = 0; i < sizeof(allocation) / sizeof(allocation[0]); i++) {
        struct fr_buf text = {0};

        check_row(allocation[i].name);
        check_wrong(with_allocation(allocation[i].text, &text), allocation[i].want);
        fr_buf_finish(&text);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        check_row(wrong[i].name);
        check_wrong(wrong[i].text, wrong[i].want);
    }
    check_row("");
}

static struct fr_spec *load_ok(const char *text)
{
    struct fr_issues issues = {0};
    struct fr_spec *spec;

    if (!CHECK_INT(load(text, NULL, 0, &spec, &issues), FR_OK))
        for (size_t i = 0; i < issues.n; i++)
            printf("   %s\n", issues.lines[i]);
    fr_issues_finish(&issues);
    return spec;
}

/* An allocation of that text is taken. */
static const char *const right[] = {
    "time: 1s",
    "time: 365d",
    "time: 1h, nodes: 4096",
    "time: 1h, partition: 'gpu,cpu'",
    "time: 1h, constraint: '[rack1*2&rack2*4]'",
    "time: 1h, qos: a.b+c, reservation: r_1, account: p-1",
    "time: 1h, gpus: 0",
    "time: 1h, gpus: 1024",
    "time: 1h, gpus: 'nvidia_a100.80:8'",
    "time: 1h, cpus: 65535, memory: 1MiB",
    "time: 1h, memory: 1024TiB, exclusive: true",
    "time: 1h, memory: 64G",
    "time: 1h, idle: 0s",
    "time: 1h, options: [--nice, --tmp=1G, '--licenses=a@db:2,b', --nodelist=n1]",
    "time: 1h, options: --nice=-5",
    "time: 1h, options: []",
    "time: 1h, exclusive: true, options: [--cpus-per-gpu=2]",
    "time: 1h, labels: [t0, t01, t2, big]",
    "time: 1h, become: sudo, keep: {days: 1}, env: {A: b}",
};

static void test_right(void)
{
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        struct fr_buf text = {0};

        check_row(right[i]);
        fr_spec_destroy(load_ok(with_allocation(right[i], &text)));
        fr_buf_finish(&text);
    }
    check_row("");
}

static const char both[] =
    "defaults: {gpus: 2, slots: 3, user: u, work: /n, env: {A: b}, labels: [big]}\n"
    "slurm:\n"
    "  account: proj1\n"
    "  path: /opt/slurm/bin\n"
    "  rpc: 30\n"
    "  work: /scratch/me//\n"
    "  allocations:\n"
    "    train: {nodes: 3, partition: gpu, qos: long, time: 90s, gpus: a100:8, exclusive: true,\n"
    "            constraint: 'a100&nvlink', options: [--tmp=1G, --nice]}\n"
    "    prep: {account: q, reservation: r, cpus: 16, memory: 64GiB, time: 1h, idle: 5m, lease: "
    "1m, slots: "
    "1,\n"
    "           labels: [first], env: {C: d}, keep: {days: 1}, become: sudo}\n"
    "nodes: [{name: n1}]\n";

static void check_allocations(const struct fr_spec *spec)
{
    const struct fr_slurm_spec *s = spec->slurm;
    const struct fr_allocation_spec *train = &s->allocations[0], *prep = &s->allocations[1];

    CHECK_TEXT(s->work, "/scratch/me");
    CHECK_TEXT(s->account, "proj1");
    CHECK_TEXT(s->path, "/opt/slurm/bin");
    CHECK_INT(s->rpc, 30);
    CHECK_INT(s->n_allocations, 2);
    CHECK_TEXT(train->name, "train");
    CHECK_INT(train->pos.file, 1);
    CHECK_INT(train->pos.line, 8);
    CHECK_INT(train->first, 1);
    CHECK_INT(train->nodes, 3);
    CHECK_TEXT(train->partition, "gpu");
    CHECK_TEXT(train->qos, "long");
    CHECK_TEXT(train->constraint, "a100&nvlink");
    CHECK(train->account == NULL && train->reservation == NULL && train->exclusive);
    CHECK_INT(train->time_ms, 90000);
    CHECK_INT(train->gpus, 8);
    CHECK_TEXT(train->gpu_type, "a100");
    CHECK_INT(train->idle_ms, 120000);
    CHECK_INT(train->lease_ms, 1800000);
    CHECK(train->cpus == 0 && train->memory == 0);
    CHECK_INT(train->n_options, 2);
    CHECK_TEXT(train->options[1], "--nice");
    CHECK_INT(prep->first, 4);
    CHECK_INT(prep->nodes, 1);
    CHECK_TEXT(prep->account, "q");
    CHECK_TEXT(prep->reservation, "r");
    CHECK_INT(prep->cpus, 16);
    CHECK_INT(prep->memory, (int64_t)64 << 30);
    CHECK_INT(prep->idle_ms, 300000);
    CHECK_INT(prep->lease_ms, 60000);
    CHECK(prep->gpus == 0 && prep->gpu_type == NULL && !prep->exclusive && prep->partition == NULL);
}

static void check_places(const struct fr_spec *spec)
{
    const struct fr_node *train2 = &spec->nodes[2], *prep = &spec->nodes[4];

    CHECK_INT(spec->n_nodes, 5);
    CHECK_TEXT(spec->nodes[0].name, "n1");
    CHECK_INT(spec->nodes[0].gpus, 2);
    CHECK_TEXT(spec->nodes[1].name, "train1");
    CHECK_TEXT(train2->name, "train2");
    CHECK_TEXT(spec->nodes[3].name, "train3");
    CHECK_INT(train2->executor, FR_EXECUTOR_SLURM);
    CHECK_TEXT(fr_executor_name(train2), "slurm");
    CHECK_INT(train2->allocation, 0);
    CHECK_INT(train2->place, 2);
    CHECK_INT(train2->gpus, 8);
    CHECK_INT(train2->slots, 3);
    CHECK(train2->address == NULL && train2->user == NULL);
    CHECK_TEXT(train2->work, "/scratch/me/work/train2");
    CHECK_INT(train2->connect.retry_for_ms, 0);
    CHECK_INT(train2->connect.timeout_ms, 60000);
    CHECK_INT(train2->n_labels, 2);
    CHECK_TEXT(train2->labels[0], "train");
    CHECK_TEXT(train2->labels[1], "big");
    CHECK_INT(train2->n_env, 1);
    CHECK_INT(train2->keep.days, 14);
    CHECK_INT(train2->pos.line, 8);
    CHECK_TEXT(prep->name, "prep1");
    CHECK_INT(prep->allocation, 1);
    CHECK_INT(prep->place, 1);
    CHECK_INT(prep->gpus, 0);
    CHECK_INT(prep->slots, 1);
    CHECK_INT(prep->n_labels, 2);
    CHECK_TEXT(prep->labels[0], "prep");
    CHECK_TEXT(prep->labels[1], "first");
    CHECK_INT(prep->n_env, 2);
    CHECK_INT(prep->keep.days, 1);
    CHECK_INT(prep->become, FR_BECOME_SUDO);
}

/* A file with both: the head is a node, places come after the nodes. */
static void test_file(void)
{
    struct fr_source sources[] = {{"p.yaml", FR_STR("nodes: both.yaml\n"
                                                    "tasks:\n"
                                                    "  a: {run: x}\n"
                                                    "  b: {run: x, on: train, gang: true}\n"
                                                    "  c: {run: x, on: [train2, first]}\n"
                                                    "  d: {run: x, on: all}\n"
                                                    "  e: {run: x, on: [prep, n1]}\n")},
                                  {"/w/both.yaml", FR_STR(both)}};
    struct fr_spec_opts opts = {.path = "p.yaml", .cwd = "/w", .sources = sources, .n_sources = 2};
    struct fr_issues issues = {0};
    struct fr_spec *spec;
    struct fr_err err = {0};

    if (!CHECK_INT(fr_spec_load(&opts, &spec, &issues, &err), FR_OK)) {
        printf("   %s\n", err.msg);
        fr_issues_finish(&issues);
        return;
    }
    check_allocations(spec);
    check_places(spec);
    CHECK_INT(spec->tasks[0].nodes[0], 0);
    CHECK_INT(spec->tasks[1].n_nodes, 3);
    CHECK_INT(spec->tasks[1].nodes[0], 1);
    CHECK_INT(spec->tasks[2].n_nodes, 2);
    CHECK_INT(spec->tasks[2].nodes[0], 2);
    CHECK_INT(spec->tasks[2].nodes[1], 4);
    CHECK_INT(spec->tasks[3].n_nodes, 5);
    CHECK_INT(spec->tasks[4].n_nodes, 2);
    CHECK_INT(spec->tasks[4].nodes[0], 0);
    CHECK_INT(spec->tasks[4].nodes[1], 4);
    fr_spec_destroy(spec);
}

/* Without nodes: the first place is the head. Parameters may stand in every value. */
static void test_alone(void)
{
    struct fr_spec *spec = load_ok(
        "params: {n: {default: 2}, p: {default: debug}, w: {default: /w/x}}\n"
        "nodes: {slurm: {work: '${{ params.w }}', allocations: {t: {time: '${{ params.n }}h',\n"
        "  nodes: '${{ params.n }}', partition: '${{ params.p }}', gpus: 'h100:${{ params.n }}',\n"
        "  memory: '${{ params.n }}GiB', options: ['--tmp=${{ params.n }}G']}}}}\n"
        "tasks: {a: {run: x}, b: {run: x, on: t1}, c: {uses: nccl-probe, on: t}}\n");

    if (spec == NULL)
        return;
    CHECK_INT(spec->n_nodes, 2);
    CHECK_TEXT(spec->nodes[spec->tasks[0].nodes[0]].name, "t1");
    CHECK_INT(spec->tasks[1].n_nodes, 1);
    CHECK(spec->tasks[2].gang && spec->tasks[2].n_nodes == 2);
    CHECK_INT(spec->nodes[0].slots, 8);
    CHECK_TEXT(spec->slurm->work, "/w/x");
    CHECK_INT(spec->slurm->rpc, 12);
    CHECK(spec->slurm->account == NULL && spec->slurm->path == NULL);
    CHECK_INT(spec->slurm->allocations[0].time_ms, 7200000);
    CHECK_TEXT(spec->slurm->allocations[0].partition, "debug");
    CHECK_TEXT(spec->slurm->allocations[0].gpu_type, "h100");
    CHECK_INT(spec->slurm->allocations[0].memory, (int64_t)2 << 30);
    CHECK_TEXT(spec->slurm->allocations[0].options[0], "--tmp=2G");
    fr_spec_destroy(spec);
    if ((spec = load_ok("tasks: {a: {run: x}}")) != NULL)
        CHECK(spec->slurm == NULL);
    fr_spec_destroy(spec);
}

/* What a request with a fence names: Slurm's commands, and files of places, which are of this
 * machine where these share them. NULL: it may. */
static const struct {
    const char *name, *text, *params[2], *want;
} fenced[] = {
    {"another folder of commands",
     "nodes: {slurm: {work: '${{ params.w }}', path: '${{ params.p }}',\n"
     "  allocations: {t: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}\n",
     {"w=/usr/share", "p=/etc"},
     "p.yaml:2:48: '/etc' is no file that a token may name"},
    {"folders in the fence",
     "nodes: {slurm: {work: '${{ params.w }}', path: '${{ params.p }}',\n"
     "  allocations: {t: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}\n",
     {"w=/usr/share", "p=/usr/bin"},
     NULL},
    {"a file of a place",
     "nodes: {slurm: {work: /w, allocations: {t: {time: 1h}}}}\n"
     "tasks: {a: {run: x, files: {f: 'node:${{ params.p }}'}}}\n",
     {"w=/usr", "p=/etc/passwd"},
     "p.yaml:3:32: '/etc/passwd' is no file that a token may name"},
    {"a file of another machine",
     "nodes: [{name: n, address: h}]\n"
     "tasks: {a: {run: x, files: {f: 'node:${{ params.p }}'}}}\n",
     {"w=/usr", "p=/etc/passwd"},
     NULL},
};

static void test_fence(void)
{
    static const char *const folders[] = {"/usr"};
    struct fr_fence fence = {folders, 1, "a token", 2};

    for (size_t i = 0; i < sizeof(fenced) / sizeof(fenced[0]); i++) {
        struct fr_buf text = {0};
        struct fr_source source = {"p.yaml", {0}};
        struct fr_spec_opts opts = {.path = "p.yaml",
                                    .cwd = "/w",
                                    .params = fenced[i].params,
                                    .n_params = 2,
                                    .fence = &fence,
                                    .sources = &source,
                                    .n_sources = 1};
        struct fr_issues issues = {0};
        struct fr_spec *spec;
        struct fr_err err = {0};

        check_row(fenced[i].name);
        fr_buf_fmt(&text, "params: {w: {default: /a}, p: {default: /b}}\n%s", fenced[i].text);
        source.text = fr_str_of(text.p);
        CHECK_INT(fr_spec_load(&opts, &spec, &issues, &err),
                  fenced[i].want != NULL ? FR_USAGE : FR_OK);
        CHECK_INT(issues.n, fenced[i].want != NULL);
        CHECK(fr_has_prefix(err.msg, fenced[i].want != NULL ? fenced[i].want : ""));
        fr_spec_destroy(spec);
        fr_issues_finish(&issues);
        fr_buf_finish(&text);
    }
    check_row("");
}

int main(void)
{
    test_wrong();
    test_right();
    test_file();
    test_alone();
    test_fence();
    return check_done();
}
