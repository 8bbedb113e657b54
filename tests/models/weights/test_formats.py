"""A file that is no checkpoint is said to be what it is, and what to do; nothing is unpickled."""

import gzip
import io
import pickle
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import vitbook
from vitbook.models.weights.linear_heads import HeadError, read_head
from vitbook.training import CheckpointError, load_checkpoint, start_from

NAME = "vit_micro_patch2_8"


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("unpickled",)


def torch_file(legacy=False):
    content = io.BytesIO()
    state = {"weight": torch.ones(2), "more": Bomb()}
    torch.save(state, content, _use_new_zipfile_serialization=not legacy)
    return content.getvalue()


def packed(*names):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, b"words")
    return content.getvalue()


def tar():
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("weights"))
    return content.getvalue()


def one_array():
    content = io.BytesIO()
    np.save(content, np.ones(3))
    return content.getvalue()


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 346292833\n"
TORCH = r"a PyTorch file, whose pickle is not read here: expected .*weights_only=True\)"
FILES = {
    "weights.pth": (torch_file(), TORCH),
    "weights.pt": (torch_file(legacy=True), TORCH),
    "pytorch_model.bin": (torch_file(), TORCH),
    "last.ckpt": (torch_file(), TORCH),
    "weights.pth.tar": (torch_file(legacy=True), TORCH),
    "any.pkl": (pickle.dumps({"weight": Bomb()}), TORCH),
    "renamed.safetensors": (torch_file(), TORCH),
    "cut.pth": (torch_file()[:400], r"a zip archive .* cut short at 400 bytes: .*fetch it again"),
    "flax.msgpack": (b"\x82\xa6params\x80\xa5state\x80", "a msgpack file, Flax' .*numpy.savez"),
    "model.h5": (b"\x89HDF\r\n\x1a\n" + bytes(50), "an HDF5 file, Keras' weights: .*save_file"),
    "pointer.safetensors": (POINTER, "a Git LFS pointer, .*: expected .*git lfs pull"),
    "pointer.npz": (POINTER, "a Git LFS pointer"),
    "page.npz": (b"\n<!DOCTYPE html>\n<html>Not found", "a web page: expected .* download link"),
    "page.safetensors": (b"<html><body>", "a web page"),
    "denied.npz": (b"<?xml version='1.0'?><Error>Denied</Error>", "an XML answer of a server"),
    "index.json": (b'{"weight_map": {"a": "model-1.safetensors"}}', "text, JSON"),
    "one.npy": (one_array(), "one array of numpy's: .* expected an archive of several"),
    "weights.npz.gz": (gzip.compress(b"words"), "packed with gzip: .*gunzip"),
    "weights.tar": (tar(), "a tar archive: .*unpack it"),
    "other.zip": (packed("readme.txt"), "a zip archive"),
    "empty.npz": (b"", r"\(it is empty\): expected a checkpoint of vitbook, or Google's .npz"),
    "empty.safetensors": (b"", r"\(it is empty\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_it_is_said_what_it_is(name, tmp_path):
    content, words = FILES[name]
    (tmp_path / name).write_bytes(content)
    for read in (
        load_checkpoint,
        lambda path: load_checkpoint(path, vitbook.create_model(NAME)),
        lambda path: start_from(path, NAME, image_size=8, num_classes=10, channels=1),
    ):
        with pytest.raises(CheckpointError, match=f"{name} is .*{words}") as raised:
            read(tmp_path / name)
        assert ("damaged" in str(raised.value)) == (not content) and "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["weights.pth", "pointer.safetensors", "page.npz"])
def test_a_head_says_so_too(name, tmp_path):
    content, words = FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(HeadError, match=words.partition(":")[0]):
        read_head(tmp_path / name)


def test_what_only_begins_like_another_is_not_taken_for_it(tmp_path):
    """The length in front of safetensors' words may be the first bytes of a pickle, or of a zip."""
    for first in (0x0280, 0x4B50):
        path = tmp_path / "x.safetensors"
        save_file({"w": torch.zeros(2)}, path, metadata={"x": ""})
        wide = " " * (first - int.from_bytes(path.read_bytes()[:8], "little"))
        save_file({"w": torch.zeros(2)}, path, metadata={"x": wide})
        whole = path.read_bytes()
        assert whole[:2] == first.to_bytes(2, "little")
        path.write_bytes(whole[:-1])
        with pytest.raises(CheckpointError, match="is damaged or no safetensors file"):
            load_checkpoint(path)
