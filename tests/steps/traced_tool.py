#!/usr/bin/env python3
"""Compares the way of a gradient, as docs/architecture.md lists its classes, with a run that counts its calls.

    tests/steps/traced_tool.py TOOL     a tool built by the preset `traced`

Every class of the page is entered with each gradient. Every class of engine/shard, actors/shard, actors/worker,
actors/remote and net that takes a gradient with each step stands on the page, or below with the reason.
"""
import collections
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("engine/shard", "actors/shard", "actors/worker", "actors/remote", "net")
TABLE = ROOT / "tests" / "cli" / "small.csv"
MODEL, WORKERS = "mlp:hidden=2048x2048", 3  # gradients so large that a server lets in a few at a time
# Classes that see a gradient and are no place of its way.
BESIDE = {
    "gradient_payload": "is the gradient in a message",
    "push_gradient": "is the message",
    "ready": "is a gradient that waits, in gradient_order",
    "worker_slot": "is an entry of worker_slots",
    "shard_timeline": "keeps a book",
    "held": "is a gradient that waits, in gradient_form",
    "admission": "is the base of transit and gradient_credit",
    "field_inspector": "writes the fields of every message",
    "shard_cut": "knows which gradients a checkpoint has",
}
STANDS_FOR = {"policy": "async_policy", "optimizer": "rule_optimizer"}


def named():
    """The classes in the first columns of the page's tables, and those of the device."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    way = page[page.index("## The way of a gradient"):page.index("## The start of a run")]
    rows = re.findall(r"^\| (`.*?) \|", way, re.MULTILINE)
    classes = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    return classes - {"tls_pipe"} | {"device_actor", "shard_exchange", "shard_lines"}


def traced(tool, hooks, folder, steps):
    """How often a server and its workers enter each function, by its name, in a run of so many steps."""
    files = [folder / f"{steps}.{i}" for i in range(WORKERS + 1)]

    def start(words, file, **more):
        env = {"LD_PRELOAD": hooks, "MAILGRAD_CALLS": file, "MAILGRAD_CACHE": folder, "PATH": "/usr/bin:/bin"}
        return subprocess.Popen([tool, *words], env={k: str(v) for k, v in env.items()}, text=True, **more)

    server = start(["serve", "--listen", "127.0.0.1:0", "--workers", str(WORKERS), "--model", MODEL, "--data", TABLE,
                    "--steps", str(steps), "--policy", "async"], files[0],
                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    address = next(found[0] for line in server.stdout if (found := re.findall(r"\d+\.\d+\.\d+\.\d+:\d+", line)))
    workers = [start(["join", address], file, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for file in files[1:]]
    server.stdout.read()
    if any(process.wait() for process in (server, *workers)):
        sys.exit(f"error: a run of {steps} steps failed")
    counts = collections.Counter()
    for file in files:
        counts.update({int(at, 16): int(calls) for at, calls in map(str.split, file.read_text().splitlines())})
    return counts


def names_of(tool):
    """The functions of a program by their addresses."""
    lines = subprocess.run(["nm", "-C", "--defined-only", tool], capture_output=True, text=True, check=True).stdout.splitlines()
    return {int(at, 16): name.replace("(anonymous namespace)::", "") for at, kind, name in (line.split(" ", 2) for line in lines) if kind in "tTwW"}


def folder_of():
    """Where each class of these folders is defined."""
    return {name: file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.?pp"))
            for name in re.findall(r"^ *(?:class|struct) (\w+)[^;]*\{", file.read_text(encoding="utf-8"), re.MULTILINE)}


def main():
    tool = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        hooks = folder / "count_calls.so"
        subprocess.run(["c++", "-std=c++20", "-O2", "-shared", "-fPIC", "-o", hooks, Path(__file__).with_name("count_calls.cpp")],
                       check=True)
        few, many = (traced(tool, hooks, folder, steps) for steps in (30, 60))
    names, known = names_of(tool), folder_of()
    entered, takes = set(), set()
    for at, calls in many.items():
        member = re.match(r"(?:.*? )?mailgrad::(?:\w+::)*(\w+)(?:<.*>)?::~?\w+(?:<.*>)?\((.*)\)", names.get(at, ""))
        if not member or calls - few[at] < 30:
            continue
        entered.add(member[1])
        if re.search("gradient|push", member[2]):
            takes.add(member[1])
    page = named()
    lost = {name for name in page if STANDS_FOR.get(name, name) not in entered}
    unnamed = {name for name in takes & known.keys() if name not in page and name not in BESIDE}
    for name in sorted(lost):
        print(f"error: {name} stands on the page, and no gradient enters it")
    for name in sorted(unnamed):
        print(f"error: {name} ({known[name].relative_to(ROOT)}) takes each gradient, and the page does not name it")
    if lost or unnamed:
        sys.exit(1)
    print(f"A gradient goes through the {len(page)} classes that the page names")


main()
