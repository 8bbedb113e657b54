"""`vitbook measure`: what there is, what a row says, and what is refused before the work begins."""

import json
from importlib import import_module
from types import SimpleNamespace

import pytest

import vitbook
from vitbook import datasets, runs
from vitbook.cli import measure
from vitbook.cli.measurements import few_shot as shots
from vitbook.cli.measurements import linear_probe as probe
from vitbook.model_utilities import weights_digest
from vitbook.models.weights.linear_heads import read_head
from vitbook.models.weights.pretrained import Pretrained
from vitbook.runs.measuring import measurement
from vitbook.training import save_checkpoint
from vitbook.training.transfer import frozen_readers
from vitbook.training.transfer.few_shot import t_interval
from vitbook.training.transfer.ridge import PENALTIES

MICRO = "digits-vit_micro_patch2_8-digits-seed0"
OTHER = "digits-vit_micro_patch2_8-digits-seed1"
UNLABELED = "self_supervision_digits-vit_micro_patch2_8-seed0-81831f17"
COLORED = "poster-vit_mini_patch4_32-seed0-20290c65"


def test_all_are_listed_with_a_sentence(capsys, monkeypatch):
    names = list(measure.measures())
    assert {"costs", "few-shot", "sharpness"} < set(names)  # of the command line, and of a study
    monkeypatch.setattr("sys.argv", ["vitbook", "measure"])
    with pytest.raises(SystemExit):
        vitbook.__main__.main()
    told = capsys.readouterr().out
    assert all(f" {name} " in told for name in names) and "Say how far the mean loss rises" in told


def test_what_lacks_a_package_is_named_and_the_others_are_there(monkeypatch, capsys):
    def imported(name):
        if name == "vitbook.studies.quantization.costs":
            raise ModuleNotFoundError("torchao is not installed: pip install it")
        return import_module(name)

    names = list(measure.measures())
    monkeypatch.setattr(measure, "import_module", imported)
    assert [*measure.measures.__wrapped__()] == [name for name in names if name != "quantize"]
    assert "costs is left out: torchao is not installed" in capsys.readouterr().err


@pytest.fixture
def lengths(monkeypatch):
    """A measurement that says what it computes; the second part may fail."""
    made = SimpleNamespace(parts=[], fail=False)

    def part(name: str) -> dict:
        if made.fail and name == "b":
            raise KeyboardInterrupt
        made.parts.append(name)
        return {"name": name, "length": [1 / 3, 0.25, 0.5], "none": None}

    @measurement(lengths={"name": "{name}", "length": "{length:.2f}", "none": "{none:.1f}"})
    def lengths(sheet, subject: str = "all") -> None:
        """Say how long two parts are."""
        sheet.expect(subject)
        sheet.write(subject, {"unit": "none"}, [sheet.once(each, part, each) for each in "ab"])

    made.ask = lengths
    monkeypatch.setattr(measure, "measures", lambda: {"lengths": lengths})
    return made


def test_a_row_with_its_provenance_and_its_table(lengths, told, tmp_path):
    out = told("measure", "lengths", "--subject", "two", "--out", tmp_path, "--device", "cpu")
    assert out.splitlines() == [
        "name  length             none",
        "a     0.33 [0.25, 0.50]  -",
        "b     0.33 [0.25, 0.50]  -",
        f"wrote {tmp_path}/lengths-two.json",
    ]
    (row,) = runs.measurements("lengths", "two", tmp_path)
    assert row.settings == {"unit": "none"} and row.rows[0]["length"] == [1 / 3, 0.25, 0.5]
    assert row.device == runs.device_name("cpu") and row.versions == runs.versions()
    assert row.commit == runs.commit() and row.command
    assert [each.name for each in tmp_path.iterdir()] == ["lengths-two.json"]


def test_what_was_killed_goes_on_where_the_same_is_asked(lengths, tmp_path):
    lengths.fail = True
    with pytest.raises(KeyboardInterrupt):
        lengths.ask(out=tmp_path, device="cpu")
    (unfinished,) = tmp_path.iterdir()
    kept = unfinished.read_bytes()
    lengths.fail = False
    lengths.ask(out=tmp_path, device="cpu")
    assert lengths.parts == ["a", "b"] and not unfinished.exists()
    other = kept.replace(b"'all'", b"'one'")  # kept of another question, or damaged
    for content in (other, kept[:9], b"[]", json.dumps({"question": 0}).encode()):
        unfinished.write_bytes(content)
        lengths.parts.clear()
        lengths.ask(out=tmp_path, device="cpu")
        assert lengths.parts == ["a", "b"]


