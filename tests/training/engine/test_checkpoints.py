import copy
import json
import os
import re
import stat
import tomllib
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import vitbook
from vitbook import datasets, runs
from vitbook.runs.plan import read_experiments
from vitbook.runs.planned_run import PlannedRun
from vitbook.training import CheckpointError, evaluate, load_checkpoint, save_checkpoint

PYPROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"


@pytest.fixture
def saved(tmp_path):
    model = vitbook.create_model("vit_micro_patch2_8", image_size=(8, 12), num_classes=3).eval()
    path = save_checkpoint(
        tmp_path / "a" / "micro.safetensors",
        model,
        class_names=("x", "y", "z"),
        provenance={"seed": 7},
    )
    return model, path


def test_what_is_saved_comes_back(saved):
    model, path = saved
    back = load_checkpoint(path)
    images = torch.rand(2, 1, 8, 12)
    assert torch.equal(back.model(images), model(images))
    assert back.model.spec == model.spec
    assert (back.class_names, back.provenance) == (("x", "y", "z"), {"seed": 7})
    assert not back.model.training
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        (("x", "y"), CheckpointError, "2 class names for 3 outputs: expected one for each, or"),
        ("xyz", TypeError, "class names are 'xyz': expected one text for each class"),
        (("x", "y", "x"), ValueError, "classes 0 and 2 are both called 'x'"),
        (("x", "", "z"), ValueError, "the name of class 1 is empty"),
    ],
)
def test_names_that_are_not_those_of_the_outputs(names, error, words, tmp_path, plain_vitbook):
    plain_vitbook(
        f"""
        import pytest, vitbook
        from vitbook.training import CheckpointError, save_checkpoint
        model = vitbook.create_model("vit_micro_patch2_8", num_classes=3)
        with pytest.raises({error.__name__}, match={words!r}):
            save_checkpoint({str(tmp_path / "x")!r}, model, class_names={names!r})
        """
    )
    assert not (tmp_path / "x").exists()


def test_a_number_that_the_model_has_not_is_not_read_as_infinity(saved, tmp_path):
    model, _ = saved
    model.double().head.classifier.bias.data[1] = 1e300
    path = save_checkpoint(tmp_path / "wide.safetensors", model)
    for size in (None, (8, 16)):
        with pytest.raises(
            ValueError, match="head.classifier.bias up to 1e.300 where torch.float3"
        ):
            load_checkpoint(path, image_size=size)


def test_half_precision_comes_back_in_float32(saved, tmp_path):
    model, _ = saved
    path = save_checkpoint(tmp_path / "half.safetensors", model, dtype=torch.float16)
    back = load_checkpoint(path).model
    weight = model.head.classifier.weight
    assert back.head.classifier.weight.dtype == torch.float32
    assert torch.equal(back.head.classifier.weight, weight.half().float())


def test_a_file_cut_anywhere_is_refused_in_one_sentence(saved, tmp_path):
    _, path = saved
    whole = path.read_bytes()
    places = torch.randint(len(whole), (40,), generator=torch.Generator().manual_seed(0))
    for cut in [0, 1, 7, 8, 9, 100, 1000, len(whole) // 2, len(whole) - 1, *places.tolist()]:
        part = tmp_path / "cut.safetensors"
        part.write_bytes(whole[:cut])
        with pytest.raises(CheckpointError, match=r"cut.safetensors is damaged or no safetensors"):
            load_checkpoint(part)


def test_a_file_of_noise(tmp_path):
    (tmp_path / "noise.safetensors").write_bytes(os.urandom(4096))
    with pytest.raises(CheckpointError, match="is damaged or no safetensors file"):
        load_checkpoint(tmp_path / "noise.safetensors")


def test_weights_of_others(tmp_path):
    save_file({"w": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(CheckpointError, match="no description of its model"):
        load_checkpoint(tmp_path / "other.safetensors")


@pytest.mark.parametrize(
    "about", ["{", "{}", "[]", '{"format": 1, "spec": {"name": "vit_of_tomorrow"}}']
)
def test_a_description_that_we_cannot_read(about, tmp_path):
    path = tmp_path / "odd.safetensors"
    save_file({"w": torch.zeros(2)}, path, metadata={"vitbook": about})
    with pytest.raises(CheckpointError, match="damaged description|written for another vitbook"):
        load_checkpoint(path)


def test_a_later_format_is_refused(saved, tmp_path):
    state, about = read(saved[1])
    save_file(state, tmp_path / "x", metadata={"vitbook": json.dumps(about | {"format": 5})})
    with pytest.raises(CheckpointError, match="of format '5': this vitbook reads 1, 2, 3, 4; take"):
        load_checkpoint(tmp_path / "x")


def read(path):
    with safe_open(path, framework="pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}
        return state, json.loads(file.metadata()["vitbook"])


def test_damaged_weights_are_refused(saved, tmp_path):
    path = saved[1]
    whole = bytearray(path.read_bytes())
    for place in (-1, -len(whole) // 2, -len(whole) + 5000):
        broken = bytearray(whole)
        broken[place] ^= 16
        (tmp_path / "broken").write_bytes(broken)
        with pytest.raises(CheckpointError, match="damaged|description"):
            load_checkpoint(tmp_path / "broken")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tensor: tensor * float("nan"), "holds NaN or infinity in head.classifier.bias"),
        (
            lambda tensor: tensor.to(torch.int64),
            "of another kind: head.classifier.bias torch.int64 where torch.float32",
        ),
    ],
)
def test_weights_that_are_no_weights(change, words, saved, tmp_path):
    state, about = read(saved[1])
    state["head.classifier.bias"] = change(state["head.classifier.bias"])
    save_file(state, tmp_path / "x", metadata={"vitbook": json.dumps(about | {"format": 1})})
    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(tmp_path / "x")


MICRO = {"name": "vit_micro_patch2_8", "channels": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"spec": MICRO | {"image_size": 10**9, "num_classes": 3}},
        {"spec": MICRO | {"image_size": 8, "num_classes": 10**12}},
        {"spec": MICRO | {"image_size": -8, "num_classes": 3}},
        {"provenance": None},
        {"constants": {"norm.eps": "small"}},
        {"constants": {"nothing.eps": 1.0}},
        {"spec": []},
    ],
)  # fmt: skip
def test_a_description_of_nonsense(change, saved, tmp_path):
    state, about = read(saved[1])
    save_file(state, tmp_path / "x", metadata={"vitbook": json.dumps(about | change)})
    with pytest.raises(CheckpointError):
        load_checkpoint(tmp_path / "x")


