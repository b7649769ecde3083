#!/usr/bin/env python3
"""Tries every code block of README.md, docs/*.md and docs/examples that is not C++, and checks that all C++ is compiled.

    tests/pages/pages_test.py TOOL                     all blocks; TOOL is the program mailgrad, and mailgrad-lab lies beside it
    tests/pages/pages_test.py TOOL --plugins BUILD     the plug-ins that were built of page_blocks.py's project, in BUILD

Exit status 1, with a line for each block that does not hold.

Blocks of a shell run in a real shell, in a folder of small data under the names of the pages. The programs that they start
are stand-ins, which note how they are called. Then the real tool is called so, where that ends by itself, needs no GPU and
finds its files. Otherwise it gets one option more, which it does not have: if it finds nothing else wrong, it understands
the rest.
"""
import ast
import concurrent.futures
import configparser
import json
import os
import pathlib
import random
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile

import page_blocks
from page_blocks import ROOT

# Why these blocks of C++ are not tried. Keep it short.
EXCUSED = {
    "custom_operation/8_a_kernel_of_your_own_on_a_gpu_1": "only nvcc takes a launch by <<<>>>",
}
NO_CODE = {
    "": "what a program prints, or the grammar of a file",
    "mermaid": "a drawing",
}

# What stands in for programs: those that start others, and those that do nothing.
LAUNCHERS = ["mpirun", "srun", "ssh", "sudo"]
IDLE = ["scp", "curl", "jq", "tail", "dot", "prometheus", "tensorboard", "hostname", "sleep"]
NOTED = ["mailgrad", "cmake"]
# A call is one write, since calls of two scripts may come at once.
NOTE = """#!/bin/sh
words=$(printf '%s\\037' "${0##*/}" "$@")
printf '%s\\036' "$words" >> "$CALLS"
"""
LAUNCH = """#!/bin/sh
while [ $# -gt 0 ] && [ "$1" != mailgrad ]; do shift; done
[ $# -eq 0 ] || "$@"
"""
# Calls of the tool that end by themselves, files that they read, and files that they write.
RUN = ["train", "test", "predict", "generate", "export", "replay", "report", "graph", "devices"]
RUN_IN_LAB = [["lab", "run"], ["lab", "list"]]
LARGE = ["lars", "shampoo:every=20", "auto:window=50,wait=0.05"]  # take seconds, or more samples than there are here
READ = ["--resume", "--load", "--model-file", "--rows", "--data"]
WRITTEN = ["--save", "--report", "--record", "--out", "--onnx", "--svg", "--png", "--metrics", "--trace", "--staleness-csv",
           "--tensorboard", "--checkpoint"]
FILE = re.compile(r"\.(safetensors|npz|rec|json|csv|txt|so)(:.*)?$|/$")
UNKNOWN = "--not-an-option"


def fill(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def write_idx(path, shape, values):
    path.write_bytes(struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(values))


def write_data(folder):
    """The data that the pages name, small and meaningless."""
    draw = random.Random(1)
    (folder / "fashion-mnist").mkdir()
    for part, n in (("train", 128), ("t10k", 20)):
        write_idx(folder / f"fashion-mnist/{part}-images-idx3-ubyte", [n, 28, 28], draw.choices(range(256), k=n * 784))
        write_idx(folder / f"fashion-mnist/{part}-labels-idx1-ubyte", [n], [i % 10 for i in range(n)])
    (folder / "optdigits").mkdir()
    for part, n in (("tra", 80), ("tes", 20)):
        rows = [",".join(map(str, [*draw.choices(range(17), k=64), i % 10])) + "\n" for i in range(n)]
        (folder / f"optdigits/optdigits.{part}").write_text("".join(rows))
    (folder / "plays.txt").write_text("".join(draw.choices("to be or not to be,\n", k=4000)))
    rows = [f"{draw.randrange(20)},{draw.randrange(30)},{draw.randint(1, 5)},{i}\n" for i in range(400)]
    (folder / "ratings.csv").write_text("userId,movieId,rating,timestamp\n" + "".join(rows))
    rows = [f"{i},{draw.random():.3f},{'' if i == 7 else draw.randrange(9)},{draw.choice(['rose', 'tulip'])}\n" for i in range(200)]
    (folder / "flowers.csv").write_text("key,length,width,kind\n" + "".join(rows))
    (folder / "new.csv").write_text("key,length,width\n1,0.5,3\n")


class Shell:
    """A folder with the data of the pages, and the stand-ins."""

    def __init__(self, folder):
        self.folder, self.work = folder, folder / "work"
        for name in NOTED:
            fill(folder / "bin" / name, NOTE)
        for name in LAUNCHERS:
            fill(folder / "bin" / name, LAUNCH)
        idle = [f"bin/{name}" for name in IDLE] + [f"work/scripts/{path.name}" for path in (ROOT / "scripts").iterdir()]
        for name in [*idle, "work/build/ci/tests/kernels/cuda/kernels_cuda_test"]:
            fill(folder / name, "#!/bin/sh\n")
        write_data(self.work)

    def calls(self, text):
        """Runs a script. Returns the calls that it made, and what went wrong."""
        noted = self.folder / "calls"
        noted.write_text("")
        fill(self.folder / "script", text)
        environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "CALLS": str(noted), "HOME": str(self.folder)}
        run = subprocess.run(["bash", "-euo", "pipefail", self.folder / "script", "one", "two"], cwd=self.work,
                             env=environment, capture_output=True, text=True, timeout=60)
        made = [c.split("\037")[:-1] for c in noted.read_text(encoding="utf-8").split("\036")[:-1]]
        return made, run.stderr.strip() if run.returncode != 0 or run.stderr else ""


