#!/usr/bin/env python3
"""Makes pictures.json: small PNG and JPEG files, and the pixels that Pillow reads from them.

Made with Python 3.11.7, Pillow 13.0.0 (libjpeg-turbo 3.2.0, zlib 1.2.13) and NumPy 2.4.6.

"rgb" and "grey" are Image.open(f).convert("RGB") and .convert("L"), row by row, to the bit: libjpeg-turbo 2.1.5 decodes
these files as 3.2.0 does. One thing is not Pillow's: it cuts greys of 16 bits off at 255 in convert(), so their upper
bytes are taken, as it does itself for colours of 16 bits. A case with "refusal" is to be refused by a line that begins so.
"""
import io
import struct
import sys
import zlib

import numpy
import PIL
from PIL import Image, ImageCms

import golden_file
from golden_file import b64

random = numpy.random.default_rng(45)
cases = []

GREY, RGB, PALETTE, LA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, LA: 2, RGBA: 4}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(kind, data=b""):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed_row(row, depth):
    """The numbers of a row as a PNG file has them: 8 or 16 bits each, or several in a byte."""
    if depth == 16:
        return struct.pack(f">{row.size}H", *row.ravel())
    if depth == 8:
        return bytes(row.ravel().astype(numpy.uint8))
    bits = "".join(format(int(v), f"0{depth}b") for v in row.ravel())
    return bytes(int(bits[i:i + 8].ljust(8, "0"), 2) for i in range(0, len(bits), 8))


