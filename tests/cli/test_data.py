import io

import pytest
from PIL import Image

from vitbook.datasets.embedded.placed_digits import PLACED_DIGITS
from vitbook.datasets.fetched import download
from vitbook.datasets.stored.shard_writer import write_shard
from vitbook.datasets.stored.shards import Row, Shard, shard_name

NAMES = ["daisy", "dandelion", "roses", "sunflowers", "tulips"]


def jpeg(level, size):
    buffer = io.BytesIO()
    Image.new("RGB", size, (level, 99, 0)).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.fixture
def data(tmp_path):
    """A folder with flowers of many sizes, one of two files missing."""
    folder = tmp_path / "data" / "tf_flowers"
    folder.mkdir(parents=True)
    rows = [Row(jpeg(i, (200 + i, 180)), f"{NAMES[i % 5]}/{i}.jpg", i % 5) for i in range(40)]
    write_shard(folder / shard_name("train", 0, 2), rows, NAMES)
    write_shard(folder / shard_name("test", 0, 1), rows[:6], NAMES)
    return tmp_path / "data"


def test_list(data, told, monkeypatch):
    monkeypatch.setenv("VITBOOK_DATA", str(data))
    first, *lines = told("data", "list").splitlines()
    assert first == f"in {data}"
    lines = {line.split()[0]: line for line in lines}
    embedded = ["digits", "photos", *PLACED_DIGITS]
    stored = ["cifar10", "cifar100", "tf_flowers", "tiny_imagenet"]
    assert list(lines) == [*embedded, *stored, "cluttered_digits", "cluttered_cifar10"]
    assert lines["cluttered_cifar10"].endswith("made of cifar10: needs no other file")
    assert "train 40 of 2,939 (1 file missing), test 6; 0.0 MB; CC BY 2.0" in lines["tf_flowers"]
    assert "not here, 248 MB to fetch; non-commercial" in lines["tiny_imagenet"]
    assert "needs no file" in lines["digits"]
    (data / "tf_flowers" / "train-00000-of-00002.parquet").write_bytes(b"")
    out = told("data", "list")  # says what is damaged, and goes on
    assert "train-00000-of-00002.parquet is damaged" in out and "tiny_imagenet" in out


def test_check(data, told, refused):
    out = told("data", "check", "tf_flowers", "--root", data).splitlines()
    assert out[0].startswith("train: TF-Flowers (40 images), 40 images (JPEG, 40 sizes) of 5 cla")
    assert "classes, 8 each; sha256:" in out[0]
    assert out[1] == "train: missing train-00001-of-00002.parquet (2,899 of 2,939 images)"
    assert "test: TF-Flowers (6 images), 6 images" in out[2] and "1 to 2 each" in out[2]
    path = data / "tf_flowers" / "train-00000-of-00002.parquet"
    rows = list(Shard(path).rows())
    for bad in (17, 30):
        rows[bad] = Row(rows[bad].encoded[:400], rows[bad].path, rows[bad].label)
    write_shard(path, rows, NAMES)
    said = refused("data", "check", "tf_flowers", "--root", data)
    assert said.startswith(f"vitbook: row 17 of {path} (roses/17.jpg) is no image: 400 by")
    assert len(said.splitlines()) == 1


def test_pack_then_check(data, told, tmp_path):
    out, small = tmp_path / "out", tmp_path / "small"
    said = told("data", "pack", "tf_flowers", "--out", out, "--max-mb", 0.2, "--root", data)
    assert f"TF-Flowers: files 1 of train, 1 of test in {out / 'tf_flowers'}" in said
    assert f"load with VITBOOK_DATA={out}" in said
    checks = [told("data", "check", "tf_flowers", "--root", root) for root in (out, data)]
    assert checks[0] == checks[1]
    told("data", "pack", "tf_flowers", "--out", small, "--image-size", 32, "--root", data)
    checked = told("data", "check", "tf_flowers", "--root", small)
    assert "(32 px copy, 40 images), 40 images (PNG, 32 x 32)" in checked


def test_fetch_what_is_here_does_nothing(data, told):
    folder = data / "tf_flowers"
    (folder / "train-00000-of-00002.parquet").rename(folder / "train-00000-of-00001.parquet")
    before = sorted(data.rglob("*"))
    assert told("data", "fetch", "tf_flowers", "--root", data) == f"TF-Flowers is in {folder}\n"
    assert sorted(data.rglob("*")) == before


def test_fetch_does_not_claim_what_is_not_there(data, refused):
    (test,) = (data / "tf_flowers").glob("test-*")
    test.unlink()
    said = refused("data", "fetch", "tf_flowers", "--root", data)
    assert "only a part of TF-Flowers, without test, train-00001-of-00002.parquet: it loads" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("fetch cifar", "unknown data set 'cifar': did you mean cifar10 or cifar"),
        ("fetch cifar100", "127.0.0.1:9 cannot be reached"),
        ("check digits", "digits is inside scikit-learn and scikit-image: needs"),
        ("check cifar10", "no Parquet files: run `vitbook data fetch cifar10`"),
        ("pack cifar10 --out x", "no Parquet files: run `vitbook data"),
    ],
)
def test_bad_input(words, message, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(download, "PAUSE_S", 0)
    monkeypatch.setenv("VITBOOK_MIRROR", "http://127.0.0.1:9")  # nothing listens there
    assert message in refused("data", *words.split(), "--root", tmp_path)
    assert not (tmp_path / "x").exists()