def test_a_place_that_is_taken_is_told_before_the_work(lengths, refused, tmp_path):
    (tmp_path / "lengths-all.json").mkdir()
    assert "no plain file; choose another folder" in refused(
        "measure", "lengths", "--out", tmp_path
    )
    said = refused("measure", "lengths", "--subject", "a/b", "--out", tmp_path)
    assert "expected a name without a slash" in said
    assert not lengths.parts


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("moove", "unknown measurement 'moove': did you mean moves"),
        ("x", "known: ablate, "),
        ("fewer-tokens digits", "unknown head of vit_small_patch14_focus 'digits': known: cifar10"),
        ("moves", "Missing argument"),
        ("moves gone", "no checkpoint gone"),
        ("moves {MICRO} --threads 0", "threads 0: expected 1 to"),
        ("moves {MICRO} --device foo", "device foo: expected cpu"),
        ("moves {MICRO} --out /proc/x", "/proc"),
        ("moves {MICRO} elsewhere/{MICRO}.safetensors", "stands there 2 times: name it once"),
        ("moves {MICRO} --most 8", "--most 8: expected 1 to 7 for 8 pixels"),
        ("redundancy {MICRO} --split tset", "tset"),
        ("redundancy {MICRO} --dataset cifar10", "cifar10"),
        ("redundancy {UNLABELED}", "has learned no classes"),
        ("sharpness {MICRO} --radius 0", "radius 0.0: expected a number above 0"),
        ("sharpness {MICRO} --radius 1e30 --split test", "seed0: the loss goes from"),
        ("sharpness {MICRO} poster-resnet20-seed0-8376e7f4", "a data set of the same classes"),
        ("mirrors {MICRO}", "seed0: a side of 4 places"),
        ("mirrors digits-vit_nopos_micro_patch2_8-digits-seed0", "adds no table of positions"),
        ("resolutions digits-resnet8_digits-digits-seed0", "image 6x6 is not divisible by 4"),
        ("few-shot digits --model {MICRO} --shots 1,many", "--shots 1,many: expected numbers"),
        ("few-shot digits --model {MICRO} --shots ,", "shots []: expected whole numbers"),
        ("few-shot digits --model {MICRO} --shots 1,150", "but class 0 has 143"),
        ("few-shot digits --model {MICRO} --share 0", "share 0.0: expected more than 0"),
        ("few-shot digits --model {MICRO} --test-images 400", "digits has 355 held out"),
        ("few-shot digits --model vit_nano_focus", "vit_nano_focus"),
        ("few-shot digits --model gone.safetensors", "gone.safetensors"),
        ("few-shot digits --model {COLORED}", "of 1 channels"),
        ("tasks digit_plaze", "digit_place"),
        ("rank digits", "Missing argument"),
        ("rank digits {MICRO} {MICRO}@08 --share 0.1", "of 8 pixels is there twice: name each"),
        ("rank digits {MICRO}@nine", "expected a name, or a name and pixels such as"),
        ("rank digits vit_atto_patch2_8", "unknown weights, checkpoint or model 'vit_atto_pat"),
        ("rank digits {MICRO} --width 0", "equal to 1"),
        ("rank digits {MICRO} --width 200 --share 0.1", "200 combinations of 128 features"),
        ("rank digits {MICRO} --share 0.007", "class 0 has one image"),
        ("quantize digits --model digits-vit", "no checkpoint"),
        ("quantize digits --model {MICRO} --images 400", "400 images of digits, test: it has 355"),
        ("ablate digits", "unknown head of vit_small_patch14_focus 'digits'"),
        ("ablate tf_flowers --model vit_micro_patch2_8", "the book's heads are for vit_small_pat"),
        ("collages mnist", "unknown data set 'mnist'"),
        ("collages tiny_imagenet --seed -1", "greater than or equal to 0"),
        ("linear-probe digits --model vit_micro", "unknown pretrained model 'vit_micro'"),
    ],
)
def test_one_sentence_and_no_row(words, said, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in refused("measure", *words.format(**globals()).split())
    assert not list(tmp_path.rglob("*.json"))


def test_few_images_of_a_class(tmp_path, capsys, monkeypatch):
    seen, curve = [], shots.few_shot_curve
    monkeypatch.setattr(
        shots, "few_shot_curve", lambda *given: seen.append(given[2:4]) or curve(*given)
    )
    # A checkpoint of another ending, in another folder.
    file = tmp_path / "elsewhere" / "own weights.v2"
    save_checkpoint(file, vitbook.load_checkpoint(MICRO).model)
    (row,) = shots.few_shot(
        dataset="digits", model=str(file), shots="5,1", draws=3, share=0.2, test_images=50,
        out=tmp_path / "out", threads=1, device="cpu",
    )  # fmt: skip
    assert (tmp_path / "out" / "few_shot-own weights.v2-digits-0.2.json").is_file()
    assert row.settings["weights"] == weights_digest(vitbook.load_checkpoint(MICRO).model)
    assert (row.settings["training_images"], row.settings["test_images"]) == (288, 50)
    assert row.settings["drawn_test_images"] is True and row.settings["image_size"] == 8
    assert [(line["features"], line["reader"], line["shots"]) for line in row.rows] == [
        (features, reader, number)
        for features in ("pretrained", "fresh weights", "raw pixels")
        for number in (1, 5)
        for reader in ("ridge", "neighbours")
    ]
    learned, fresh, raw = (row.rows[place]["accuracy"][0] for place in (2, 6, 10))
    assert learned > 0.9 > raw > fresh
    for line in row.rows:
        assert line["accuracy"] == pytest.approx(t_interval(line["draws"]), abs=1e-3)
        assert len(line["penalties"]) == (3 if line["reader"] == "ridge" else 0)
        assert set(line["penalties"]) <= {*PENALTIES}
    told = capsys.readouterr().out.splitlines()
    assert told[0].split() == ["features", "reader", "1", "5"] and len(told) == 8
    assert told[1].startswith("pretrained") and "%" in told[1] and "±" in told[1]
    # Pixels of 50 digits, each beside its own label.
    test = datasets.load("digits", "test")
    known = datasets.resizing.resize(test.images, 32).flatten(1) / 255
    for pixels, label in zip(*seen[2], strict=True):
        places = (known == pixels).all(1).nonzero().flatten()
        assert len(places) and (test.labels[places] == label).all()
    assert len(seen[2][1].unique()) == 10


def test_a_linear_head_and_features_that_are_read_again(tmp_path, monkeypatch):
    small = vitbook.load_checkpoint(MICRO).model
    loaded = Pretrained(MICRO, small, (), {"digest": "d", "learned": "w"}, (0.5,), (0.5,))
    for module in (frozen_readers, probe):
        monkeypatch.setattr(module, "load_pretrained", lambda *given, **named: loaded)
    asked = {"dataset": "digits", "share": 0.3, "out": tmp_path, "device": "cpu"}
    (row,) = probe.linear_probe(**asked)
    learned, fresh, raw = (line["accuracy"][0] for line in row.rows)
    assert learned > 0.9 and learned > fresh and 0 < raw <= 1
    head = read_head(tmp_path / "vit_small_patch14_focus-digits.safetensors")
    assert head.provenance["accuracy"] == row.rows[0]["accuracy"]
    assert len(head.provenance["recall_in_training"]) == 10
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "features").iterdir()}
    (row,) = shots.few_shot(**asked, shots="2", draws=2)
    after = {file: file.stat().st_mtime_ns for file in (tmp_path / "features").iterdir()}
    assert before == after and len(before) == 4  # two bodies, training and held-out images
    assert row.subject == "vit_small_patch14_focus-digits-0.3" and row.settings["weights"] == "d"
    assert row.settings["layer"] == "last"


