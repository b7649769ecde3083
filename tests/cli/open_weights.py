"""What Python's safetensors makes of a file of weights, for weights_in_python_test.cpp.

    open_weights.py read FILE     prints a JSON object: the shape and the sum of each array, and the metadata
    open_weights.py write FILE    writes arrays of float16, float32 and float64

Exit status 77: this machine lacks the package.
"""
import json
import sys

try:
    import numpy
    import safetensors
    import safetensors.numpy
except ImportError:
    sys.exit(77)

what, path = sys.argv[1:]
if what == "read":
    arrays = safetensors.numpy.load_file(path)
    with safetensors.safe_open(path, "numpy") as file:
        metadata = file.metadata()
    sums = {name: [list(a.shape), float(a.astype("float64").sum())] for name, a in arrays.items()}
    print(json.dumps({"arrays": sums, "metadata": metadata}))
else:
    ramp = numpy.arange(6).reshape(2, 3)
    safetensors.numpy.save_file(
        {"half": ramp.astype("float16"), "single": ramp.astype("float32"), "double": ramp / 8}, path, {"by": "python"}
    )
