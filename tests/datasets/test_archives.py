"""What an archive may hold: files in any order, and pickles that call nothing."""

import io
import os
import pickle
import zipfile

import numpy as np
import pytest

from vitbook import datasets
from vitbook.datasets import DatasetError
from vitbook.datasets.fetched.archives import read_members
from vitbook.datasets.fetched.cifar import PlainUnpickler


def unpickled(content):
    return PlainUnpickler(io.BytesIO(content), encoding="bytes").load()


@pytest.mark.parametrize("name", ["x.tar.gz", "x.zip"])
def test_members_come_in_their_order(name, make_tar, tmp_path):
    members = {"b/2": b"two", "a": b"one", "b/1": b""}
    if name.endswith("zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("b/", "")
            for each, content in members.items():
                archive.writestr(each, content)
    else:
        (tmp_path / name).write_bytes(make_tar(members))
    found = read_members(tmp_path / name, lambda name: name != "a")
    assert list(found) == [("b/2", b"two"), ("b/1", b"")]


class Harmful:
    def __reduce__(self):
        return os.system, ("touch ran",)


def test_a_pickle_that_would_run_a_command(offer, make_tar, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickled = pickle.dumps({"data": Harmful()}, protocol=2)
    offer("cifar10", make_tar({"cifar-10-batches-py/data_batch_1": pickled}))
    words = "is refused, nothing of it was run: it asks for (posix|nt).system"
    with pytest.raises(DatasetError, match=words):
        datasets.load("cifar10", "train", root=tmp_path / "data")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "data" / "cifar10").exists()
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
        unpickled(b"\x80\x04" + how % tuple(words))


def test_the_pickles_of_these_tests_are_those_of_numpy(make_pickle):
    rows = np.arange(6, dtype=np.uint8).reshape(2, 3)
    for read in (unpickled, lambda content: pickle.loads(content, encoding="bytes")):
        back = read(make_pickle({"data": rows, "labels": [1, -2]}))
        assert np.array_equal(back[b"data"], rows) and back[b"data"].dtype == np.uint8
        assert back[b"labels"] == [1, -2]
