#!/usr/bin/env python3
"""Runs a tool that was built without all that a build may leave out: it trains, and names what it lacks.

    tests/steps/bare_tool.py TOOL
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOOL = Path(sys.argv[1]).resolve()
TABLE = Path(__file__).resolve().parents[1] / "cli" / "small.csv"
PAGE = Path(__file__).resolve().parents[2] / "cli" / "live" / "page"
# Runs the scripts of the page as far as they begin, in a page where all that is asked for is there.
BEGIN = """
const any = new Proxy(function () {}, {get: (_, key) => key === Symbol.toPrimitive ? () => "" : key === Symbol.iterator
  ? function* () {} : any, apply: () => any, construct: () => any, set: () => true});
const names = ["document", "getComputedStyle"];
const scripts = process.argv.slice(1).map(file => require("fs").readFileSync(file, "utf8")).join("");
new Function(...names, scripts + "pictures.begin(); pictures.begin(['a', 'b']);")(any, () => any);
"""
TRAIN = ("train", "--data", TABLE, "--model", "softmax", "--batch", "8", "--epochs", "1")


def run(*words):
    ended = subprocess.run([TOOL, *map(str, words)], capture_output=True, text=True, timeout=300)
    return ended.returncode, ended.stdout + ended.stderr


def expect(status, text, *words):
    found, said = run(*words)
    if found != status or text not in said:
        sys.exit(f"error: {' '.join(map(str, words))}: expected status {status} and '{text}', found {found} and:\n{said}")


with tempfile.TemporaryDirectory() as folder:
    weights, pictures = Path(folder, "weights.safetensors"), Path(folder, "pictures", "one")
    expect(0, "accuracy", *TRAIN, "--save", weights)
    expect(2, "built without Protocol Buffers", *TRAIN, "--tensorboard", Path(folder, "board"))
    expect(2, "built without Protocol Buffers", "export", "--model-file", weights, "--onnx", Path(folder, "model.onnx"))
    pictures.mkdir(parents=True)
    Path(pictures, "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    expect(1, "built without libpng", "train", "--data", pictures.parent, "--model", "softmax")
    if b"built without Chart.js" not in TOOL.read_bytes():
        sys.exit("error: the live page does not say that its charts are missing")
    if shutil.which("node"):
        subprocess.run(["node", "-e", BEGIN, PAGE / "no_chart.js", PAGE / "pictures.js"], check=True)
    else:
        print("Skipped: the scripts of the page without charts (node is not there)")
print("The bare tool trains, and names what it lacks")
