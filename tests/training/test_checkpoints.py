import os

import pytest
import torch
from safetensors.torch import save_file

import vitbook
from vitbook import datasets, results
from vitbook.training import CheckpointError, evaluate, load_checkpoint, save_checkpoint
from vitbook.training.experiments import read_experiments
from vitbook.training.planned import PlannedRun


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


@pytest.mark.parametrize("about", ["{", "{}", '{"spec": {"name": "vit_of_tomorrow"}}'])
def test_a_description_that_we_cannot_read(about, tmp_path):
    path = tmp_path / "odd.safetensors"
    save_file({"w": torch.zeros(2)}, path, metadata={"vitbook": about})
    with pytest.raises(CheckpointError, match="damaged description|written for another vitbook"):
        load_checkpoint(path)


def test_a_checkpoint_for_another_model_changes_nothing(saved):
    _, path = saved
    other = vitbook.create_model("vit_micro_patch2_8", num_classes=5)
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    with pytest.raises(CheckpointError, match="has shape .*holds a vit_micro_patch2_8"):
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


SHIPPED = sorted(
    file.stem for file in (results.data_folder() / "checkpoints").glob("*.safetensors")
)
EMBEDDED = ("digits", "cluttered_digits")


def test_every_shipped_checkpoint_has_its_row():
    assert len(SHIPPED) >= 3
    assert set(SHIPPED) <= {row.name for row in results.read()}
    sizes = [file.stat().st_size for file in (results.data_folder() / "checkpoints").iterdir()]
    assert max(sizes) <= 6e6 and sum(sizes) <= 24e6


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if "digits" in name else pytest.mark.slow) for name in SHIPPED],
)
def test_a_shipped_checkpoint_does_what_the_ledger_says(name, request):
    (row,) = [row for row in results.read() if row.name == name]
    root = None if row.dataset in EMBEDDED else request.getfixturevalue("real_data")
    checkpoint = load_checkpoint(name)
    size = checkpoint.model.spec.image_size
    held_out = datasets.held_out_split(row.dataset)
    data = datasets.load(row.dataset, held_out, root, image_size=size)
    assert data.provenance["name"] == row.provenance["name"]
    accuracy = evaluate(checkpoint.model, data)
    assert accuracy == pytest.approx(row.accuracy, abs=0.003)  # stored in half precision
    assert checkpoint.provenance["seed"] == row.seed
    assert checkpoint.class_names == data.class_names


def test_digits_are_learned_with_every_seed_of_the_ledger():
    made = {PlannedRun.of(row) for row in results.read()}
    under_way = {each.name for each in read_experiments() if not made.issuperset(each.runs)}
    rows = [
        row for row in results.read() if row.dataset == "digits" and row.experiment not in under_way
    ]
    seeds = {row.model: {other.seed for other in rows if other.model == row.model} for row in rows}
    assert all(each == {0, 1, 2} for each in seeds.values()), seeds
    assert all(row.accuracy >= 0.97 for row in rows if row.model == "vit_micro_patch2_8")