def test_a_description_that_is_deep(saved, tmp_path):
    state, _ = read(saved[1])
    deep = '{"format": ' + "[" * 100_000 + "]" * 100_000 + "}"
    save_file(state, tmp_path / "x", metadata={"vitbook": deep})
    with pytest.raises(CheckpointError, match="damaged description"):
        load_checkpoint(tmp_path / "x")


def test_weights_beyond_half_precision_are_not_written(tmp_path):
    model = vitbook.create_model("vit_micro_patch2_8")
    with torch.no_grad():
        model.head.classifier.bias[0] = 1e6
    with pytest.raises(CheckpointError, match="classifier.bias holds NaN or infinity as float16"):
        save_checkpoint(tmp_path / "x", model, dtype=torch.float16)
    assert not list(tmp_path.iterdir())
    save_checkpoint(tmp_path / "x", model)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("vit_micro_patch2_8", 12),
        ("vit_micro_patch2_8", (8, 12)),
        ("vit_pos2d_micro_patch2_8", 12),
        ("vit_sinusoid_micro_patch2_8", 12),
        ("vit_nopos_micro_patch2_8", 16),
        ("t2t_vit_micro_patch2_8", 16),
        ("resnet8_digits", 16),
    ],
)
def test_positions_are_resized_for_images_of_another_size(name, size, tmp_path):
    path = save_checkpoint(tmp_path / "x", vitbook.create_model(name).eval())
    larger = load_checkpoint(path, image_size=size).model
    height, width = (size, size) if isinstance(size, int) else size
    assert larger(torch.rand(1, 1, height, width)).shape == (1, 10)
    assert larger.spec.image_size == size
    same = load_checkpoint(path, image_size=8).model
    images = torch.rand(2, 1, 8, 8)
    assert torch.equal(same(images), load_checkpoint(path).model(images))


def test_numbers_of_numpy_are_numbers(plain_vitbook, tmp_path):
    said = plain_vitbook(f"""
        import numpy as np
        import vitbook
        from vitbook.training import load_checkpoint, save_checkpoint
        size, classes = np.int64(8), np.array([0, 2, 1]).max() + 1
        model = vitbook.create_model("vit_micro_patch2_8", image_size=size, num_classes=classes)
        path = save_checkpoint({str(tmp_path / "numpy.safetensors")!r}, model)
        for size in (np.int64(12), np.array([12, 8]), 12.0, "12"):
            try:
                print(load_checkpoint(path, image_size=size).model.spec.image_size)
            except ValueError as error:
                print(error)
        for classes in (2.5, "3"):
            try:
                vitbook.create_model("vit_micro_patch2_8", num_classes=classes)
            except ValueError as error:
                print(error)
    """)
    assert said.splitlines() == [
        "12",
        "(12, 8)",
        "image size 12.0: expected a positive whole number or a pair of them",
        "image size '12': expected a positive whole number or a pair of them",
        "num_classes 2.5: expected a whole number",
        "num_classes '3': expected a whole number",
    ]


def test_what_cannot_be_resized_is_named(tmp_path):
    path = save_checkpoint(tmp_path / "x", vitbook.create_model("linformer_vit_micro_patch2_8"))
    with pytest.raises(CheckpointError, match="of another shape: "):
        load_checkpoint(path, image_size=12)
    with pytest.raises(ValueError, match="divisible"):
        load_checkpoint(path, image_size=9)


