import io
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from vitbook.__main__ import app
from vitbook.datasets.embedded.placed_digits import PLACED_DIGITS
from vitbook.datasets.fetched import download
from vitbook.datasets.fetched.download import DownloadError
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


def run(*words, root=None):
    """In this process, as it is quick; what it raises, ``main`` turns into a sentence."""
    environment = {} if root is None else {"VITBOOK_DATA": str(root)}
    return CliRunner(env=environment).invoke(
        app, ["data", *map(str, words)], catch_exceptions=False
    )


def vitbook(*words):
    """As a user does."""
    return subprocess.run(
        [sys.executable, "-m", "vitbook", "data", *map(str, words)], capture_output=True, text=True
    )


def test_list(data):
    first, *lines = run("list", root=data).stdout.splitlines()
    assert first == f"in {data}"
    lines = {line.split()[0]: line for line in lines}
    embedded = ["digits", "cluttered_digits", "photos", *PLACED_DIGITS]
    assert list(lines) == [*embedded, "cifar10", "cifar100", "tf_flowers", "tiny_imagenet"]
    assert "train 40 of 2,939 (1 file missing), test 6; 0.0 MB; CC BY 2.0" in lines["tf_flowers"]
    assert "not here, 248 MB to fetch; non-commercial" in lines["tiny_imagenet"]
    assert "needs no file" in lines["digits"]


def test_list_says_what_is_damaged_and_goes_on(data):
    (data / "tf_flowers" / "train-00000-of-00002.parquet").write_bytes(b"")
    out = run("list", "--root", data).stdout
    assert "train-00000-of-00002.parquet is damaged" in out and "tiny_imagenet" in out


def test_check(data):
    out = run("check", "tf_flowers", root=data).stdout.splitlines()
    assert out[0].startswith("train: TF-Flowers (40 images), 40 images (JPEG, 40 sizes) of 5 cla")
    assert "classes, 8 each; sha256:" in out[0]
    assert out[1] == "train: missing train-00001-of-00002.parquet (2,899 of 2,939 images)"
    assert "test: TF-Flowers (6 images), 6 images" in out[2] and "1 to 2 each" in out[2]


def test_check_finds_the_first_bad_row(data):
    path = data / "tf_flowers" / "train-00000-of-00002.parquet"
    rows = list(Shard(path).rows())
    for bad in (17, 30):
        rows[bad] = Row(rows[bad].encoded[:400], rows[bad].path, rows[bad].label)
    write_shard(path, rows, NAMES)
    done = vitbook("check", "tf_flowers", "--root", data)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.startswith(f"vitbook: row 17 of {path} (roses/17.jpg) is no image: 400 by")
    assert len(done.stderr.splitlines()) == 1


def test_pack_then_check(data, tmp_path):
    out = tmp_path / "out"
    done = run("pack", "tf_flowers", "--out", out, "--max-mb", 0.2, root=data)
    assert f"TF-Flowers: files 1 of train, 1 of test in {out / 'tf_flowers'}" in done.stdout
    assert f"load with VITBOOK_DATA={out}" in done.stdout
    checks = [run("check", "tf_flowers", root=root).stdout for root in (out, data)]
    assert checks[0] == checks[1]
    small = tmp_path / "small"
    run("pack", "tf_flowers", "--out", small, "--image-size", 32, root=data)
    assert "(32 px copy, 40 images), 40 images (PNG, 32 x 32)" in (
        run("check", "tf_flowers", root=small).stdout
    )


def test_fetch_what_is_here_does_nothing(data):
    folder = data / "tf_flowers"
    (folder / "train-00000-of-00002.parquet").rename(folder / "train-00000-of-00001.parquet")
    before = sorted(data.rglob("*"))
    assert run("fetch", "tf_flowers", root=data).stdout == f"TF-Flowers is in {folder}\n"
    assert sorted(data.rglob("*")) == before


def test_fetch_does_not_claim_what_is_not_there(data):
    (test,) = (data / "tf_flowers").glob("test-*")
    test.unlink()
    told = "only a part of TF-Flowers, without test, train-00001-of-00002.parquet: it loads as it"
    with pytest.raises(ValueError, match=told):
        run("fetch", "tf_flowers", root=data)


def test_fetch_without_a_connection(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "PAUSE_S", 0)
    monkeypatch.setenv("VITBOOK_MIRROR", "http://127.0.0.1:9")  # nothing listens there
    with pytest.raises(DownloadError, match="127.0.0.1:9 cannot be reached .*: fetch https://www"):
        run("fetch", "cifar100", "--root", tmp_path)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["fetch", "cifar"], KeyError, "unknown data set 'cifar': did you mean cifar10 or cifar"),
        (["check", "digits"], ValueError, "digits is inside scikit-learn and scikit-image: needs"),
        (["check", "cifar10"], ValueError, "no Parquet files: run `vitbook data fetch cifar10`"),
        (["pack", "cifar10", "--out", "x"], ValueError, "no Parquet files: run `vitbook data"),
    ],
)
def test_bad_input(words, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        run(*words, "--root", tmp_path)
    assert not Path("x").exists()