class Tool:
    """The real tool, as it is called in the folder of a page."""

    def __init__(self, path, folder):
        self.path, self.folder = path, folder

    def run(self, words):
        return subprocess.run([self.path, *words], cwd=self.folder, capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL)

    def may_run(self, words):
        """Whether the command ends by itself, soon, on any machine, and finds its files here."""
        if words[0] not in RUN and words[:2] not in RUN_IN_LAB or {"--live", *LARGE} & set(words):
            return False
        if any("cuda" in w or "cpu:1" in w and os.cpu_count() == 1 for w in words):
            return False
        if not shutil.which("gnuplot") and any(w in ("--svg", "--png") for w in words):
            return False
        read = [w for before, w in zip(["", *words], words) if before not in WRITTEN and (before in READ or FILE.search(w))]
        return all((self.folder / w.split(":")[0]).exists() for w in read)

    def wrong(self, words):
        """What is wrong with a call, in a line."""
        if self.may_run(words):
            done = self.run(words)
            if done.returncode != 0:
                yield f"mailgrad {' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}"
            return
        found = self.run([*words, UNKNOWN])
        if found.returncode != 2 or f"has no option '{UNKNOWN}'" not in found.stderr:
            yield f"mailgrad {' '.join(words)}: {found.stderr.strip()}"


