"""What ONNX Runtime makes of a model that Mailgrad wrote, for in_python_test.cpp.

    open_onnx.py MODEL NUMBERS TYPE     checks the model and runs it on samples of numbers, a raw file of little-endian
                                        float32 or int32; prints the logits as JSON, of one batch and one by one

Exit status 77: this machine lacks the packages.
"""
import json
import sys

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError:
    sys.exit(77)

path, numbers, kind = sys.argv[1:]
onnx.checker.check_model(onnx.load(path), full_check=True)
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
(inputs,) = session.get_inputs()
samples = numpy.fromfile(numbers, dtype=kind).reshape([-1, *inputs.shape[1:]])


def logits(batch):
    return session.run(["logits"], {inputs.name: batch})[0].ravel().tolist()


print(json.dumps({
    "metadata": session.get_modelmeta().custom_metadata_map,
    "together": logits(samples),
    "alone": [x for i in range(len(samples)) for x in logits(samples[i:i + 1])],
}))
