import hashlib
import io
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from vitbook import datasets
from vitbook.datasets import DatasetError
from vitbook.datasets.catalog import IMAGE_SETS
from vitbook.datasets.stored.pack import pack
from vitbook.datasets.stored.shard_writer import write_shard
from vitbook.datasets.stored.shards import Row, Shard, find_shards, shard_name

CIFAR10 = IMAGE_SETS["cifar10"]


def test_a_packed_set_is_the_same_set(small, tmp_path):
    (small / "cifar10" / "train-00001-of-00002.parquet").unlink()
    first = small / "cifar10" / "train-00000-of-00002.parquet"
    rows = [replace(row, label=turn) for turn, row in enumerate(Shard(first).rows())]
    write_shard(first, rows, Shard(first).class_names)
    out = tmp_path / "out"
    assert pack(CIFAR10, small, out, max_bytes=120_000) == {"train": 2, "test": 2}
    for split in ("train", "test"):
        before, after = (datasets.load("cifar10", split, root=root) for root in (small, out))
        assert before.provenance == after.provenance
        assert before.class_names == after.class_names
        assert torch.equal(before.images, after.images)
        assert torch.equal(before.labels, after.labels)
    assert before.provenance["shards"] == "1 of 1"
    assert datasets.load("cifar10", "train", root=out).provenance["missing"] == (
        "train-00001-of-00002.parquet (49,990 of 50,000 images)"
    )
    (out / "cifar10" / "test-00001-of-00002.parquet").rename(tmp_path / "kept")
    about = datasets.load("cifar10", "test", root=out).provenance  # lost on the way: it is missed
    assert about["shards"] == "1 of 2"
    assert about["missing"].startswith("test-00001-of-00002.parquet (")
    (tmp_path / "kept").rename(out / "cifar10" / "test-00001-of-00002.parquet")
    again = tmp_path / "again"  # packing what was packed changes nothing either
    pack(CIFAR10, out, again)
    assert datasets.load("cifar10", "test", root=again).provenance == before.provenance


def test_the_manifest_lists_every_file(small, tmp_path):
    (small / "cifar10" / "LICENSE.txt").write_text("thanks")
    out = tmp_path / "out"
    pack(CIFAR10, small, out)
    listed = json.loads((out / "manifest.json").read_text())
    files = {path.relative_to(out).as_posix(): path for path in (out / "cifar10").iterdir()}
    assert listed.keys() == files.keys() and "cifar10/LICENSE.txt" in files
    for name, path in files.items():
        content = path.read_bytes()
        assert listed[name] == {
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }


def test_images_made_anew(small, tmp_path):
    pack(CIFAR10, small, tmp_path / "same", image_size=32)
    assert (
        datasets.load("cifar10", "test", root=tmp_path / "same").provenance
        == datasets.load("cifar10", "test", root=small).provenance
    )
    pack(CIFAR10, small, tmp_path / "out", image_size=48)
    after = datasets.load("cifar10", "test", root=tmp_path / "out", image_size=48)
    assert after.provenance["name"] == "CIFAR-10 (48 px copy, 10 images)"
    assert torch.equal(after.images, datasets.load("cifar10", "test", small, image_size=48).images)


def test_a_jpeg_copy_stays_one_when_it_is_made_anew(small, tmp_path):
    buffer = io.BytesIO()
    Image.new("RGB", (32, 32), (200, 0, 0)).save(buffer, "JPEG")
    path = small / "cifar10" / "test-00000-of-00001.parquet"
    write_shard(path, 3 * [Row(buffer.getvalue(), "red.jpg", 0)], Shard(path).class_names)
    pack(CIFAR10, small, tmp_path / "out", image_size=16)
    about = datasets.load("cifar10", "test", root=tmp_path / "out").provenance
    assert about["name"] == "CIFAR-10 (JPEG copy, 16 px copy, 3 images)"
    assert about["format"] == "PNG"


def test_a_image_larger_than_a_file(small, tmp_path):
    with pytest.raises(DatasetError, match="would have .* bytes, expected at most 2,000: a single"):
        pack(CIFAR10, small, tmp_path / "out", max_bytes=2000)
    assert not list((tmp_path / "out").iterdir())


def test_what_cannot_be_packed(small, tmp_path):
    with pytest.raises(DatasetError, match="no Parquet files: run `vitbook data fetch cifar10`"):
        pack(CIFAR10, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "out" / "cifar10").mkdir(parents=True)
    with pytest.raises(DatasetError, match="cifar10 is there already: remove it or choose another"):
        pack(CIFAR10, small, tmp_path / "out")
    assert not list((tmp_path / "out" / "cifar10").iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="could not write .*file/out/cifar10: Not a directory; "):
        pack(CIFAR10, small, tmp_path / "file" / "out")


def test_a_full_disk_leaves_nothing(small, tmp_path, plain_vitbook):
    plain_vitbook(
        f"""
        import pytest, resource, signal
        from pathlib import Path
        from vitbook.datasets.catalog import IMAGE_SETS
        from vitbook.datasets.stored.pack import pack
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        with pytest.raises(OSError, match="could not write .*: .*free some space"):
            pack(IMAGE_SETS["cifar10"], Path({str(small)!r}), Path({str(tmp_path)!r}) / "out")
        """
    )
    assert not list((tmp_path / "out").iterdir())


rows = st.lists(
    st.builds(
        lambda seed, length, path, label: Row(
            np.random.default_rng(seed).bytes(length), path, label
        ),
        st.integers(0, 2**32),
        st.integers(0, 30_000),
        st.text(max_size=20),
        st.integers(0, 2),
    ),
    max_size=30,
)


@settings(max_examples=25, deadline=None)
@given(rows=rows, max_bytes=st.integers(140_000, 600_000))
def test_any_rows_come_back_in_their_order_from_files_that_are_small(rows, max_bytes):
    with tempfile.TemporaryDirectory() as folder:
        root, out = Path(folder) / "data", Path(folder) / "out"
        (root / "cifar10").mkdir(parents=True)
        write_shard(root / "cifar10" / shard_name("test", 0, 1), rows, ["a", "b", "c"])
        assert list(find_shards(root / "cifar10", "test").found[0].rows()) == rows
        count = pack(CIFAR10, root, out, max_bytes=max_bytes)["test"]
        shards = find_shards(out / "cifar10", "test")
        assert len(shards.found) == count and not shards.absent
        assert [row for shard in shards.found for row in shard.rows()] == rows
        assert all(shard.path.stat().st_size <= max_bytes for shard in shards.found)
        assert shards.class_names == ("a", "b", "c")
