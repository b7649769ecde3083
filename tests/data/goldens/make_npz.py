#!/usr/bin/env python3
"""Makes npz.json: small *.npz and *.npy files of NumPy, and the numbers and labels that NumPy reads from them.

Made with Python 3.11.7 and NumPy 2.4.6.

"numbers" are x.astype(float32) in C order, or bytes as they are; "labels" are the places of y among the sorted classes
of y_train; "targets" are y.astype(float32). Whether y has classes or targets is our rule and not NumPy's: whole numbers
of any type are classes. A case with "refusal" is to be refused by a line that begins so.
"""
import io
import sys
import warnings
import zipfile

import numpy
import numpy.lib.format

import golden_file
from golden_file import b64, gz

random = numpy.random.default_rng(45)
cases = []

Y_TRAIN, Y_TEST = numpy.array([7, 3, 7, -2]), numpy.array([3, 7])


def npy(array, version=None):
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on the versions of the format
        numpy.lib.format.write_array(out, numpy.asanyarray(array), version=version, allow_pickle=True)
    return out.getvalue()


def npz(compressed=False, **arrays):
    out = io.BytesIO()
    (numpy.savez_compressed if compressed else numpy.savez)(out, **arrays)
    return out.getvalue()


def zipped(entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name + ".npy"), data)
    return out.getvalue()