class Page:
    """Tries the blocks of a page, one after the other. Each function for a language yields what is wrong with a block."""

    def __init__(self, path, tool, folder):
        self.path, self.shell = path, Shell(folder)
        self.tool = Tool(tool, self.shell.work)

    def wrong(self):
        outside = re.sub(r"^```.*?^```$", "", self.path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        if re.search(r"^    mailgrad ", outside, re.MULTILINE):
            yield f"{self.path.name}: put commands of the tool between lines of ```sh and ```"
        for block in page_blocks.blocks_of(self.path):
            if block.language in NO_CODE:
                continue
            test = getattr(self, block.language, None)
            if test is None:
                yield f"{block.where()}: nothing tries blocks of '{block.language}'; say how in tests/pages/pages_test.py"
                continue
            try:
                yield from (f"{block.where()}: {line}" for line in test(block))
            except (ValueError, KeyError, SyntaxError, configparser.Error, sqlite3.Error) as e:
                yield f"{block.where()}: {e}"

    def sh(self, block):
        made, wrong = self.shell.calls(block.text)
        if wrong:
            yield wrong
        presets = {p["name"] for p in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}
        for name, *words in made:
            if name == "mailgrad":
                yield from self.tool.wrong(words)
            else:
                named = [b for a, b in zip(words, words[1:]) if a == "--preset"]
                yield from (f"CMake has no preset '{p}'" for p in named if p not in presets)

    def cpp(self, block):
        compiled = re.findall(r"#include <pages/(.+)\.inc>", (ROOT / "tests/pages/pages_test.cpp").read_text())
        tried = block.name in compiled or block.plugin() or is_quoted(block)
        if not tried and block.name not in EXCUSED:
            yield (f"no test compiles it: include <pages/{block.name}.inc> in tests/pages/pages_test.cpp, end it with"
                   " MAILGRAD_PLUGIN, MAILGRAD_POLICY or MAILGRAD_CURE, or quote a source that the page links")

    def json(self, block):
        content = json.loads(block.text)
        if "layers" in content:
            name = content["name"] + ".json"  # as the commands of the page call it
            (self.shell.work / name).write_text(block.text, encoding="utf-8")
            yield from self.tool.wrong(["graph", "--model", name])
        elif content != json.loads((ROOT / "demos/sweep.json").read_text()):
            yield "is neither a model nor demos/sweep.json"

    def python(self, block):
        ast.parse(block.text)
        return ()

    def ini(self, block):
        unit = configparser.RawConfigParser()
        unit.read_string(block.text)
        start = unit["Service"]["ExecStart"].replace("\\\n", " ").replace("%i", "127.0.0.1:7000").split()
        if start[0] != "/usr/bin/mailgrad":
            yield f"starts {start[0]}"
        yield from self.tool.wrong(start[1:])

    def sql(self, block):
        tables = sqlite3.connect(":memory:")
        tables.executescript("create table slice(track_id, name, dur); create table thread_track(id, utid);"
                             "create table thread(utid, name);")
        tables.execute(block.text)
        return ()

    def cmake(self, block):
        if "find_package(mailgrad REQUIRED" not in block.text:
            yield "no test configures it: page_blocks.py takes lines of CMake that find Mailgrad"


def is_quoted(block):
    """Whether a source that the page links, or a demo, has the same lines: those between two lines of dots together."""
    page = (ROOT / block.page).read_text(encoding="utf-8")
    linked = [(ROOT / block.page).parent / path for path in re.findall(r"\]\(([\w/.]+\.(?:cpp|hpp|h|cu))\)", page)]
    together = [re.sub(r"\s+", "", part) for part in re.split(r"^\s*\.\.\.$", block.text, flags=re.MULTILINE)]
    pattern = re.compile(".*".join(map(re.escape, together)))
    sources = [*linked, *(ROOT / "demos").glob("*.?pp")]
    return any(pattern.search(re.sub(r"\s+", "", s.read_text(encoding="utf-8"))) for s in sources if s.is_file())


def plugin_calls(build):
    """(folder, words) by which the tool loads each plug-in of the pages: as the page calls it, or else by its kind."""
    small = ["--model", "softmax", "--data", str(ROOT / "tests/cli/small.csv"), "--batch", "4", "--devices", "cpu:0,cpu:0"]
    for page in page_blocks.pages():
        blocks = page_blocks.blocks_of(page)
        made = {b.plugin(): b for b in blocks if b.language == "cpp" and b.plugin()}
        for name, block in made.items():
            kind = {"PLUGIN": "--optimizer", "POLICY": "--policy", "CURE": "--cure"}
            option = next(o for k, o in kind.items() if f"MAILGRAD_{k}(" in block.text)
            said = re.search(rf"^mailgrad (train .*\./lib{name}\.so.*)$", "".join(b.text for b in blocks if b.language == "sh"),
                             re.MULTILINE)
            words = said[1].split() if said else ["train", option, f"./lib{name}.so"]
            missing = [w for pair in zip(small[::2], small[1::2]) if pair[0] not in words for w in pair]
            yield build / page.stem, [*words, *missing]


def wrong_plugins(tool, build):
    for folder, words in plugin_calls(build):
        done = subprocess.run([tool, *words], cwd=folder, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            yield f"mailgrad {' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}"


def main():
    tool = pathlib.Path(sys.argv[1]).resolve()
    if sys.argv[2:3] == ["--plugins"]:
        found = list(wrong_plugins(tool, pathlib.Path(sys.argv[3])))
    else:
        with tempfile.TemporaryDirectory(prefix="mailgrad-pages-") as name, concurrent.futures.ThreadPoolExecutor(2) as threads:
            tried = lambda page: list(Page(page, tool, pathlib.Path(name) / page.stem).wrong())
            found = [line for lines in threads.map(tried, page_blocks.pages()) for line in lines]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
