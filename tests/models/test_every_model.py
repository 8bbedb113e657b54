"""Every kind of model learns: one step moves all of it, and a cut run ends in its bits."""

from dataclasses import replace
from functools import cache, partial

import pytest
import torch

import vitbook
from vitbook.datasets import Dataset
from vitbook.measure import count_parameters
from vitbook.models.catalog import CATALOG
from vitbook.runs import Recipe
from vitbook.training import train

RECIPE = Recipe(
    name="three steps", epochs=3, batch_size=4, learning_rate=1e-3, warmup_epochs=1.0, erasing=0.5
)


class PulledPlugError(Exception):
    pass


@cache
def parameters(name):
    with torch.device("meta"):
        return count_parameters(vitbook.create_model(name))


def parts(value):
    """What a setting builds with; the numbers alike."""
    if isinstance(value, partial):
        return (value.func, *((key, parts(each)) for key, each in value.keywords.items()))
    if isinstance(value, tuple):
        return tuple(dict.fromkeys(map(parts, value)))
    return value if callable(value) else type(value)


def kind(name):
    """Factory and parts: sizes, and the same parts on another body, are no other kind."""
    factory, settings = CATALOG[name]
    built = {(key, parts(each)) for key, each in settings.items() if parts(each) not in (int, bool)}
    return factory, frozenset(built)


def is_large(name):
    return "micro" not in name and "digits" not in name


def one_of_each_kind():
    """The first in the catalogue, where a paper's smallest is first; small ones if there are."""
    last = sorted(reversed(CATALOG), key=is_large, reverse=True)
    for name in {kind(name): name for name in last}.values():
        yield pytest.param(name, marks=pytest.mark.slow if is_large(name) else ())


# The class token reads its own row of the last attention, in which no patch looks at another.
UNREAD = {
    f"vit_{kind}_{body}": {f"encoder.blocks.{last}.attention.position.{table}" for table in tables}
    for kind, tables in (("relpos", ["table"]), ("relpos2d", ["of_rows", "of_columns"]))
    for body, last in {
        "tiny_patch4_32": 8,
        "mini_patch4_32": 5,
        "micro_patch2_8": 3,
        "micro_patch1_8": 3,
    }.items()
}


def small(name):
    """The model on four patches; a large one with two layers."""
    torch.manual_seed(0)
    large = parameters(name) > 30e6
    factory, settings = CATALOG[name]
    with torch.device("meta"):
        side = 2 * vitbook.create_model(name).patch_size
    settings = settings | {"image_size": (side, side), "num_classes": 3}
    shallow = {"stages": tuple(replace(stage, depth=2) for stage in settings.get("stages", ()))}
    for cut in (
        shallow | {"window_size": 2},
        shallow,
        {"depths": (2, 1)},
        {"stage_depths": (1,) * len(settings.get("stage_depths", ())), "width_factor": 1},
        {"num_keys": 2},
        {"block_size": (1, 2)},
        {"body": replace(settings["body"], depth=2)} if large and "body" in settings else {},
    ):
        if cut.keys() <= settings.keys():
            return factory(**settings | cut)


def pictures(model):
    first = getattr(model, "tokenizer", model)
    shape = (4, first.channels, *first.image_size)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    return Dataset(images, torch.tensor([0, 1, 2, 0]), ("a", "b", "c"), {"name": "noise"})


def learn(name, state=None, stop_at=None):
    model, steps = small(name), 0

    def count(module, _):
        nonlocal steps
        steps += module.training
        if stop_at and steps > stop_at:
            raise PulledPlugError

    model.register_forward_pre_hook(count)
    train(
        model, pictures(model), RECIPE, progress=False, device="cpu", state=state, save_every_s=0
    )  # fmt: skip
    return model


@pytest.mark.parametrize("name", list(one_of_each_kind()))
def test_a_cut_run_ends_in_the_bits_of_a_whole_one(name, tmp_path):
    start, learned = small(name).state_dict(), learn(name)
    still = {
        key
        for key, value in learned.named_parameters()
        if value.numel() and torch.equal(value, start[key])  # no prefix token: nothing to learn
    }
    assert still == UNREAD.get(name, set())
    with pytest.raises(PulledPlugError):
        learn(name, tmp_path / "run.unfinished", stop_at=1)
    resumed, whole = learn(name, tmp_path / "run.unfinished").state_dict(), learned.state_dict()
    assert all(torch.equal(resumed[key], tensor) for key, tensor in whole.items())
