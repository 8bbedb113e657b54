"""What cannot be written is found before the work, in one sentence, and leaves nothing behind."""

import os

import pytest

from vitbook.files import check_file_writable, check_writable, write_atomically


@pytest.fixture
def places(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def everything(folder):
    return sorted(os.listdir(folder)), (folder / "file").read_text()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("file", "/file: Not a directory; choose another folder"),
        ("dangling", "/dangling: Not a directory"),
        ("circle/below", "Too many levels of symbolic links"),
        ("new/" + 300 * "a", None),
        (300 * "a", "File name too long; choose a shorter name"),
        ("a\0b", "the name holds a null character"),
        ("pipe", "/pipe: Not a directory"),
        ("new/below", None),
        (".", None),
        ("/proc/new", "could not write /proc"),  # which permissions call writable
    ],
)
def test_a_folder_before_the_work(places, name, why):
    before = everything(places)
    if why is None:
        check_writable(places / name)
    else:
        with pytest.raises(OSError, match="could not write") as caught:
            check_writable(places / name)
        assert why in caught.value.strerror and "\n" not in caught.value.strerror
    assert everything(places) == before


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("file", None),
        ("new", None),
        ("dangling", None),
        ("circle", "its links lead nowhere"),
        ("pipe", "it is no plain file"),
        (".", "it is no plain file"),
        ("a\0b", "the name holds a null character"),
    ],
)
def test_a_file_before_the_work_and_in_it(places, name, why):
    before = everything(places)
    if why is None:
        check_file_writable(places / name)
        assert everything(places) == before
        assert (places / name).is_symlink() == (name == "dangling")
        assert write_atomically(places / name, b"x").read_bytes() == b"x"
        assert (places / name).is_symlink() == (name == "dangling")
        return
    for call in (check_file_writable, lambda path: write_atomically(path, b"x")):
        with pytest.raises(OSError, match="could not write") as caught:
            call(places / name)
        told = caught.value.strerror
        assert why in told
        assert "\n" not in told and everything(places) == before
