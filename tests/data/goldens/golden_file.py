"""What the scripts here that make goldens share: how cases are written into a JSON file, one a line."""
import base64
import gzip
import json
import os
import sys


def b64(data):
    return base64.b64encode(bytes(data)).decode()


def gz(data):
    return gzip.compress(bytes(data), mtime=0)


def write(name, made_by, cases):
    """Writes NAME.json beside this script. A case that comes twice is a slip."""
    names = [c["name"] for c in cases]
    if twice := {n for n in names if names.count(n) > 1}:
        sys.exit(f"{name}: two cases are called {sorted(twice)}")
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"made_by": ' + json.dumps(made_by) + ',\n "cases": [\n')
        file.write(",\n".join(json.dumps(c) for c in cases))
        file.write("\n]}\n")
    print(f"{path}: {len(cases)} cases")
