"""The way that README.md shows from a folder to an ONNX file, walked on pictures made here."""

import re
import shlex
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from typer.testing import CliRunner

from vitbook import datasets, runs
from vitbook.__main__ import app
from vitbook.training import load_checkpoint

README = Path(__file__).resolve().parents[2] / "README.md"
HEADING = "### From a folder to a fine-tuned model, its explanations and its ONNX file"
# In the place of the pretrained ViT: one of the book's own, which needs no fetching.
SMALL = {
    "vit_small_patch14_dinov2": "vit_mini_patch8_128",
    "vit_small_patch14_focus": "tf_flowers-vit_mini_patch8_128-flowers-seed0",
}


def commands():
    (section,) = re.findall(
        rf"{re.escape(HEADING)}\n(.*?)```bash\n(.*?)```", README.read_text(), re.S
    )
    return [shlex.split(line) for line in section[1].splitlines()]


def expanded(word):
    """As a shell gives it."""
    return sorted(map(str, Path().glob(word))) if "*" in word else [SMALL.get(word, word)]


@pytest.fixture
def flowers(tmp_path, monkeypatch):
    """Three classes, each of its own colour, landscape and portrait."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VITBOOK_DATA", str(tmp_path / "root"))
    generator = np.random.default_rng(0)
    for channel, name in enumerate(("roses", "tulips", "violets")):
        (tmp_path / "my_flowers" / name).mkdir(parents=True)
        for number in range(16):
            size = (150, 120, 3) if number % 2 else (120, 150, 3)
            noise = generator.integers(0, 100, size, dtype=np.uint8)
            noise[..., channel] += 150
            Image.fromarray(noise).save(tmp_path / "my_flowers" / name / f"{number}.jpg")
    return tmp_path / "my_flowers"


@pytest.mark.slow
def test_from_a_folder_to_an_onnx_file(flowers, tmp_path):
    names, said = [], {}
    for program, command, *words in commands():
        assert program == "vitbook"
        words = [each for word in words for each in expanded(word)]
        done = CliRunner().invoke(app, [command, *words], catch_exceptions=False)
        assert not done.exit_code, done.output
        names.append(command)
        said[command] = done.output
    assert names == ["train", "evaluate", "probe", "export"]
    (row,) = runs.read("runs", tuned=True)
    assert re.fullmatch(r"my_flowers@[0-9a-f]{8}", row.dataset) and row.accuracy > 0.5
    assert f"{row.accuracy:.2%} of 9 images of {row.dataset}, test" in said["evaluate"]
    page = (tmp_path / "my_report" / "report.html").read_text()
    assert "Not run" not in page and f"learned from {row.dataset}" in page and "1.jpg" in page
    session = onnxruntime.InferenceSession("my_flowers.onnx")
    outputs = [each.name for each in session.get_outputs()]
    assert outputs[0] == "answer" and sum(name.startswith("attention:") for name in outputs) > 1
    held_out = datasets.load("my_flowers", "test", image_size=row.recipe["image_size"])
    (given,) = session.get_inputs()
    answers = [
        session.run(["answer"], {given.name: held_out.images[n : n + 1].numpy()})[0].argmax()
        for n in range(9)
    ]
    right = (np.array(answers) == held_out.labels.numpy()).mean()
    assert right == pytest.approx(row.accuracy)
    (checkpoint,) = Path("runs").glob("*.safetensors")
    assert load_checkpoint(checkpoint).class_names == ("roses", "tulips", "violets")
    assert sorted(each.name for each in flowers.iterdir()) == ["roses", "tulips", "violets"]
