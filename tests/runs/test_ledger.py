import json
import lzma
import os
import re
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError

import pytest

from vitbook import runs
from vitbook.runs import LedgerError, Result, get_recipe

ROW = dict(
    model="vit_micro_patch2_8",
    parameters=136_138,
    dataset="digits",
    recipe={"name": "digits", "epochs": 3},
    seed=1,
    accuracy=0.97,
    curve=[{"epoch": 1, "loss": 2.0, "accuracy": 0.3}],
    probes=[],
    data_passes=3.0,
    wall_time_s=1.5,
    images_per_second=1000.0,
    peak_memory_mb=500,
    precision="float32",
    processes=1,
    device="a processor",
    versions={"torch": "2"},
    commit="unknown",
    command="vitbook train",
    provenance={"name": "digits"},
)


def test_what_is_recorded_is_read(tmp_path):
    path = runs.record(Result(**ROW), tmp_path)
    assert path.name == "digits-vit_micro_patch2_8-digits-seed1.json"
    assert runs.read(tmp_path) == [Result(**ROW)]
    runs.record(Result(**(ROW | {"accuracy": 0.98})), tmp_path)
    assert [row.accuracy for row in runs.read(tmp_path)] == [0.98]


def test_runs_are_asked_for_by_data_set_and_recipe(tmp_path):
    recipe = get_recipe("digits", epochs=3)
    older = {key: value for key, value in asdict(recipe).items() if key != "drop_path"}
    rows = [
        Result(**ROW | {"seed": seed, "dataset": dataset, "recipe": numbers})
        for seed, (dataset, numbers) in enumerate(
            [
                ("digits", asdict(recipe)),
                ("digits", older),
                ("digits", asdict(recipe) | {"drop_path": 0.1}),
                ("digits", asdict(recipe) | {"of_later_days": 1}),
                ("cifar10", asdict(recipe)),
            ]
        )
    ]
    for row in rows:
        runs.record(row, tmp_path)

    def seeds(**which):
        return sorted(row.seed for row in runs.read(tmp_path, **which))

    assert seeds(dataset="digits") == [0, 1, 2, 3]
    assert seeds(recipe=recipe) == [0, 1, 4]
    assert seeds(dataset="digits", recipe=recipe) == [0, 1]
    assert seeds(dataset="digits", recipe=get_recipe("digits", epochs=4)) == []
    assert seeds(recipe=replace(recipe, name="mine")) == [0, 1, 4]
    for odd in ("digits", rows[0], type(recipe)):
        with pytest.raises(TypeError, match="expected a Recipe, as vitbook.runs.get_recipe"):
            seeds(recipe=odd)


@pytest.mark.parametrize("changes", [{"fault": "strips"}, {"distillation": "hard"}])
def test_a_recipe_asks_for_the_runs_that_it_makes(tmp_path, changes):
    recipe = get_recipe("digits", **changes)
    teacher = "another" * ("distillation" in changes)
    runs.record(Result(**ROW | {"recipe": asdict(recipe), "teacher": teacher}), tmp_path)
    assert not runs.read(tmp_path)
    assert len(runs.read(tmp_path, recipe=recipe)) == 1


def test_a_name_with_a_slash_would_not_be_found_again(tmp_path):
    with pytest.raises(LedgerError, match="a row named bench-a/b: expected a name without a slash"):
        runs.record(runs.Measurement(**MEASURED | {"subject": "a/b"}), tmp_path)
    with pytest.raises(LedgerError, match="without a slash"):
        runs.check_place("bench", "../b", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"recipe": "digits"}, "recipe 'digits': expected a table"),
        ({"recipe": {}}, "recipe without a name"),
        ({"provenance": {"name": 3}}, "provenance without a name"),
        ({"model": ["vit"]}, "model .'vit'.: expected text"),
        ({"model": "../../evil"}, "model '../../evil': expected a name without a slash"),
        ({"seed": "1"}, "seed '1': expected a whole number"),
        ({"parameters": 0}, "parameters 0: expected a whole number of at least 1"),
        ({"accuracy": True}, "accuracy True: expected a number"),
        ({"accuracy": 97.0}, "accuracy 97.0: expected a number of at most 1"),
        ({"wall_time_s": float("nan")}, "wall_time_s nan: expected a number above 0"),
        ({"share": "all"}, "share 'all': expected"),
        ({"share": -1}, "share -1: expected"),
        ({"curve": [3]}, "curve.0. 3: expected a table"),
        ({"extra": 1}, "missing or unknown: extra"),
    ],
)
def test_what_no_row_can_say_is_neither_read_nor_written(change, said, tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(ROW | change))
    with pytest.raises(LedgerError, match=f"x.json is no row of the ledger [(]{said}"):
        runs.read(tmp_path)
    (tmp_path / "x.json").unlink()
    if change.keys() & {"accuracy", "share"}:
        row = Result(**ROW)
        object.__setattr__(row, *change.popitem())
        with pytest.raises(LedgerError, match=said):
            runs.record(row, tmp_path)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_file_that_is_no_row(text, tmp_path):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(LedgerError, match="x.json is no row of the ledger"):
        runs.read(tmp_path)


