"""Pictures that a network learns, of the shape of MNIST, so that every system is measured on the same samples."""

import gzip
import random
import struct

CLASSES, PIXELS = 10, 784
SHARES = {"train": 60_000, "t10k": 1_000}
FROM_CLASS = int.from_bytes(b"\xc0" * PIXELS, "big")  # the upper two bits of a pixel belong to its class
RELABELLED = 0.1  # so much is labelled by chance, so that gradients do not vanish


def write(folder):
    """The four files of such a data set, packed as loosely as gzip does; the same bytes each time."""
    if (folder / "t10k-labels-idx1-ubyte.gz").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    classes = [int.from_bytes(draw.randbytes(PIXELS), "big") & FROM_CLASS for _ in range(CLASSES)]
    noise = int.from_bytes(b"\xff" * PIXELS, "big") ^ FROM_CLASS
    for share, count in SHARES.items():
        labels = bytearray()
        with gzip.open(folder / f"{share}-images-idx3-ubyte.gz", "wb", compresslevel=1) as pictures:
            pictures.write(struct.pack(">4I", 0x803, count, 28, 28))
            for _ in range(count):
                label = draw.randrange(CLASSES)
                picture = classes[label] | int.from_bytes(draw.randbytes(PIXELS), "big") & noise
                pictures.write(picture.to_bytes(PIXELS, "big"))
                labels.append(draw.randrange(CLASSES) if draw.random() < RELABELLED else label)
        with gzip.open(folder / f"{share}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">2I", 0x801, count) + bytes(labels))
    return folder
