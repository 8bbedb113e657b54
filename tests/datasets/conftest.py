"""Small archives in the official formats, and a server of them that fails as real ones do."""

import hashlib
import io
import tarfile
import threading
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from vitbook.datasets.catalog import IMAGE_SETS
from vitbook.datasets.fetched import download


@pytest.fixture(autouse=True)
def nobodys_data(monkeypatch):
    monkeypatch.delenv("VITBOOK_DATA", raising=False)
    monkeypatch.delenv("VITBOOK_MIRROR", raising=False)
    monkeypatch.setattr(download, "PAUSE_S", 0)


# --- the server


@dataclass
class Mirror:
    """Attributes:
    files: path -> content.
    cuts: for each coming request, the bytes of its body after which the line breaks; then whole.
    takes_ranges: as servers differ.
    hold: while set and not released, every answer stops there until it is.
    requests: path, Range and status of what was asked.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int | None] = field(default_factory=list)
    takes_ranges: bool = True
    hold: int | None = None
    released: threading.Event = field(default_factory=threading.Event)
    requests: list[tuple[str, str | None, int]] = field(default_factory=list)

    @property
    def ranges(self):
        return [asked for _, asked, _ in self.requests]

    @property
    def statuses(self):
        return [status for _, _, status in self.requests]


@pytest.fixture
def mirror(monkeypatch):
    mirror = Mirror()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            with suppress(ConnectionError):  # the client was killed
                self.answer()

        def answer(self):
            asked = self.headers.get("Range")
            body = mirror.files.get(self.path)
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
            if body is None:
                status, body = 404, b"no such file"
            elif asked and mirror.takes_ranges:
                status, body = (206, body[start:]) if start < len(body) else (416, b"")
            else:
                status = 200
            mirror.requests.append((self.path, asked, status))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            cut = mirror.cuts.pop(0) if mirror.cuts else None
            if mirror.hold is not None and not mirror.released.is_set():
                self.wfile.write(body[: mirror.hold])
                self.wfile.flush()
                mirror.released.wait(30)
                body = body[mirror.hold :]
            self.wfile.write(body[:cut])

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    mirror.url = f"http://127.0.0.1:{server.server_port}/"
    monkeypatch.setenv("VITBOOK_MIRROR", mirror.url)
    yield mirror
    mirror.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def offer(mirror, monkeypatch):
    """Have the mirror serve an archive in the place of the official one, with its own sum."""

    def offer(name, content, **changes):
        archive = IMAGE_SETS[name].archive
        mirror.files[urlsplit(archive.url).path] = content
        own = {"num_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} | changes
        ours = replace(IMAGE_SETS[name], archive=replace(archive, **own))
        monkeypatch.setitem(IMAGE_SETS, name, ours)
        return ours

    return offer


# --- the archives


def tar(members):
    """``.tar.gz`` of name -> content, or of a TarInfo of another kind."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return buffer.getvalue()


def python2_pickle(value):
    """Protocol 2 as Python 2 wrote CIFAR: text is bytes, arrays of numpy 1."""
    return b"\x80\x02" + _opcodes(value) + b"."


def _opcodes(value):
    if isinstance(value, dict):
        return b"}(" + b"".join(_opcodes(k) + _opcodes(v) for k, v in value.items()) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(_opcodes, value)) + b"e"
    if isinstance(value, int):
        return b"J" + value.to_bytes(4, "little", signed=True)
    if isinstance(value, str):
        return b"U" + bytes([len(value)]) + value.encode()
    if isinstance(value, bytes):
        return b"T" + len(value).to_bytes(4, "little") + value
    assert value.dtype == np.uint8 and value.ndim == 2
    start = (
        b"cnumpy.core.multiarray\n_reconstruct\n" + b"cnumpy\nndarray\n" + b"K\x00\x85U\x01b\x87R"
    )
    shape = _opcodes(value.shape[0]) + _opcodes(value.shape[1]) + b"\x86"
    kind = (
        b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
        + b"(K\x03U\x01|NNN"
        + 2 * _opcodes(-1)
        + b"K\x00tb"
    )
    return start + b"(K\x01" + shape + kind + b"\x89" + _opcodes(value.tobytes()) + b"tb"


CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def _batch(images, labels, key):
    return python2_pickle(
        {
            "data": images.reshape(len(images), -1),
            key: [int(label) for label in labels],
            "filenames": [f"image_{i}.png" for i in range(len(images))],
        }
    )


def _noise(generator, count):
    return generator.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)