def test_a_checkpoint_for_another_model_changes_nothing(saved):
    _, path = saved
    other = vitbook.create_model("vit_micro_patch2_8", num_classes=5)
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    with pytest.raises(CheckpointError, match="of another shape: .*holds a vit_micro_patch2_8"):
        load_checkpoint(path, other)
    assert all(torch.equal(before[n], t) for n, t in other.state_dict().items())


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint .*: train one with `vitbook train`"):
        load_checkpoint(tmp_path / "none.safetensors")


def test_a_model_that_is_not_ours(tmp_path):
    with pytest.raises(CheckpointError, match="Linear does not say how it was made"):
        save_checkpoint(tmp_path / "x.safetensors", torch.nn.Linear(2, 2))
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_what_was_there(saved, plain_vitbook):
    _, path = saved
    before = path.read_bytes()
    # A limit on the size of files is what a full disk is to the one who writes.
    plain_vitbook(
        f"""
        import os, pytest, resource, signal
        from vitbook.training import load_checkpoint, save_checkpoint
        model = load_checkpoint({str(path)!r}).model
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        with pytest.raises(OSError, match="could not write .*0.[0-9] MB.*: .*free some space"):
            save_checkpoint({str(path)!r}, model)
        """
    )
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_wheel_without_the_books_own_says_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr("vitbook.training.engine.checkpoints.data_folder", lambda: tmp_path)
    address = tomllib.loads(PYPROJECT.read_text())["project"]["urls"]["Repository"]
    advice = f'pip install --force-reinstall --no-deps "vitbook @ git+{address}"'
    with pytest.raises(FileNotFoundError, match=re.escape(f"in the repository: {advice}")):
        load_checkpoint("digits-vit_micro_patch2_8-digits-seed0")


def test_what_is_no_plain_file_is_not_replaced(saved, tmp_path):
    model, _ = saved
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="could not write .*pipe .*it is no plain file"):
        save_checkpoint(tmp_path / "pipe", model)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    save_checkpoint(tmp_path / "link", model)
    assert (tmp_path / "link").is_symlink() and load_checkpoint(tmp_path / "elsewhere")


def test_a_changed_description_is_noticed(saved, tmp_path):
    _, path = saved
    whole = path.read_bytes()
    for words in (b"1e-06", b'\\"seed\\"', b"class_names"):
        changed = bytearray(whole)
        changed[whole.index(words) + len(words) - 3] ^= 1
        (tmp_path / "changed").write_bytes(changed)
        with pytest.raises(CheckpointError):
            load_checkpoint(tmp_path / "changed")


def test_what_the_caller_asks_in_vain_is_not_blamed_on_the_file(saved):
    model, path = saved
    with pytest.raises(ValueError, match="image 9x9 is not divisible") as raised:
        load_checkpoint(path, image_size=9)
    assert not isinstance(raised.value, CheckpointError)
    with pytest.raises(CheckpointError, match="the model is on meta"):
        load_checkpoint(path, copy.deepcopy(model).to("meta"))


SHIPPED = sorted(file.stem for file in (runs.data_folder() / "checkpoints").glob("*.safetensors"))
EMBEDDED = ("digits", "cluttered_digits")


def test_every_shipped_checkpoint_has_its_row():
    assert len(SHIPPED) >= 3
    assert set(SHIPPED) <= {row.name for row in runs.read_all()}
    sizes = [file.stat().st_size for file in (runs.data_folder() / "checkpoints").iterdir()]
    assert max(sizes) <= 6e6 and sum(sizes) <= 30e6


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if "digits" in name else pytest.mark.slow) for name in SHIPPED],
)
def test_a_shipped_checkpoint_does_what_the_ledger_says(name, request):
    rows = runs.read_all()
    (row,) = [row for row in rows if row.name == name]
    root = None if row.dataset in EMBEDDED else request.getfixturevalue("real_data")
    checkpoint = load_checkpoint(name)
    size = checkpoint.model.spec.image_size
    held_out = datasets.held_out_split(row.dataset)
    data = datasets.load(row.dataset, held_out, root, image_size=size)
    assert data.provenance["name"] == row.provenance["name"].split(", ")[0]  # without its share
    assert checkpoint.provenance["seed"] == row.seed
    if row.recipe.get("objective"):  # of its own score the study's tests know
        assert checkpoint.class_names == () and checkpoint.beside
        return
    assert checkpoint.class_names == data.class_names
    accuracy = evaluate(checkpoint.model, data)
    assert accuracy == pytest.approx(row.accuracy, abs=0.003)  # stored in half precision


def test_digits_are_learned_with_every_seed_of_the_ledger():
    made = {PlannedRun.of(row) for row in runs.read_all()}
    under_way = {each.name for each in read_experiments() if not made.issuperset(each.runs)}
    rows = [
        row for row in runs.read() if row.dataset == "digits" and row.experiment not in under_way
    ]
    seeds = {row.model: {other.seed for other in rows if other.model == row.model} for row in rows}
    assert all(each >= {0, 1, 2} for each in seeds.values()), seeds
    # What an experiment changes may keep a run from learning; that is then its question.
    plain = [row for row in rows if row.model == "vit_micro_patch2_8" and not row.experiment]
    assert plain and all(row.accuracy >= 0.97 for row in plain)
