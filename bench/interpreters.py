"""Interpreters of Python with what the peers need."""

import pathlib
import subprocess
import venv

from running import say

BUILD = pathlib.Path(__file__).resolve().parent.parent / "build"


def has(python, *modules):
    try:
        return subprocess.run([python, "-c", f"import {', '.join(modules)}"], stderr=subprocess.DEVNULL,
                              check=False).returncode == 0
    except OSError:
        return False  # there is no such interpreter


def made(name, *packages):
    """The interpreter of build/NAME, which is made with these packages where it is not there; None if that fails."""
    folder = BUILD / name
    python = str(folder / "bin" / "python")
    if not (folder / "bin" / "python").exists():
        say(f"making {folder} with {' and '.join(packages)}")
        venv.create(folder, with_pip=True)
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            say(f"{' and '.join(packages)} cannot be installed: {done.stderr.strip()[-200:]}")
            return None
    return python
