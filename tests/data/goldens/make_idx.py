#!/usr/bin/env python3
"""Makes idx.json: small files in IDX format, and the pixels and labels that its document says they hold.

Made with Python 3.11.7 and NumPy 2.4.6. Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database", "File formats": a magic
number 0 0 TYPE AXES (8 is an unsigned byte), the extents as big-endian numbers of 32 bits, and the data in C order.
A case with "refusal" is to be refused by a line that begins so.
"""
import struct
import sys

import numpy

import golden_file
from golden_file import b64, gz

random = numpy.random.default_rng(45)
cases = []

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
TYPES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx(array, kind="u1"):
    array = numpy.asarray(array)
    return struct.pack(">BBBB", 0, 0, TYPES[kind], array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + \
        array.astype(">" + kind).tobytes()


def part(images, labels):
    return {"dims": [*images.shape[1:], 1], "numbers": images.ravel().tolist(), "labels": labels.tolist()}


def images(count, height=3, width=2):
    return random.integers(0, 256, (count, height, width))


def add(name, train, y, test, yt, names=NAMES, pack=False, opened=""):
    files = dict(zip(names, map(idx, (train, y, test, yt))))
    cases.append({"name": name, "files": {n: b64(gz(f) if pack or n.lower().endswith(".gz") else f) for n, f in files.items()},
                  "open": opened, "train": part(train, y), "test": part(test, yt), "class_names": []})


def refused(name, words, opened="", **changed):
    files = {"images": idx(images(4)), "labels": idx(numpy.array([0, 1, 1, 0])), "test": idx(images(2)), "test_labels": idx(numpy.array([1, 0]))}
    files = dict(zip(NAMES, (files | changed).values()))
    cases.append({"name": name, "files": {n: b64(f) for n, f in files.items() if f is not None}, "open": opened, "refusal": words})


y, yt = numpy.array([0, 1, 2, 1]), numpy.array([2, 0])
add("four pictures", images(4), y, images(2), yt)
add("four pictures, named by one file", images(4), y, images(2), yt, opened="t10k-images-idx3-ubyte")
add("packed", images(4), y, images(2), yt, [n + ".gz" for n in NAMES])
add("packed without its suffix", images(4), y, images(2), yt, pack=True)
add("one of four packed", images(4), y, images(2), yt, [*NAMES[:2], NAMES[2] + ".gz", NAMES[3]])
add("names with a point", images(4), y, images(2), yt, [n.replace("-idx", ".idx") for n in NAMES])
add("names in capitals", images(4), y, images(2), yt, [n.upper() for n in NAMES])
add("names with a point, in capitals and packed", images(4), y, images(2), yt, [n.replace("-idx", ".idx").upper() + ".GZ" for n in NAMES])
add("one pixel each", images(3, 1, 1), numpy.array([0, 1, 0]), images(1, 1, 1), numpy.array([1]))
add("as wide as two bytes tell", images(2, 1, 300), numpy.array([1, 0]), images(1, 1, 300), numpy.array([0]))
add("as high as two bytes tell", images(2, 258, 1), numpy.array([1, 0]), images(1, 258, 1), numpy.array([0]))
add("more than 256 pictures", images(259, 1, 1), numpy.arange(259) % 5, images(257, 1, 1), numpy.arange(257) % 5)
add("all labels of a byte", images(256, 1, 1), numpy.arange(256), images(1, 1, 1), numpy.array([255]))
add("labels from 1, as of letters", images(3), numpy.array([1, 2, 3]), images(1), numpy.array([3]))
whole = images(4)
refused("pictures of signed bytes", "train-images-idx3-ubyte: offset 0: expected the magic number 0x00000803, found 0x00000903", images=idx(whole % 100, "i1"))
refused("pictures of floats", "train-images-idx3-ubyte: offset 0: expected the magic number 0x00000803, found 0x00000d03", images=idx(whole, "f4"))
refused("pictures of three channels", "train-images-idx3-ubyte: offset 0: expected the magic number 0x00000803, found 0x00000804", images=idx(whole.reshape(4, 3, 2, 1)))
refused("labels of 32 bits", "train-labels-idx1-ubyte: offset 0: expected the magic number 0x00000801, found 0x00000c01", labels=idx(numpy.array([0, 1, 1, 0]), "i4"))
refused("extents that are little endian", "train-images-idx3-ubyte: offset 4: 67108864 images of 50331648x33554432 need more than",
        images=struct.pack(">I", 0x803) + struct.pack("<3I", 4, 3, 2) + bytes(24))
refused("pictures in the place of labels", "t10k-labels-idx1-ubyte: offset 0: expected the magic number 0x00000801, found 0x00000803", test_labels=idx(images(2)))
refused("pictures that are cut", "train-images-idx3-ubyte: offset 4: 4 images of 3x2 need 24 bytes, found at most 23", images=idx(whole)[:-1])
refused("bytes behind the pictures", "train-images-idx3-ubyte: offset 40: expected the end of the file after 4 images of 3x2", images=idx(whole) + b"\0")
refused("too few labels", "train-labels-idx1-ubyte: offset 4: expected 4 labels, as train-images-idx3-ubyte has images, found 3", labels=idx(numpy.array([0, 1, 1])))
refused("a label that training lacks", "t10k-labels-idx1-ubyte: offset 9: expected a label from 0 to 1, found 2", test_labels=idx(numpy.array([1, 2])))
refused("test pictures of another size", "t10k-images-idx3-ubyte: offset 8: expected images of 3x2x1, as train-images-idx3-ubyte has, found 2x3x1", test=idx(images(2, 2, 3)))
refused("pictures alone", "train-images-idx3-ubyte: expected three IDX companions beside it", "train-images-idx3-ubyte", labels=None)
golden_file.write("idx", f"make_idx.py with Python {sys.version.split()[0]}, NumPy {numpy.__version__}", cases)