def test_an_earlier_block_is_read_and_leaves_no_head(tmp_path, monkeypatch, refused):
    small = vitbook.load_checkpoint(MICRO).model
    loaded = Pretrained(MICRO, small, (), {"digest": "d", "learned": "w"}, (0.5,), (0.5,))
    for module in (frozen_readers, probe):
        monkeypatch.setattr(module, "load_pretrained", lambda *given, **named: loaded)
    asked = {"dataset": "digits", "share": 0.3, "out": tmp_path, "device": "cpu"}
    (first,) = probe.linear_probe(**asked, layer="0")
    (last, named) = (
        shots.few_shot(**asked, layer=layer, shots="2", draws=2)[0]
        for layer in ("last", "encoder.blocks.0")
    )
    assert first.subject == "vit_small_patch14_focus-digits-0"
    assert not list(tmp_path.glob("*.safetensors"))
    for row in (first, named):
        assert row.settings["layer"] == "encoder.blocks.0"
        assert "after encoder.blocks.0, each token" in row.settings["features"]
    assert named.rows[0]["accuracy"] != last.rows[0]["accuracy"]
    assert "unknown layer '9': known: 0 to 3" in refused(
        "measure", "few-shot", "digits", "--model", MICRO, "--layer", "9", "--out", tmp_path / "o"
    )


def test_images_for_which_there_is_no_memory(refused, tmp_path, monkeypatch):
    def full(*given):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: 64 TB\nframe #0: ...")

    monkeypatch.setattr(shots, "frozen_body", full)
    words = ["few-shot", "digits", "--image-size", "1000000", "--shots", "1"]
    line = refused("measure", *words, "--out", tmp_path / "runs")
    assert line.startswith("vitbook: out of memory (DefaultCPU") and line.endswith("another device")
    assert not (tmp_path / "runs").exists()
