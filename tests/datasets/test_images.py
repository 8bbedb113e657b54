"""Pictures of anyone's: blocks cut short, and colours that stand for none."""

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from vitbook.cli.probed_model import read_images
from vitbook.datasets.images import ANYONES, ImageError, as_shown, open_image


def chunk(kind, content):
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def png(bits, color, row, clear):
    """Two pixels, and a colour that is transparent."""
    about = struct.pack(">IIBBBBB", 2, 1, bits, color, 0, 0, 0)
    parts = (
        (b"IHDR", about),
        (b"tRNS", clear),
        (b"IDAT", zlib.compress(b"\0" + row)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def encoded(kind, exif):
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).save(
        buffer, kind, exif=exif, **{"WEBP": {"lossless": True}}.get(kind, {})
    )
    return buffer.getvalue()


PIXELS = np.zeros((8, 16, 3), np.uint8)
PIXELS[:, 8:] = 255
QUARTER = Image.Exif()
QUARTER[0x010E] = "a picture"
QUARTER[0x0112] = 6  # to be turned right by a quarter
BLOCK = QUARTER.tobytes()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_an_exif_block_cut_short_anywhere_ends_nothing(kind):
    turned = np.rot90(PIXELS, -1)
    seen = set()
    for length in range(len(BLOCK) + 1):
        found = np.asarray(as_shown(open_image(encoded(kind, BLOCK[:length]), ANYONES)))
        expected = turned if found.shape == turned.shape else PIXELS
        assert found.shape == expected.shape and abs(found.astype(int) - expected).max() < 8
        seen.add(found.shape == turned.shape)
    assert found.shape == turned.shape and seen == {True, False}


@pytest.mark.parametrize(("kind", "orientation"), [("PNG", 0), ("JPEG", 9), ("TIFF", 65535)])
def test_an_orientation_that_says_nothing_turns_nothing(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert as_shown(open_image(encoded(kind, exif), ANYONES)).size == (16, 8)


def test_a_tiff_is_turned_once():
    found = np.asarray(as_shown(open_image(encoded("TIFF", QUARTER), ANYONES)))
    assert (found == np.rot90(PIXELS, -1)).all()


def test_one_broken_block_does_not_end_a_folder(tmp_path):
    for number, kind in enumerate(("PNG", "JPEG", "WEBP")):
        (tmp_path / f"{number}").write_bytes(encoded(kind, BLOCK[:12]))
    (tmp_path / "tags").write_bytes(encoded("TIFF", QUARTER)[:-20])  # its tags are at its end
    found, skipped, _ = read_images(tmp_path, 8, 3)
    assert list(found) == ["0", "1", "2"] and list(skipped) == ["tags"]
    assert all(image.dtype == torch.uint8 for image in found.values())


@pytest.mark.parametrize(
    ("bits", "color", "row", "clear"),
    [
        (1, 0, b"\x40", "0001"),  # black and white, of which white is transparent: seen as white
        (2, 0, b"\x70", "0001"),
        (4, 0, b"\x4f", "0004"),
        (8, 0, b"\x40\xff", "0040"),
        (16, 0, b"\x12\x34\xff\xff", "1234"),
        (8, 2, b"\x12\x34\x56" + b"\xff" * 3, "001200340056"),
        (16, 2, b"\x12\x00\x34\x56\x78\x9a" + b"\xff" * 6, "12003456789a"),
    ],
)
def test_the_transparent_colour_of_a_png_of_any_depth(bits, color, row, clear):
    image = as_shown(open_image(png(bits, color, row, bytes.fromhex(clear))))
    first, second = np.asarray(image)[0].tolist()
    assert second == [255] * 3
    assert first == ([0] * 3 if bits == 1 else [255] * 3)


def test_another_grey_of_16_bits_stays():
    near = png(16, 0, b"\x12\x35\x12\x33", b"\x12\x34")  # which 8 bits could not tell apart
    assert np.asarray(as_shown(open_image(near))).tolist() == [[[18] * 3, [18] * 3]]


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.float32([[0.5, 1]]), "floating point from 0.5 to 1: expected 8 or 16 bits"),
        (np.int32([[-1, 5]]), "whole numbers from -1 to 5: expected 8 or 16"),
        (np.int32([[0, 70_000]]), "whole numbers from 0 to 70000: expected 8 or 16"),
    ],
)
def test_depths_of_which_none_is_white_are_refused(pixels, message):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "TIFF")
    with pytest.raises(ImageError, match=message):
        as_shown(open_image(buffer.getvalue(), ANYONES))
