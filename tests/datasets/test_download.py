"""The line breaks, the server lies, the disk is full, the process is killed."""

import signal
import socket
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from vitbook import datasets
from vitbook.datasets.catalog import IMAGE_SETS, Archive
from vitbook.datasets.fetched.download import TRIES, DownloadError, address, download


@pytest.fixture
def content():
    return np.random.default_rng(0).bytes(300_000)


@pytest.fixture
def archive(offer, content):
    return offer("cifar10", content).archive


def test_a_broken_line_is_taken_up_where_it_broke(mirror, archive, content, tmp_path):
    mirror.cuts = [100_000, 50_000]
    assert download(archive, tmp_path).read_bytes() == content
    assert mirror.ranges == [None, "bytes=100000-", "bytes=150000-"]
    assert mirror.statuses == [200, 206, 206]


def test_a_line_that_stays_broken_then_the_next_call_goes_on(mirror, archive, content, tmp_path):
    mirror.cuts = [100_000] + TRIES * [0]
    words = (
        "stopped after 0.1 of 0.3 MB .*: call again and it goes on from there, or fetch https:.*"
    )
    with pytest.raises(DownloadError, match=words):
        download(archive, tmp_path)
    part = tmp_path / f"{archive.name}.part"
    assert part.read_bytes() == content[:100_000]
    mirror.requests.clear()
    assert download(archive, tmp_path).read_bytes() == content
    assert mirror.requests == [(f"/~kriz/{archive.name}", "bytes=100000-", 206)]
    assert not part.exists()


def test_a_server_that_takes_no_ranges_sends_all_of_it_anew(mirror, archive, content, tmp_path):
    mirror.takes_ranges, mirror.cuts = False, [100_000]
    assert download(archive, tmp_path).read_bytes() == content
    assert mirror.statuses == [200, 200]


@pytest.mark.parametrize(
    ("length", "ranges"), [(100_000, ["bytes=100000-", None]), (300_001, [None])]
)
def test_a_part_of_another_version_is_found_and_fetched_anew(
    length, ranges, mirror, archive, content, tmp_path
):
    (tmp_path / f"{archive.name}.part").write_bytes(b"x" * length)
    with pytest.raises(DownloadError, match="has sha256 .*; it was removed; try again"):
        download(archive, tmp_path)
    assert download(archive, tmp_path).read_bytes() == content
    assert mirror.ranges == ranges


def test_a_wrong_sum(mirror, offer, content, tmp_path):
    archive = offer("cifar10", content, sha256="0" * 64).archive
    words = (
        r"has sha256 [0-9a-f]{16}\.\.\., expected 0{16}\.\.\. of cifar-10-python.tar.gz: it was "
    )
    with pytest.raises(DownloadError, match=words + "damaged .*; it was removed; try again"):
        download(archive, tmp_path)
    assert not list(tmp_path.glob("*.gz*"))


def test_a_file_of_another_length_is_not_even_fetched(mirror, offer, content, tmp_path):
    archive = offer("cifar10", content, num_bytes=170_498_071).archive
    with pytest.raises(DownloadError, match="offers 300,000 bytes, expected the 170,498,071 of"):
        download(archive, tmp_path)
    assert not list(tmp_path.iterdir())


def test_no_such_file_is_asked_for_once(mirror, archive, tmp_path):
    mirror.files.clear()
    with pytest.raises(DownloadError, match=r"127.0.0.1:\d+ cannot be reached \(404 Not Found\)"):
        download(archive, tmp_path)
    assert mirror.statuses == [404]


def test_no_connection_says_what_to_fetch_and_where_to_put_it(tmp_path, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("VITBOOK_MIRROR", f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(DownloadError) as caught:
            datasets.load("tiny_imagenet", "train", root=tmp_path)
    sentence = str(caught.value)
    assert "cannot be reached ([Errno 111] Connection refused)" in sentence
    assert "fetch http://cs231n.stanford.edu/tiny-imagenet-200.zip (248.1 MB)" in sentence
    assert f"put it at {tmp_path}/downloads/tiny-imagenet-200.zip" in sentence
    assert "\n" not in sentence


def test_the_mirror_takes_the_place_of_the_host(monkeypatch):
    archive = IMAGE_SETS["tf_flowers"].archive
    assert address(archive) == archive.url
    monkeypatch.setenv("VITBOOK_MIRROR", "http://localhost:1234/")
    path = "/download.tensorflow.org/example_images/flower_photos.tgz"
    assert address(archive) == "http://localhost:1234" + path
    assert archive.name == "flower_photos.tgz"


PATCHED = """
    from dataclasses import replace
    from vitbook import datasets
    from vitbook.datasets.catalog import IMAGE_SETS, Archive
    IMAGE_SETS["cifar10"] = replace(IMAGE_SETS["cifar10"], archive={archive!r})
"""


def script(archive: Archive, code: str) -> str:
    """As another process runs it, which knows nothing of our archive."""
    return textwrap.dedent(PATCHED).format(archive=archive) + textwrap.dedent(code)


def test_a_full_disk_then_the_next_call_goes_on(mirror, archive, content, tmp_path, plain_vitbook):
    # A limit on the size of files is what a full disk is to the one who writes.
    full = f"""
        import pytest, resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        with pytest.raises(OSError, match="could not write .*part .0.3 MB.: .*free some"):
            datasets.load("cifar10", "train", root={str(tmp_path)!r})
    """
    plain_vitbook(script(archive, full))
    downloads = tmp_path / "downloads"
    assert (downloads / f"{archive.name}.part").stat().st_size <= 100_000
    assert download(archive, downloads).read_bytes() == content
    assert mirror.statuses == [200, 206]


def test_a_disk_that_fills_up_while_converting(mirror, offer, cifar10, tmp_path, plain_vitbook):
    archive = offer("cifar10", cifar10[0]).archive
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    (downloads / archive.name).write_bytes(cifar10[0])
    full = f"""
        import pytest, resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
        with pytest.raises(OSError, match="could not write .*train-00000-of-00001.parquet: .*free"):
            datasets.load("cifar10", "train", root={str(tmp_path)!r})
    """
    plain_vitbook(script(archive, full))
    assert sorted(path.name for path in downloads.iterdir()) == [archive.name, "cifar10.lock"]
    assert not (tmp_path / "cifar10").exists()
    assert len(datasets.load("cifar10", "train", root=tmp_path)) == 20


def test_a_kill_then_the_next_call_goes_on(mirror, offer, cifar10, tmp_path):
    archive = offer("cifar10", cifar10[0]).archive
    mirror.hold = 30_000
    code = script(archive, f"datasets.load('cifar10', 'train', root={str(tmp_path)!r})")
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    part = tmp_path / "downloads" / f"{archive.name}.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size >= mirror.hold):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    mirror.released.set()
    assert not (tmp_path / "cifar10").exists()
    assert len(datasets.load("cifar10", "train", root=tmp_path)) == 20
    assert mirror.ranges == [None, "bytes=30000-"]
    assert mirror.statuses == [200, 206]
