"""The blocks of code in the pages below docs and in README.md: what the tests run of them, and the one list of what they do
not run, with the reason or with the test that does."""
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = ["README.md"] + ["docs/%s.md" % n for n in ("cluster", "gpu", "layouts", "messages", "migrate", "page", "pipelines", "schedules", "slurm", "trainer")]
# By page: how a block begins, and where it is run, or why nowhere.
NOT_RUN = {
    "README.md": {
        "make run": "installs packages: what a bare machine does, and CI (tests/environments.sh)",
        "flowrun pipelines/deepseek-lora.yaml": "train.sh",
        "03:48:00 run 1": "what train.sh's run prints",
        "task       node": "the same",
        "publish@n1 gave": "the same",
        "work=~/": "a training of three nodes comes before it: train.sh; generate itself: docs.sh",
        "name: greetings": "docs.sh",
        "flowtrain init --example": "docs.sh",
    },
    "docs/gpu.md": {
        "meson configure": "needs nvcc: by hand, on a machine that has it",
        "bash gpu/device.sh ops": "needs a GPU: tests/bench/device.sh, by hand; its words without one: device.sh",
    },
    "docs/layouts.md": {"Plan and run": "what a run of four ranks prints: trainer_plan.py compares planned and counted"},
    "docs/migrate.md": {
        "flowrun pipelines/deepseek-lora.yaml": "over SSH on nodes: ssh_train.sh",
        "mpirun -n": "trainer_launchers.py, where MPICH and Slurm are",
    },
    "docs/pipelines.md": {"fit:\n  matrix:": "rows like these: matrix.sh"},
    "docs/schedules.md": {
        "nightly-lora/nightly of": "two nights: nightly.sh",
        "flowrun runs": "nightly.sh",
        "run  id": "nightly.sh",
        "flowrun logs 2": "nightly.sh",
        "[0] train@n1": "nightly.sh",
        "for night in": "nightly.sh",
        "publish@n1 gave": "nightly.sh",
    },
    "docs/slurm.md": {
        "cp examples/clusters/slurm.yaml": "slurm.py train, where Slurm is",
        "flowrun pipelines/deepseek-lora.yaml": "the same, with a model that is not there",
        "allocation wide: 120 queued": "slurm_copies.py",
        "allocation train: Slurm job 4711 of cluster": "slurm_left.py",
        "node1: the container of": "slurm_container.py",
    },
    "docs/trainer.md": {"flowtrain init --example": "docs.sh", "flowtrain generate": "docs.sh", "flowtrain merge": "docs.sh"},
}


class Docs:
    def __init__(self):
        self.blocks = {page: blocks_of(page) for page in PAGES}
        self.taken = set()

    def take(self, page, begins):
        """The first block that begins so and was not taken yet."""
        for i, text in enumerate(self.blocks[page]):
            if text.lstrip().startswith(begins) and (page, i) not in self.taken:
                self.taken.add((page, i))
                return text
        raise SystemExit("FAILED: %s has no block that begins with %r" % (page, begins))

    def left(self):
        """What is neither run nor in the list, and what the list has that no page has any more."""
        out = []
        for page, blocks in self.blocks.items():
            listed = dict(NOT_RUN.get(page, {}))
            for i, text in enumerate(blocks):
                if (page, i) in self.taken:
                    continue
                begins = next((b for b in listed if text.lstrip().startswith(b)), None)
                if begins is None:
                    out.append("%s: %s" % (page, text.split("\n")[0]))
                else:
                    del listed[begins]
            out += ["%s: no block begins with %r" % (page, begins) for begins in listed]
        return out


def blocks_of(page):
    """Runs of lines that are indented by four, behind an empty line that follows no item of a list."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as f:
        lines = f.read().split("\n")
    out, block = [], []
    for line in lines + [""]:
        if line.startswith("    "):
            block.append(line[4:])
        elif block:
            out.append("\n".join(block) + "\n")
            block = []
    return out


def commands_of(page):
    """What stands in the text between backquotes and calls one of the programs: [its words]."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as f:
        text = re.sub(r"(?m)^    .*$", "", f.read())
    found = re.findall(r"`((?:flowrun|flowtrain) [^`]+)`", re.sub(r"\s+", " ", text))
    return [re.sub(r"[\"'“”]", "", command).split() for command in found]


def unknown_flags(programs, pages=PAGES):
    """Commands and flags that pages name and the programs' help does not."""
    helps, out = {}, []
    with open(os.path.join(ROOT, "docs/arguments.md"), encoding="utf-8") as f:
        arguments = f.read()
    for page in pages:
        for words in commands_of(page):
            name, command = words[0], words[1]
            if command.startswith("-") or "." in command or "/" in command or command in ("help", "…", "FILE"):
                continue
            if (name, command) not in helps:
                ask = [programs[name], "help", command] if name == "flowrun" else [programs[name], command, "--help"]
                got = subprocess.run(ask, capture_output=True, text=True)
                helps[name, command] = got.stdout + got.stderr if got.returncode == 0 else None
            known = helps[name, command]
            if known is None:
                out.append("%s: %s %s: no such command" % (page, name, command))
                continue
            for flag in [w for w in words[2:] if re.fullmatch(r"--?[a-z][\w-]*,?", w)]:
                flag = flag.rstrip(",")
                if not re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(flag), known) and "`%s`" % flag.lstrip("-") not in arguments:
                    out.append("%s: %s: no flag %s" % (page, " ".join(words), flag))
    return out
