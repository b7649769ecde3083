"""Commands of a run of scripts/test: what they print is shown as they print it, and kept for the last lines."""
import os
import re
import shutil
import subprocess

ERROR = re.compile(r"error|^FAILED|: expected|warning: unused")


def jobs():
    """What to do at once: one a processor that this process may use. How many sources memory has room for is CMake's care."""
    return len(os.sched_getaffinity(0))


def nvcc():
    """CUDA's compiler, or None."""
    usual = "/usr/local/cuda/bin/nvcc"
    return os.environ.get("CUDACXX") or shutil.which("nvcc") or (usual if os.access(usual, os.X_OK) else None)


def fixed_addresses():
    """The words before a command that ThreadSanitizer needs, whose part of the address space must be free."""
    words = ["setarch", os.uname().machine, "--addr-no-randomize"]
    return words if shutil.which("setarch") and subprocess.run([*words, "true"], stderr=subprocess.DEVNULL).returncode == 0 else []


def shown(*words):
    """Runs a command in the sight of who waits for it: its exit status, and the lines that it printed."""
    process = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                               text=True, errors="replace")
    lines = []
    with process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    return process.returncode, lines


def errors_in(lines):
    """The lines of a command that failed by which a reader finds the fault."""
    return [line for line in lines if ERROR.search(line)][:20] or lines[-20:]
