#!/usr/bin/env python3
"""Makes cifar.json: small files of CIFAR's binary version, and the pixels and labels that its document says they hold.

Made with Python 3.11.7 and NumPy 2.4.6. Source: A. Krizhevsky, "The CIFAR-10 and CIFAR-100 datasets", "Binary version": a record
of CIFAR-10 is <1 x label><3072 x pixel>, one of CIFAR-100 <1 x coarse label><1 x fine label><3072 x pixel>; the first 1024
pixels are the red channel row by row, then come green and blue. Here a pixel has its channels side by side. Most cases have
pictures of 2 x 3 pixels, to be small. A case with "refusal" is to be refused by a line that begins so.
"""
import sys

import numpy

import golden_file
from golden_file import b64, gz

random = numpy.random.default_rng(45)
cases = []

SMALL = (2, 3, 3)
TEN = {"batches.meta.txt": b"airplane\nautomobile\nbird\n\n"}
HUNDRED = {"fine_label_names.txt": b"apple\nbaby\nbear\nbee\n", "coarse_label_names.txt": b"fruit\npeople\n"}


def pictures(count, dims):
    return random.integers(0, 256, (count, *dims))


def records(images, *labels):
    """A record is its labels, and then the picture channel by channel."""
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return numpy.concatenate([numpy.stack(labels, 1), planes], 1).astype(numpy.uint8).tobytes()


def part(images, labels):
    return {"dims": list(images.shape[1:]), "numbers": images.ravel().tolist(), "labels": numpy.asarray(labels).tolist()}


def add(name, files, train, y, test, yt, class_names, opened="", dims=SMALL):
    case = {"name": name, "files": {n: b64(data) for n, data in files.items()}, "open": opened, "train": part(train, y),
            "test": part(test, yt), "class_names": class_names}
    cases.append(case | ({"options": {"record_dims": dims}} if dims != (32, 32, 3) else {}))


def refused(name, words, files, opened="", dims=SMALL):
    cases.append({"name": name, "files": {n: b64(data) for n, data in files.items()}, "open": opened, "refusal": words,
                  "options": {"record_dims": dims}})


def add_layouts(dims, count):
    size = f"{dims[0]}x{dims[1]}"
    train, y, test, yt = pictures(count, dims), numpy.arange(count) % 3, pictures(1, dims), numpy.array([2])
    coarse, names = (y + 1) % 2, ["airplane", "automobile", "bird"]
    ten = {"data_batch_1.bin": records(train[:2], y[:2]), "data_batch_2.bin": records(train[2:], y[2:]), "test_batch.bin": records(test, yt)}
    add(f"CIFAR-10 of {size}", ten | TEN, train, y, test, yt, names, dims=dims)
    hundred = {"train.bin": records(train, coarse, y), "test.bin": records(test, [0], yt)}
    add(f"CIFAR-100 of {size}", hundred | HUNDRED, train, y, test, yt, ["apple", "baby", "bear", "bee"], dims=dims)
    return train, y, test, yt, ten, hundred


add_layouts((32, 32, 3), 3)
train, y, test, yt, ten, hundred = add_layouts(SMALL, 4)
names = ["airplane", "automobile", "bird"]
add("CIFAR-10, packed", {n + ".gz": gz(d) for n, d in ten.items()} | TEN, train, y, test, yt, names)
add("CIFAR-10 in capitals", {n.upper(): d for n, d in (ten | TEN).items()}, train, y, test, yt, names)
add("CIFAR-10 in capitals, packed", {n.upper() + ".GZ": gz(d) for n, d in ten.items()} | TEN, train, y, test, yt, names)
add("CIFAR-10 in one file without names", {"train.bin": records(train, y), "test.bin": records(test, yt)}, train, y, test, yt, [])
add("CIFAR-10 in one file with names", {"train.bin": records(train, y), "test.bin": records(test, yt), "labels.txt": TEN["batches.meta.txt"]},
    train, y, test, yt, names)
add("CIFAR-100, packed", {n + ".gz": gz(d) for n, d in hundred.items()} | HUNDRED, train, y, test, yt, ["apple", "baby", "bear", "bee"])
add("CIFAR-100 in capitals", {n.upper(): d for n, d in (hundred | HUNDRED).items()}, train, y, test, yt, ["apple", "baby", "bear", "bee"])
grey = pictures(3, (2, 2, 1))
add("records of one channel", {"train.bin": records(grey, [0, 1, 0]), "test.bin": records(grey[:1], [1])}, grey, [0, 1, 0], grey[:1], [1], [], dims=(2, 2, 1))
one = records(train, y)
refused("a record that is cut", "train.bin: offset 57: expected a record of 19 bytes, found 18", {"train.bin": one[:-1], "test.bin": one})
refused("a packed record that is cut", "train.bin.gz: offset 57: expected a record of 19 bytes, found 18", {"train.bin.gz": gz(one[:-1]), "test.bin": one})
refused("an empty file", "train.bin: offset 0: expected a record of 19 bytes, found an empty file", {"train.bin": b"", "test.bin": one})
refused("CIFAR-100 without its names", "train.bin: offset 76: expected a record of 19 bytes, found 4; records of CIFAR-100 have two labels", hundred)
refused("a label beyond the names", "data_batch_1.bin: offset 0: expected a label from 0 to 2, found 7",
        {"data_batch_1.bin": records(train[:2], [7, 0]), "test_batch.bin": records(test, yt)} | TEN)
refused("a fine label beyond the names", "train.bin: offset 21: expected a label from 0 to 3, found 4",
        {"train.bin": records(train, y, [0, 4, 1, 2]), "test.bin": records(test, [0], yt)} | HUNDRED)
refused("labels with a gap", "train.bin: offset 19: expected a label from 0 to 1, found 3", {"train.bin": records(train, [0, 3, 1, 1]), "test.bin": one})
golden_file.write("cifar", f"make_cifar.py with Python {sys.version.split()[0]}, NumPy {numpy.__version__}", cases)