def filtered(rows, step, kinds):
    """The rows with their filters before them; `kinds` are taken in turn."""
    before = bytes(len(rows[0])) if rows else b""
    out = b""
    for y, row in enumerate(rows):
        kind = kinds[y % len(kinds)]
        out += bytes([kind])
        for i, v in enumerate(row):
            a = row[i - step] if i >= step else 0
            b, c = before[i], before[i - step] if i >= step else 0
            p = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            out += bytes([(v - [0, a, b, (a + b) // 2, p][kind]) % 256])
        before = row
    return out


def png(values, colour, depth, extra=b"", interlaced=False, filters=(0,), parts=1, after=b""):
    """A PNG file of numbers [height, width, channels]; `extra` are chunks before the pixels, `after` behind them."""
    values = numpy.asarray(values).reshape(*numpy.asarray(values).shape[:2], CHANNELS[colour])
    height, width = values.shape[:2]
    step = max(1, CHANNELS[colour] * depth // 8)
    passes = [(x, y, dx, dy) for x, y, dx, dy in ADAM7 if x < width and y < height] if interlaced else [(0, 0, 1, 1)]
    data = b"".join(filtered([packed_row(r, depth) for r in values[y::dy, x::dx]], step, filters) for x, y, dx, dy in passes)
    data = zlib.compress(data, 9)
    size = -(-len(data) // parts)
    idat = b"".join(chunk(b"IDAT", data[i:i + size]) for i in range(0, len(data), size))
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + idat + after + chunk(b"IEND")


def add(name, data, has_colours=None):
    """A picture that is read."""
    image = Image.open(io.BytesIO(data))
    sixteen = image.mode.startswith("I")
    upper = numpy.asarray(image) >> 8 if sixteen else None
    grey = upper.astype(numpy.uint8) if sixteen else numpy.asarray(image.convert("L"))
    rgb = numpy.repeat(grey[..., None], 3, 2) if sixteen else numpy.asarray(image.convert("RGB"))
    colours = not (sixteen or image.mode in ("1", "L", "LA")) if has_colours is None else has_colours
    cases.append({"name": name, "file": b64(data), "width": image.width, "height": image.height, "colours": colours,
                  "rgb": b64(rgb.tobytes()), "grey": b64(grey.tobytes())})


def refused(name, data, words):
    cases.append({"name": name, "file": b64(data), "refusal": words})


def noise(channels, depth, height=4, width=5):
    return random.integers(0, 2 ** depth, (height, width, channels))


def palette(count, greys=False):
    colours = random.integers(0, 256, (count, 3))
    return chunk(b"PLTE", bytes((numpy.arange(count)[:, None].repeat(3, 1) * 7 if greys else colours).ravel().astype(numpy.uint8)))


def gamma(g):
    return chunk(b"gAMA", struct.pack(">I", round(g * 100000)))


def profile(space):
    """A profile of colours, without the time when it was made."""
    made = ImageCms.ImageCmsProfile(ImageCms.createProfile(space)).tobytes()
    return made[:24] + bytes(12) + made[36:]


def whole_range(depth):
    """Every grey of some bits, or of 16 bits those whose upper byte changes."""
    if depth < 16:
        return numpy.arange(2 ** depth).reshape(1 if depth < 8 else 16, -1)
    return numpy.array([[0, 1, 127, 128, 255, 256], [257, 128 * 257, 32767, 32768, 32896, 33023],
                        [33024, 43690, 65279, 65280, 65534, 65535]])


def add_depths():
    for depth in (1, 2, 4, 8, 16):
        add(f"grey of {depth} bits", png(whole_range(depth), GREY, depth))
        add(f"grey of {depth} bits, interlaced", png(noise(1, depth, 9, 11), GREY, depth, interlaced=True))
        add(f"grey of {depth} bits, gamma 1/2.2", png(whole_range(depth), GREY, depth, gamma(1 / 2.2)))
        if depth < 16:
            add(f"palette of {depth} bits", png(noise(1, depth), PALETTE, depth, palette(2 ** depth)), has_colours=True)
    for depth in (8, 16):
        for name, colour in (("colours", RGB), ("grey and alpha", LA), ("colours and alpha", RGBA)):
            n = CHANNELS[colour]
            grey = {"has_colours": colour != LA}
            add(f"{name} of {depth} bits", png(noise(n, depth), colour, depth), **grey)
            add(f"{name} of {depth} bits, interlaced", png(noise(n, depth, 7, 3), colour, depth, interlaced=True), **grey)
            add(f"{name} of {depth} bits, gamma 1", png(noise(n, depth), colour, depth, gamma(1)), **grey)
    same = numpy.arange(0, 256, 5)[None, :, None].repeat(3, 2)
    add("one colour of 8 bits", png(same, RGB, 8))
    add("the same colour of 16 bits", png(same * 257, RGB, 16))
    add("the same grey of 16 bits", png(same[..., :1] * 257, GREY, 16))


def add_chunks():
    lab, srgb = profile("LAB"), profile("sRGB")
    exif = Image.Exif()
    exif[0x0112] = 6
    chunks = {
        "sRGB": chunk(b"sRGB", b"\0"),
        "sRGB and its gamma": chunk(b"sRGB", b"\0") + gamma(0.45455),
        "gamma 0.5 and primaries": gamma(0.5) + chunk(b"cHRM", struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)),
        "gamma 1.8": gamma(1.8),
        "a profile of sRGB": chunk(b"iCCP", b"sRGB\0\0" + zlib.compress(srgb)),
        "a profile of another space": chunk(b"iCCP", b"Lab\0\0" + zlib.compress(lab)),
        "a profile that is none": chunk(b"iCCP", b"x\0\0" + zlib.compress(b"not a profile")),
        "fewer bits that count": chunk(b"sBIT", b"\5\6\5"),
        "a background": chunk(b"bKGD", struct.pack(">3H", 9, 200, 30)),
        "texts and a time": chunk(b"tEXt", b"Title\0A picture") + chunk(b"pHYs", struct.pack(">IIB", 2835, 2835, 1))
                            + chunk(b"tIME", struct.pack(">HBBBBB", 2026, 1, 2, 3, 4, 5)),
        "an orientation": chunk(b"eXIf", exif.tobytes()[6:]),
        "a chunk of nobody": chunk(b"abCd", b"what is this"),
    }
    for name, extra in chunks.items():
        add("colours with " + name, png(noise(3, 8), RGB, 8, extra))
    add("greys with a background and gamma", png(noise(1, 8), GREY, 8, gamma(1) + chunk(b"bKGD", b"\0\x80")))
    add("greys of 16 bits with sRGB", png(noise(1, 16), GREY, 16, chunk(b"sRGB", b"\0")))
    add("palette with gamma 1, interlaced", png(noise(1, 4, 6, 7), PALETTE, 4, gamma(1) + palette(16), interlaced=True), has_colours=True)
    for kind in range(5):
        add(f"filter {kind}", png(noise(3, 8), RGB, 8, filters=(kind,)))
    add("filters in turn, of 16 bits", png(noise(4, 16, 6), RGBA, 16, filters=(4, 3, 2, 1, 0)))
    add("pixels in many parts", png(noise(3, 8, 8, 8), RGB, 8, parts=9))
    add("texts behind the pixels", png(noise(1, 8), GREY, 8, after=chunk(b"tEXt", b"End\0of it")))
    control = struct.pack(">IIIIIHHBB", 0, 5, 4, 0, 0, 1, 10, 0, 0)
    add("the first of an animation", png(noise(3, 8), RGB, 8, chunk(b"acTL", struct.pack(">II", 1, 0)) + chunk(b"fcTL", control)))


def add_transparency():
    alpha = bytes(random.integers(0, 256, 16).astype(numpy.uint8))
    add("palette with alpha", png(noise(1, 4), PALETTE, 4, palette(16) + chunk(b"tRNS", alpha)), has_colours=True)
    add("palette with one transparent colour", png(noise(1, 2), PALETTE, 2, palette(4) + chunk(b"tRNS", b"\xff\0")), has_colours=True)
    add("palette of greys", png(noise(1, 4), PALETTE, 4, palette(16, greys=True)), has_colours=True)
    add("palette that is shorter than its bits allow", png(noise(1, 2) % 3, PALETTE, 2, palette(3)), has_colours=True)
    add("palette without the colours that pixels name", png([[0, 1, 2, 200]], PALETTE, 8, palette(2)), has_colours=True)
    add("greys of which one is transparent", png([[0, 7, 200, 7]], GREY, 8, chunk(b"tRNS", struct.pack(">H", 7))))
    add("black and white of which one is transparent", png([[0, 1, 1, 0]], GREY, 1, chunk(b"tRNS", struct.pack(">H", 1))))
    add("greys of 16 bits of which one is transparent", png([[0, 700, 20000]], GREY, 16, chunk(b"tRNS", struct.pack(">H", 700))))
    add("colours of which one is transparent", png([[[1, 2, 3], [4, 5, 6]]], RGB, 8, chunk(b"tRNS", struct.pack(">3H", 1, 2, 3))))
    add("transparent pixels that have colours", png([[[255, 255, 255, 0], [200, 10, 30, 0], [9, 8, 7, 1]]], RGBA, 8))
    add("half transparent greys", png([[[100, 128], [255, 0], [0, 255]]], LA, 8), has_colours=False)


def add_sizes():
    for width, height in ((1, 1), (1, 9), (9, 1), (2, 2), (5, 5), (8, 8)):
        add(f"interlaced, {width}x{height}", png(noise(3, 8, height, width), RGB, 8, interlaced=True))
    add("one pixel of one bit", png([[1]], GREY, 1))
    add("nine pixels of one bit", png([[1, 0, 1, 1, 0, 0, 1, 0, 1]], GREY, 1))


def scene(width=17, height=13, channels=3):
    """Something smooth with an edge, as photographs are."""
    y, x = numpy.mgrid[0:height, 0:width]
    planes = [(x * 13 + y * 5) % 256, 255 - x * 9 - y * 4, 40 + 120 * (x + y > 14), (x * y * 3) % 200]
    planes = [p % 256 for p in planes[:channels]]
    return numpy.stack(planes, 2).astype(numpy.uint8) if channels > 1 else planes[0].astype(numpy.uint8)


def saved(image, **how):
    out = io.BytesIO()
    image.save(out, "JPEG", **how)
    return out.getvalue()


def segment(marker, data):
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data


def flat_jpeg(width, height, parts, adobe=None, jfif=True, fill=b""):
    """A JPEG file whose blocks of 8x8 are of one number each. `parts` are (name, horizontal, vertical) factors."""
    frame = struct.pack(">BHHB", 8, height, width, len(parts)) + b"".join(bytes([i, h << 4 | v, 0]) for i, h, v in parts)
    out = b"\xff\xd8" + (segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0") if jfif else b"")
    if adobe is not None:
        out += fill + segment(0xEE, b"Adobe\0\x64\0\0\0\0" + bytes([adobe]))
    out += segment(0xDB, bytes([0] + [8] * 64)) + segment(0xC0, frame)
    out += segment(0xC4, bytes([0x00] + [0, 0, 0, 12] + [0] * 12 + list(range(12))))  # 12 lengths, in 4 bits each
    out += segment(0xC4, bytes([0x10] + [1] + [0] * 15 + [0]))                        # the end of a block, in one bit
    out += segment(0xDA, bytes([len(parts)]) + b"".join(bytes([i, 0]) for i, h, v in parts) + b"\0\x3f\0")
    across = -(-width // (8 * max(h for _, h, _ in parts)))
    down = -(-height // (8 * max(v for _, _, v in parts)))
    bits, last = "", [0] * len(parts)
    for _ in range(across * down):
        for k, (_, h, v) in enumerate(parts):
            for _ in range(h * v):
                value = int(random.integers(-120, 120))
                step, last[k] = value - last[k], value
                length = abs(step).bit_length()
                bits += format(length, "04b")
                if length:
                    bits += format(step if step > 0 else step + 2 ** length - 1, f"0{length}b")
                bits += "0"
    bits += "1" * (-len(bits) % 8)
    data = bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))
    return out + data.replace(b"\xff", b"\xff\0") + b"\xff\xd9"


def add_jpeg():
    colours, greys = Image.fromarray(scene()), Image.fromarray(scene(channels=1))
    add("jpeg of greys", saved(greys, quality=90))
    add("jpeg of greys, progressive", saved(greys, quality=90, progressive=True))
    add("jpeg of greys in poor quality", saved(greys, quality=10))
    for way, size in (("4:4:4", (17, 13)), ("4:2:2", (17, 13)), ("4:2:0", (17, 13)), ("4:2:0", (16, 16)), ("4:2:0", (1, 1)), ("4:2:2", (3, 2))):
        image = Image.fromarray(scene(*size))
        add(f"jpeg {way} of {size[0]}x{size[1]}", saved(image, quality=85, subsampling=way))
        add(f"jpeg {way} of {size[0]}x{size[1]}, progressive", saved(image, quality=85, subsampling=way, progressive=True))
    add("jpeg with restarts", saved(colours, quality=80, restart_marker_blocks=1))
    add("jpeg with its own tables of codes", saved(colours, quality=80, optimize=True))
    add("jpeg of quality 100", saved(colours, quality=100, subsampling="4:4:4"))
    exif = Image.Exif()
    for turned in (3, 6):
        exif[0x0112] = turned
        add(f"jpeg with orientation {turned}", saved(colours, quality=90, exif=exif))
    add("jpeg with a profile", saved(colours, quality=90, icc_profile=profile("LAB")))
    add("jpeg with a comment and bytes behind its end", saved(colours, quality=90, comment=b"hello") + b"\0more")
    add("jpeg of red, green and blue", saved(colours, quality=90, keep_rgb=True))
    inks = saved(Image.fromarray(scene(channels=4), "CMYK"), quality=90)
    add("jpeg of inks by Adobe", inks)
    at = inks.index(b"Adobe") + 11
    assert inks[at] == 0
    add("jpeg of inks as luma by Adobe", inks[:at] + b"\2" + inks[at + 1:])
    begin = inks.index(b"\xff\xee")
    add("jpeg of inks without a word of Adobe", inks[:begin] + inks[begin + 16:])

    def named(h, v, *rest):
        return [(1, h, v), (2, *(rest[:2] or (1, 1))), (3, *(rest[2:] or (1, 1)))]
    add("jpeg 4:4:0", flat_jpeg(19, 30, named(1, 2)))
    add("jpeg 4:1:1", flat_jpeg(40, 11, named(4, 1)))
    add("jpeg 4:4:4 by factors of two", flat_jpeg(20, 20, named(1, 2, 1, 2, 1, 2)))
    add("jpeg 4:2:0 of flat blocks", flat_jpeg(33, 21, named(2, 2)))
    add("jpeg 4:2:2 of flat blocks", flat_jpeg(33, 21, named(2, 1)))
    add("jpeg of parts called R, G and B", flat_jpeg(9, 9, [(82, 1, 1), (71, 1, 1), (66, 1, 1)], jfif=False))
    add("jpeg of red, green and blue by Adobe", flat_jpeg(9, 9, named(1, 1), adobe=0, jfif=False))
    add("jpeg of luma by Adobe, behind bytes that fill", flat_jpeg(9, 9, named(1, 1), adobe=1, jfif=False, fill=b"\xff\xff"))
    four = [(1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 1)]
    add("jpeg of four inks by Adobe, flat", flat_jpeg(16, 8, four, adobe=0, jfif=False))
    add("jpeg of four inks as luma by Adobe, flat", flat_jpeg(16, 8, four, adobe=2, jfif=False))
    add("jpeg of four inks, flat", flat_jpeg(16, 8, four, jfif=False))
    for h, v in ((4, 2), (3, 1), (1, 4)):
        refused(f"jpeg with factors of {h} and {v}", flat_jpeg(50, 40, named(h, v)), "x: expected colours that are sampled as 4:4:4")
    refused("jpeg of two parts", flat_jpeg(9, 9, [(1, 1, 1), (2, 1, 1)]), "x: expected colours that are sampled as ")
    refused("jpeg that is cut", saved(colours)[:-60], "x: the picture is damaged: ")


def add_refusals():
    whole = png(noise(3, 8), RGB, 8)
    at = whole.index(b"IDAT") + 9
    refused("png that is cut", whole[:at], "x: the picture is damaged: ")
    refused("png with a pixel that changed", whole[:at] + bytes([whole[at] ^ 8]) + whole[at + 1:], "x: the picture is damaged: ")
    refused("png without a palette", png(noise(1, 4), PALETTE, 4), "x: the picture is damaged: ")
    refused("png of no pixel", png(numpy.zeros((1, 0, 1), int), GREY, 8), "x: the picture is damaged: ")
    refused("png of depth 3", png(noise(1, 8), GREY, 8).replace(*[b"IHDR" + struct.pack(">IIB", 5, 4, d) for d in (8, 3)]), "x: the picture is damaged: ")
    for kind in ("GIF", "BMP", "TIFF", "WEBP", "PPM"):
        out = io.BytesIO()
        Image.fromarray(scene(4, 4)).save(out, kind)
        refused(f"a {kind} file", out.getvalue(), "x: expected a PNG or JPEG picture, found ")
    refused("an empty file", b"", "x: expected a PNG or JPEG picture, found ''")


for adds in (add_depths, add_chunks, add_transparency, add_sizes, add_jpeg, add_refusals):
    adds()
versions = f"make_pictures.py with Python {sys.version.split()[0]}, Pillow {PIL.__version__}, NumPy {numpy.__version__}"
golden_file.write("pictures", versions, cases)