@pytest.fixture(scope="session")
def cifar10():
    """Archive, and split -> (images, labels): noise, which no lossy format keeps."""
    generator = np.random.default_rng(10)
    top, parts, members = "cifar-10-batches-py", [], {}
    for number in range(1, 6):
        part = _noise(generator, 4), np.arange(4 * number, 4 * number + 4) % 10
        parts.append(part)
        members[f"{top}/data_batch_{number}"] = _batch(*part, "labels")
    test = _noise(generator, 10), np.arange(10)
    members[f"{top}/test_batch"] = _batch(*test, "labels")
    members[f"{top}/batches.meta"] = python2_pickle({"label_names": CIFAR10})
    members[f"{top}/readme.html"] = b"<html>"
    train = tuple(np.concatenate(both) for both in zip(*parts, strict=True))
    return tar(members), {"train": train, "test": test}


@pytest.fixture(scope="session")
def cifar100():
    generator = np.random.default_rng(100)
    truth = {
        "train": (_noise(generator, 200), np.arange(200) % 100),
        "test": (_noise(generator, 100), np.arange(100)),
    }
    top = "cifar-100-python"
    members = {f"{top}/{split}": _batch(*part, "fine_labels") for split, part in truth.items()}
    names = [f"class {i:02}" for i in range(100)]
    members[f"{top}/meta"] = python2_pickle({"fine_label_names": names, "coarse_label_names": []})
    return tar(members), truth


def jpeg(pixels, **options):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=95, **options)
    return buffer.getvalue()


FLOWERS = {"daisy": 6, "dandelion": 5, "roses": 11, "sunflowers": 4, "tulips": 5}


@pytest.fixture(scope="session")
def tf_flowers():
    """Archive, and path -> grey level. Left and right of the centre square all photos are red."""
    members, truth = {"flower_photos/LICENSE.txt": b"thanks to all photographers"}, {}
    level = 0
    for flower, count in FLOWERS.items():
        for turn in reversed(range(count)):  # an archive is in no order
            level += 8
            photo = np.full((180 + turn, 320, 3), level, np.uint8)
            margin = (320 - 180 - turn) // 2
            photo[:, : margin - 8] = photo[:, -margin + 8 :] = (255, 0, 0)
            members[f"flower_photos/{flower}/{turn:04}_n.jpg"] = jpeg(photo, subsampling=0)
            truth[f"{flower}/{turn:04}_n.jpg"] = level
    return tar(members), truth


WNIDS = {
    "n02124075": "Egyptian cat",
    "n01443537": "goldfish, Carassius auratus",
    "n04067472": "reel",
}


@pytest.fixture(scope="session")
def tiny_imagenet():
    """Archive, and split -> path -> (bytes, WordNet id); every fourth drawn is grey."""
    generator = np.random.default_rng(200)

    def drawn(turn):
        noise = generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        image = Image.fromarray(noise).resize((64, 64))
        return jpeg(np.asarray(image.convert("L") if turn % 4 == 3 else image))

    train = {
        f"train/{wnid}/images/{wnid}_{i}.JPEG": (drawn(i), wnid) for wnid in WNIDS for i in range(5)
    }
    validation = {
        f"val/images/val_{i}.JPEG": (drawn(i), wnid) for i, wnid in enumerate([*WNIDS] * 2)
    }
    notes = "".join(
        f"{path.rsplit('/', 1)[1]}\t{wnid}\t0\t0\t63\t63\n"
        for path, (_, wnid) in validation.items()
    )
    words = WNIDS | {"n00001740": "entity"}
    texts = {
        "wnids.txt": "\n".join(WNIDS) + "\n",
        "words.txt": "".join(f"{wnid}\t{name}\n" for wnid, name in words.items()),
        "val/val_annotations.txt": notes,
        "train/n04067472/n04067472_boxes.txt": "n04067472_0.JPEG\t0\t0\t63\t63\n",
        "test/images/test_0.JPEG": "a drawn without a label",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("tiny-imagenet-200/train/", "")
        for path, text in texts.items():
            archive.writestr(f"tiny-imagenet-200/{path}", text)
        for path, (content, _) in (train | validation).items():
            archive.writestr(f"tiny-imagenet-200/{path}", content)
    return buffer.getvalue(), {"train": train, "validation": validation}


@pytest.fixture
def make_tar():
    return tar


@pytest.fixture
def make_pickle():
    return python2_pickle


# --- a small set as Parquet


@pytest.fixture
def small(cifar10, tmp_path):
    """Folder of data sets that holds a CIFAR-10 of 20 and 10 images."""
    from vitbook.datasets.fetched.cifar import convert_cifar10
    from vitbook.datasets.fetched.conversion import write_converted

    (tmp_path / "archive.tar.gz").write_bytes(cifar10[0])
    root = tmp_path / "data"
    (root / "cifar10").mkdir(parents=True)
    converted = convert_cifar10(tmp_path / "archive.tar.gz")
    write_converted(root / "cifar10", converted, {"train": 2})
    return root