def test_a_run_of_an_older_vitbook_stands_beside_measurements(tmp_path):
    (tmp_path / "older.json").write_text(json.dumps(ROW))  # without share, start and teacher
    row = runs.Measurement(**MEASURED)
    runs.record(row, tmp_path)
    assert runs.measurements(folder=tmp_path) == [row]
    assert runs.read(tmp_path) == [Result(**ROW)]


def test_the_books_own_ledger_and_its_published_numbers_are_readable():
    assert all(row.accuracy > 0 for row in runs.read())
    assert all(row.rows for row in runs.measurements())
    assert all(row["source"] for row in runs.published())


MEASURED = {
    "kind": "bench",
    "subject": "vit_micro_patch2_8",
    "settings": {"batch": 64},
    "rows": [{"pass": "forward", "images_per_second": 10.0}],
    "device": "a CPU",
    "versions": {"torch": "2.11.0"},
    "commit": "abc",
    "command": "vitbook bench vit_micro_patch2_8",
}


def test_a_measurement_is_recorded_and_found(tmp_path):
    row = runs.Measurement(**MEASURED)
    assert runs.record(row, tmp_path).name == "bench-vit_micro_patch2_8.json"
    assert runs.measurements(folder=tmp_path) == [row]
    assert runs.measurements("bench", "vit_micro_patch2_8", tmp_path) == [row]
    assert runs.measurements("bench", "another", tmp_path) == []
    assert runs.measurements("explanations", folder=tmp_path) == []
    assert runs.read(tmp_path) == []  # a run and a measurement may lie side by side
    with pytest.raises(LedgerError, match="missing or unknown"):
        runs.read_row(tmp_path / "bench-vit_micro_patch2_8.json")


@pytest.mark.parametrize("rows", [[], [{"a": 1}, {"b": 1}]])
def test_a_measurement_without_a_table(rows):
    with pytest.raises(LedgerError, match="all with the same keys"):
        runs.Measurement(**MEASURED | {"rows": rows})


def test_the_packed_rows_of_a_package_are_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr("vitbook.runs.ledger.data_folder", lambda: tmp_path)
    packed = tmp_path / "results.json.xz"
    whole = lzma.compress(json.dumps({"a.json": ROW}).encode())
    packed.write_bytes(whole)
    assert runs.read() == [Result(**ROW)]
    for content in (whole[:-20], b"", json.dumps({"a.json": ROW}).encode()):
        packed.write_bytes(content)
        with pytest.raises(LedgerError, match="results.json.xz is no row of the ledger"):
            runs.read()


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = runs.record(Result(**ROW), tmp_path)
    before = path.read_text()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="could not write .*No space left on device; free some"):
        runs.record(Result(**(ROW | {"accuracy": 0.5})), tmp_path)
    assert path.read_text() == before
    assert os.listdir(tmp_path) == [path.name]


def test_provenance_says_what_ran(monkeypatch):
    assert runs.versions()["torch"]
    assert re.search(r", \d+ threads?$", runs.device_name("cpu"))
    assert runs.commit() == "unknown" or len(runs.commit().rstrip("+")) == 40

    def version(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("vitbook.runs.provenance.version", version)
    assert runs.made_on("cpu")["versions"]["numpy"] == "not installed"


@pytest.mark.parametrize(
    ("change", "word", "told"),
    [
        ({"start": "vit_small_patch14_focus"}, "tuned", ", from vit_small_patch14_focus"),
        ({"recipe": ROW["recipe"] | {"objective": "mae"}}, "unlabeled", ", mae"),
        ({"recipe": ROW["recipe"] | {"fault": "strips"}}, "faulty", ", fault: strips"),
        ({"share": 0.1}, "few", ""),
    ],
)
def test_another_kind_of_run_is_told_apart(change, word, told, tmp_path):
    runs.record(Result(**ROW), tmp_path)
    runs.record(Result(**ROW | {"seed": 2} | change), tmp_path)
    assert [row.seed for row in runs.read(tmp_path)] == [ROW["seed"]]
    every = runs.read(tmp_path, **{word: True})
    assert [row.seed for row in every] == [ROW["seed"], 2] and runs.read_all(tmp_path) == every
    usual, other = runs.table(every)
    assert other["model"] == f"{usual['model']}{told}"


def test_what_learned_from_a_teacher_is_another_kind_of_run(tmp_path):
    started = {"start": "vit_small_patch14_focus"}
    for seed, more in enumerate([{}, {"teacher": "x"}, started, {"teacher": "x"} | started]):
        runs.record(Result(**ROW | {"seed": seed} | more), tmp_path)
    for tuned, taught, seeds in (
        (False, False, [0]), (False, True, [0, 1]), (True, False, [0, 2]), (True, True, range(4))
    ):  # fmt: skip
        found = sorted(row.seed for row in runs.read(tmp_path, tuned=tuned, taught=taught))
        assert found == [*seeds]
