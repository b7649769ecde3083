"""Pictures as MNIST's files have them."""

import gzip

import numpy


def read(folder):
    """The training set as it lies in memory everywhere: bytes and labels."""
    with gzip.open(f"{folder}/train-images-idx3-ubyte.gz") as file:
        samples = numpy.frombuffer(file.read(), numpy.uint8, offset=16)
    with gzip.open(f"{folder}/train-labels-idx1-ubyte.gz") as file:
        labels = numpy.frombuffer(file.read(), numpy.uint8, offset=8)
    return samples.reshape(-1, 784).copy(), labels