def part(x, y, classes):
    x, y = numpy.asarray(x), numpy.asarray(y).reshape(-1)
    dims = list(x.shape[1:]) if x.ndim > 1 else [1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = x if x.dtype == numpy.uint8 else x.astype(numpy.float32)
    found = {"dims": dims + [1] if x.ndim == 3 else dims, "numbers": numbers.ravel().tolist()}
    if classes is None:
        found["targets"] = y.astype(numpy.float32).tolist()
    else:
        found["labels"] = [classes.index(int(v)) for v in y]
    return found


def whole(y):
    return y.dtype.kind in "iub" or bool(numpy.all(y == numpy.floor(y)))


def expect(name, files, x_train, y_train, x_test, y_test, opened="", **options):
    y = numpy.asarray(y_train)
    as_classes = options.get("task", "classes" if whole(y) else "numbers") == "classes"
    classes = sorted({int(v) for v in y.ravel()}) if as_classes else None
    case = {"name": name, "files": {n: b64(data) for n, data in files.items()}, "open": opened,
            "train": part(x_train, y_train, classes), "test": part(x_test, y_test, classes),
            "class_names": [str(c) for c in classes or []]}
    cases.append(case | ({"options": options} if options else {}))


def add(name, x_train, x_test=None, y_train=Y_TRAIN, y_test=Y_TEST, compressed=False, **options):
    x_test = x_train[:2] if x_test is None else x_test
    arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
    expect(name, {"d.npz": npz(compressed, **arrays)}, opened="d.npz", **arrays, **options)


def refused(name, words, x_train=None, y_train=Y_TRAIN, x_test=None, y_test=Y_TEST, **options):
    x = numpy.arange(8.0).reshape(4, 2)
    arrays = {"x_train": x if x_train is None else x_train, "y_train": y_train, "x_test": x[:2] if x_test is None else x_test,
              "y_test": y_test}
    refused_files(name, words, {"d.npz": npz(**arrays)}, "d.npz", **options)


def refused_files(name, words, files, opened="", **options):
    case = {"name": name, "files": {n: b64(data) for n, data in files.items()}, "open": opened, "refusal": words}
    cases.append(case | ({"options": options} if options else {}))


def some(kind, shape=(4, 3)):
    """Numbers of a type, among them its smallest and largest if float32 holds them."""
    kind = numpy.dtype(kind)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(kind)
    if kind.kind == "f":
        x = (random.standard_normal(shape) * 100).astype(kind)
        x.flat[:4] = [0.1, -0.0, numpy.finfo(numpy.float16).max, numpy.finfo(numpy.float16).smallest_subnormal]
        return x
    limits = numpy.iinfo(kind)
    x = random.integers(limits.min, limits.max, shape, dtype=kind.newbyteorder("="), endpoint=True).astype(kind)
    x.flat[:2] = [limits.min, limits.max]
    return x


def add_types():
    for kind in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"):
        add(f"x of {kind}", some(kind))
        if numpy.dtype(kind).itemsize > 1:
            add(f"x of {kind}, big endian", some(">" + kind))
        add(f"x of {kind}, compressed in Fortran order", numpy.asfortranarray(some(kind, (4, 2, 3))), compressed=True)
    add("x of doubles that floats round", numpy.array([[0.1, 1 / 3], [16777217, 1e-46], [1.00000006, 3.4028235e38], [2e-45, 5]]))
    add("x of halves that are subnormal", numpy.array([[2.0 ** -24, 2.0 ** -15], [6e-5, 65504], [-2.0 ** -24, 0], [1, 2]], "f2"))


def add_shapes():
    for shape in ((4,), (4, 1), (4, 5), (4, 2, 3), (4, 2, 3, 3), (4, 1, 1), (4, 2, 2, 2, 2)):
        add(f"x of {len(shape)} axes, {shape[-1]} the last", some("f4", shape))
        if len(shape) > 1:
            add(f"x of {len(shape)} axes, {shape[-1]} the last, in Fortran order", numpy.asfortranarray(some("f4", shape)))
    add("x of bytes in Fortran order", numpy.asfortranarray(some("u1", (4, 3, 2))))
    add("x in Fortran order and big endian", numpy.asfortranarray(some(">f8", (4, 3))))
    add("x in C order for training, in Fortran order for testing", some("f4"), numpy.asfortranarray(some("f4", (2, 3))))
    add("x of which every other row is stored", some("f4", (8, 3))[::2])
    add("x whose axes are exchanged", some("f4", (3, 4)).T)
    add("x of a test part of other numbers", some("f4"), some("i2", (2, 3)))


def add_answers():
    x = some("f4")
    for kind in ("f8", "f4", "f2", ">f8", ">f4", "i8", ">i8", ">i4", "i2", "i1"):
        add(f"y of whole numbers of {kind}", x, y_train=Y_TRAIN.astype(kind), y_test=Y_TEST.astype(kind))
    for kind in ("u8", ">u2", "u1"):
        add(f"y of whole numbers of {kind}", x, y_train=numpy.array([9, 0, 255, 9], kind), y_test=numpy.array([0, 9], kind))
    truths = numpy.array([True, False, True, True])
    add("y of truth values", x, y_train=truths, y_test=truths[:2])
    add("y of one column", x, y_train=Y_TRAIN.reshape(-1, 1), y_test=Y_TEST.reshape(-1, 1))
    add("y of one column of doubles in Fortran order", x, y_train=numpy.asfortranarray(Y_TRAIN.reshape(-1, 1) * 1.0),
        y_test=numpy.asfortranarray(Y_TEST.reshape(-1, 1) * 1.0))
    add("y of large whole numbers", x, y_train=numpy.array([2 ** 40, 5, 2 ** 40 + 1, 5]), y_test=numpy.array([2 ** 40, 5]))
    add("y of large whole numbers of doubles", x, y_train=numpy.array([2.0 ** 40, 5, 2.0 ** 40 + 1, 5]), y_test=numpy.array([2.0 ** 40, 5]))
    add("y with two zeros", x, y_train=numpy.array([-0.0, 0.0, 1, 1]), y_test=numpy.array([-0.0, 1]))
    fractions = numpy.array([1, 2, 3, 3.5])
    add("y with one fraction", x, y_train=fractions, y_test=numpy.array([1.0, 2.25]))
    add("y with a fraction that floats lose", x, y_train=numpy.array([1, 2, 3, 1 + 1e-12]), y_test=numpy.array([1.0, 2]))
    add("y with fractions, whole for testing", x, y_train=fractions, y_test=numpy.array([1.0, 2]))
    add("y with fractions, of a whole type for testing", x, y_train=fractions, y_test=numpy.array([1, 2]))
    add("y of a whole type, whole doubles for testing", x, y_train=Y_TRAIN, y_test=Y_TEST.astype("f8"))
    add("y of whole numbers to predict", x, task="numbers")
    add("y of whole doubles to predict", x, y_train=Y_TRAIN.astype("f8"), y_test=Y_TEST.astype("f8"), task="numbers")
    add("y of whole doubles as classes", x, y_train=Y_TRAIN.astype("f8"), y_test=Y_TEST.astype("f8"), task="classes")
    add("y big endian to predict", x, y_train=fractions.astype(">f4"), y_test=numpy.array([0.5, 1], ">f4"))


def add_forms():
    x, y, xt, yt = some("f4"), Y_TRAIN, some("f4", (2, 3)), Y_TEST
    arrays = {"x_train": x, "y_train": y, "x_test": xt, "y_test": yt}
    for version in ((1, 0), (2, 0), (3, 0)):
        entries = {n: npy(a, version) for n, a in arrays.items()}
        expect(f"version {version[0]} of the format", {"d.npz": zipped(entries)}, **arrays, opened="d.npz")
    old = npy(x).replace(b"(4, 3), } ", b"(4L, 3L),}")
    expect("extents as Python 2 wrote them", {"d.npz": zipped({"x_train": old, **{n: npy(a) for n, a in arrays.items() if n != "x_train"}})},
           **arrays, opened="d.npz")
    limit, zipfile.ZIP64_LIMIT = zipfile.ZIP64_LIMIT, 64
    expect("ZIP64 throughout", {"d.npz": npz(**arrays)}, **arrays, opened="d.npz")
    expect("ZIP64 throughout, compressed", {"d.npz": npz(True, **arrays)}, **arrays, opened="d.npz")
    zipfile.ZIP64_LIMIT = limit
    expect("arrays in another order", {"d.npz": npz(**dict(reversed(arrays.items())))}, **arrays, opened="d.npz")
    expect("capital X", {"d.npz": npz(X_train=x, y_train=y, X_test=xt, y_test=yt)}, **arrays, opened="d.npz")
    expect("another array beside them", {"d.npz": npz(**arrays, mean=numpy.float64(3))}, **arrays, opened="d.npz")
    expect("an archive without its suffix", {"digits": npz(**arrays)}, **arrays, opened="digits")
    expect("an archive in its folder", {"d.npz": npz(**arrays), "notes.md": b"# Digits"}, **arrays)
    expect("a suffix in capitals", {"D.NPZ": npz(**arrays)}, **arrays, opened="D.NPZ")
    expect("a suffix in capitals, in its folder", {"D.NPZ": npz(**arrays)}, **arrays)
    files = {n + ".npy": npy(a) for n, a in arrays.items()}
    expect("arrays as files", files, **arrays)
    expect("arrays as files, named by the first", files, **arrays, opened="x_train.npy")
    expect("arrays as files, packed", {n + ".gz": gz(data) for n, data in files.items()}, **arrays)
    expect("arrays as files in capitals", {n.upper(): data for n, data in files.items()}, **arrays)
    expect("arrays as packed files in capitals, named by the first", {n.upper() + ".GZ": gz(data) for n, data in files.items()},
           **arrays, opened="X_TRAIN.NPY.GZ")
    odd = {"x_train": numpy.asfortranarray(x.astype(">f8")), "y_train": y.astype(">i4"), "x_test": numpy.asfortranarray(xt), "y_test": yt.astype("f8")}
    expect("arrays as files in other orders", {n + ".npy": npy(a) for n, a in odd.items()}, **odd)
    expect("arrays as files in other orders, packed", {n + ".npy.gz": gz(npy(a)) for n, a in odd.items()}, **odd)


def add_refusals():
    x = some("f4")
    refused("y of texts", "d.npz: array 'y_train': expected numbers or truth values, found type '<U1'", y_train=numpy.array(list("abca")))
    refused("y of objects", "d.npz: array 'y_train': expected numbers, found Python objects", y_train=numpy.array([1, "a", 2, 3], object))
    refused("y of complex numbers", "d.npz: array 'y_train': expected numbers or truth values, found type '<c16'", y_train=Y_TRAIN * 1j)
    refused("y of dates", "d.npz: array 'y_train': expected numbers or truth values, found type '<M8[D]'", y_train=Y_TRAIN.astype("M8[D]"))
    refused("x of records", "d.npz: array 'x_train': expected plain numbers, found records", numpy.zeros(4, [("a", "f4"), ("b", "i4")]))
    refused("x of 16 bytes each", "d.npz: array 'x_train': expected numbers or truth values, found type '<f16'", x.astype("f16"))
    refused("x of one number", "d.npz: array 'x_train' of shape scalar has no axis of samples", numpy.float32(3))
    refused("x without samples", "d.npz: arrays 'x_train' and 'y_train': 0 samples have 4 answers", x[:0])
    refused("x whose samples are empty", "d.npz: array 'x_train' of shape 4x0 has samples without a number", x[:, :0])
    refused("y of one number", "d.npz: array 'y_train': expected one number a sample, found shape scalar", y_train=numpy.int64(3))
    refused("y of two columns", "d.npz: array 'y_train': expected one number a sample, found shape 4x2", y_train=numpy.zeros((4, 2)))
    refused("y of one row", "d.npz: array 'y_train': expected one number a sample, found shape 1x4", y_train=Y_TRAIN.reshape(1, -1))
    refused("y with fractions as classes", "d.npz: array 'y_train': number 3 is no whole number", y_train=numpy.array([1, 2, 3, 3.5]), task="classes")
    refused("y whole for training, with fractions for testing", "d.npz: array 'y_test': number 1 is no whole number",
            y_train=Y_TRAIN * 1.0, y_test=numpy.array([3, 3.5]))
    refused("y of a class that training lacks", "d.npz: array 'y_test': expected one of the 3 labels '-2', '3', '7', found 4 at number 1",
            y_test=numpy.array([3.0, 4]))
    refused("y that is lacking", "d.npz: arrays 'x_train' and 'y_train': dataset: ", y_train=numpy.array([1, 2, numpy.nan, 1]))
    refused("y that is infinite", "d.npz: arrays 'x_train' and 'y_train': dataset: ", y_train=numpy.array([1, 2, numpy.inf, 1]))
    refused("y beyond floats", "d.npz: array 'y_train': number 1 is too large for float32", y_train=numpy.array([0.5, 1e39, 1, 1]))
    refused("y of whole numbers that doubles confuse", "d.npz: array 'y_test': expected one of the 2 labels '1', '9007199254740993', found 3 at number 0",
            y_train=numpy.array([2 ** 53 + 1, 1, 1, 1]))
    refused("x that is lacking", "d.npz: arrays 'x_train' and 'y_train': dataset: ", numpy.array([[1.0], [numpy.nan], [2], [3]]))
    refused("x beyond floats", "d.npz: array 'x_train': number 2 is too large for float32", numpy.array([[1.0], [2], [-4e38], [3]]))
    refused("x beyond floats in Fortran order", "d.npz: array 'x_train': number 1 is too large for float32", numpy.asfortranarray([[1.0, 1e300], [2, 0], [1, 1], [3, 3]]))
    good = npz(x_train=x, y_train=Y_TRAIN, x_test=x[:2], y_test=Y_TEST)
    refused_files("an archive that is cut", "d.npz: expected a zip archive of numpy, found none: ", {"d.npz": good[:-30]}, "d.npz")
    at = good.index(x.tobytes())
    refused_files("a number that changed", "d.npz: array 'x_train': CRC error", {"d.npz": good[:at] + bytes([good[at] ^ 1]) + good[at + 1:]}, "d.npz")
    refused_files("a file that is cut", "x.npy: array 'x': its shape of 4x3 needs 12 numbers of 4 bytes, found 47 bytes",
                  {"x.npy": npy(x)[:-1], "y.npy": npy(Y_TRAIN)})
    refused_files("a file in Fortran order that is cut", "x.npy.gz: array 'x': expected 9 bytes more, found the end", {"x.npy.gz": gz(npy(numpy.asfortranarray(x))[:-9]), "y.npy": npy(Y_TRAIN)})
    refused_files("a file of a pickle", "x.npy: array 'x': expected an array of numpy, found ", {"x.npy": b"\x80\x04\x95 this is a pickle", "y.npy": npy(Y_TRAIN)})


for adds in (add_types, add_shapes, add_answers, add_forms, add_refusals):
    adds()
golden_file.write("npz", f"make_npz.py with Python {sys.version.split()[0]}, NumPy {numpy.__version__}", cases)
