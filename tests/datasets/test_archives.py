"""Archives that would write, link or run something: all refused, in one sentence."""

import io
import os
import pickle
import stat
import tarfile
import zipfile

import numpy as np
import pytest

from vitbook import datasets
from vitbook.datasets import DatasetError
from vitbook.datasets.fetched.archives import read_members
from vitbook.datasets.fetched.unpickle import read_pickle


def everything(path):
    return dict(read_members(path, lambda name: True))


@pytest.fixture(params=["x.tar.gz", "x.zip"])
def write(request, tmp_path, make_tar):
    """Write members as an archive of either kind."""

    def write(members):
        path = tmp_path / "in" / request.param
        path.parent.mkdir(exist_ok=True)
        if path.suffix == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                for name, content in members.items():
                    archive.writestr(name, content)
        else:
            path.write_bytes(make_tar(members))
        return path

    return write


def test_an_encrypted_zip(write, tmp_path):
    path = tmp_path / "locked.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"secret")
    content = bytearray(path.read_bytes())
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(header) + flags] |= 1
    path.write_bytes(content)
    with pytest.raises(DatasetError, match="locked.zip is encrypted, from member 'a' on: expected"):
        everything(path)


def test_members_come_in_their_order(write):
    path = write({"b/2": b"two", "a": b"one", "b/1": b""})
    assert list(read_members(path, lambda name: name != "a")) == [("b/2", b"two"), ("b/1", b"")]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("../outside", "leaves its folder"),
        ("a/../../outside", "leaves its folder"),
        ("a\\..\\..\\outside", "leaves its folder"),
        ("/tmp/outside", "has an absolute path"),
        ("C:\\outside", "has an absolute path"),
    ],
)
def test_paths_that_leave_the_archive(name, what, write, tmp_path):
    path = write({"good": b"1", name: b"2"})
    given = []
    with pytest.raises(DatasetError, match=f"is refused, nothing .*: member .* {what}, expected"):
        for member in read_members(path, lambda name: True):
            given.append(member)
    assert not given  # not even the good one
    assert os.listdir(tmp_path) == ["in"] and os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
)
def test_tar_members_that_are_no_files(kind, make_tar, tmp_path):
    odd = tarfile.TarInfo("flower_photos/daisy/1.jpg")
    odd.type, odd.linkname = kind, "/etc/passwd"
    (tmp_path / "x.tgz").write_bytes(make_tar({"good": b"1", odd.name: odd}))
    with pytest.raises(DatasetError, match="member 'flower_photos/daisy/1.jpg' is a link, a dev"):
        everything(tmp_path / "x.tgz")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO])
def test_zip_members_that_are_no_files(kind, tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(DatasetError, match="member 'link' is a link, a device or a pipe, expected"):
        everything(tmp_path / "x.zip")


@pytest.mark.parametrize("share", [0, 0.02, 0.5, 0.99])
def test_an_archive_cut_short(share, write):
    path = write({str(i): os.urandom(5000) for i in range(5)})
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(DatasetError, match="is damaged or cut short .*fetch it again"):
        everything(path)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "tf_flowers", "tiny_imagenet"])
def test_refused_on_the_way_to_every_set(name, offer, make_tar, tmp_path):
    image_set = offer(name, b"")
    archive = make_tar({"../../outside": b"x"})
    if image_set.archive.name.endswith("zip"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as zipped:
            zipped.writestr("../../outside", b"x")
        archive = buffer.getvalue()
    offer(name, archive)
    root = tmp_path / "deep" / "data"
    with pytest.raises(DatasetError, match="member '../../outside' leaves its folder"):
        datasets.load(name, "train", root=root)
    assert not (root / name).exists() and not (root / "downloads" / f"{name}.making").exists()
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.parametrize("name", ["cifar10", "tf_flowers"])
def test_an_archive_of_something_else(name, offer, make_tar, tmp_path):
    offer(name, make_tar({"holiday/1.jpg": b"x"}))
    with pytest.raises(DatasetError, match="is not laid out as .*; fetch it from its official"):
        datasets.load(name, "train", root=tmp_path)


class Harmful:
    def __reduce__(self):
        return os.system, ("touch ran",)


def test_a_pickle_that_would_run_a_command(offer, make_tar, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickled = pickle.dumps({"data": Harmful()}, protocol=2)
    offer("cifar10", make_tar({"cifar-10-batches-py/data_batch_1": pickled}))
    words = "data_batch_1 of .* is refused, nothing of it was run: it asks for (posix|nt).system"
    with pytest.raises(DatasetError, match=words):
        datasets.load("cifar10", "train", root=tmp_path / "data")
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickled)
    assert (tmp_path / "ran").exists()  # as any other reader would have done


@pytest.mark.parametrize(
    ("module", "name"),
    [("builtins", "eval"), ("numpy", "load"), ("numpy.core.multiarray", "fromfile"), ("os", "x")],
)
@pytest.mark.parametrize("how", [b"c%s\n%s\n.", b"(i%s\n%s\n.", b"\x8c%c%s\x8c%c%s\x93."])
def test_names_that_a_pickle_may_not_ask_for(module, name, how):
    words = [module.encode(), name.encode()]
    if how.count(b"%c"):
        words = [len(words[0]), words[0], len(words[1]), words[1]]
    with pytest.raises(DatasetError, match=f"it asks for {module}.{name}, expected plain values"):
        read_pickle(b"\x80\x04" + how % tuple(words), "x")


def test_a_pickle_of_today_is_read_too():
    rows = np.arange(6, dtype=np.uint8).reshape(2, 3)
    back = read_pickle(pickle.dumps({b"data": rows, b"labels": [1]}, protocol=4), "x")
    assert np.array_equal(back[b"data"], rows) and back[b"labels"] == [1]


@pytest.mark.parametrize(
    "content", [b"", b"\x80", b"noise", pickle.dumps([1]), pickle.dumps({})[:3]]
)
def test_no_pickle_at_all(content):
    with pytest.raises(DatasetError, match="x is a damaged or unexpected pickle .*fetch the arch"):
        read_pickle(content, "x")


def test_arrays_of_another_kind():
    rows = np.zeros((2, 3), np.float32)
    with pytest.raises(DatasetError, match="an array of 'f4', expected uint8 in rows"):
        read_pickle(pickle.dumps({b"data": rows}, protocol=4), "x")
