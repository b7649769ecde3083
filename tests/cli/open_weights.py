"""What Python makes of a file of weights, for in_python_test.cpp.

    open_weights.py read FILE              prints a JSON object: the shape and the sum of each array, and the metadata
    open_weights.py write FILE             writes arrays of float16, float32 and float64
    open_weights.py read-torch FILE        the same as PyTorch opens it
    open_weights.py write-torch FILE       writes what a module of PyTorch keeps: a layer, a normalisation with its count, and bfloat16
    open_weights.py read-npz FILE          the same of a file of numpy
    open_weights.py write-npz FILE
    open_weights.py write-packed-npz FILE
    open_weights.py write-objects FILE     writes an array of Python objects

Exit status 77: this machine lacks the package.
"""
import json
import sys

what, path = sys.argv[1:]
try:
    import numpy

    if what in ("read", "write"):
        import safetensors
        import safetensors.numpy
    if what in ("read-torch", "write-torch"):
        import safetensors
        import safetensors.torch
        import torch
except ImportError:
    sys.exit(77)


def sums(arrays):
    return {name: [list(a.shape), float(a.astype("float64").sum())] for name, a in arrays.items()}


ramp = numpy.arange(6).reshape(2, 3)
if what == "read":
    arrays = safetensors.numpy.load_file(path)
    with safetensors.safe_open(path, "numpy") as file:
        metadata = file.metadata()
    print(json.dumps({"arrays": sums(arrays), "metadata": metadata}))
elif what == "write":
    safetensors.numpy.save_file(
        {"half": ramp.astype("float16"), "single": ramp.astype("float32"), "double": ramp / 8}, path, {"by": "python"}
    )
elif what == "read-torch":
    arrays = safetensors.torch.load_file(path)
    if any(a.dtype != torch.float32 for a in arrays.values()):
        sys.exit("expected float32")
    with safetensors.safe_open(path, "pt") as file:
        metadata = file.metadata()
    print(json.dumps({"arrays": {n: [list(a.shape), float(a.double().sum())] for n, a in arrays.items()}, "metadata": metadata}))
elif what == "write-torch":
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        module[0].weight.copy_(torch.arange(6).reshape(2, 3))
    state = {**module.state_dict(), "brain": (torch.arange(6) / 8).bfloat16(), "half": torch.arange(6).half()}
    safetensors.torch.save_file(state, path, {"format": "pt"})
elif what == "read-npz":
    file = numpy.load(path)
    texts = {name: json.loads(bytes(file[f"__{entry}__"])) for name, entry in (("card", "mailgrad"), ("report", "report"))}
    print(json.dumps({"arrays": sums({n: file[n] for n in file.files if not n.startswith("__")}), **texts}))
elif what == "write-objects":
    numpy.savez(path, objects=numpy.array([{}, 1], dtype=object))
else:
    save = numpy.savez if what == "write-npz" else numpy.savez_compressed
    save(path, **{"half": ramp.astype("float16"), "a/single": ramp.astype("float32"), "double": ramp / 8, "scalar": numpy.float32(3)})
