import math
import re
import weakref
from dataclasses import replace

import pytest
import torch
from small_runs import bits, few_digits, micro, same
from torch import nn

import vitbook
from vitbook.datasets import Dataset, normalize
from vitbook.runs import Recipe, get_recipe
from vitbook.training import BatchTooLargeError, TrainingDivergedError, evaluate, predict, train
from vitbook.training.engine.memory import is_out_of_memory
from vitbook.training.engine.optimization import learning_rate, moving_average

SHORT = Recipe(
    name="short", epochs=3, batch_size=64, learning_rate=1e-3, warmup_epochs=1.0, shift=0.5
)


def test_training_learns_and_says_how():
    model, data = micro(), few_digits(n=256)
    before = evaluate(model, data)
    longer = replace(SHORT, epochs=12, batch_size=32, learning_rate=2e-3)
    run = train(model, data, longer, test=few_digits("test", 100), progress=False)
    assert [row["epoch"] for row in run.curve] == list(range(1, 13))
    assert run.curve[-1]["loss"] < run.curve[0]["loss"]
    assert run.accuracy == run.curve[-1]["accuracy"]
    assert evaluate(model, data) > before + 0.2
    assert run.wall_time_s > 0


def test_evaluate_counts_by_hand_and_keeps_the_mode():
    data, model = few_digits("test", 70), micro().train()
    share = evaluate(model, data, batch_size=32)
    with torch.no_grad():
        answers = model.eval()(normalize(data.images)).argmax(1)
    assert share == pytest.approx((answers == data.labels).sum().item() / 70)
    model.train().encoder.eval()  # frozen, as in fine-tuning
    assert predict(model, data.images).shape == (70, 10)
    assert model.training and not any(part.training for part in model.encoder.modules())


def test_the_learning_rate():
    recipe = Recipe(name="r", epochs=10, batch_size=1, learning_rate=1.0, warmup_epochs=2.0)
    assert learning_rate(0, recipe) == pytest.approx(0, abs=1e-3)
    assert learning_rate(1, recipe) == pytest.approx(0.5, abs=1e-3)
    assert learning_rate(2, recipe) == pytest.approx(1)
    assert learning_rate(6, recipe) == pytest.approx(0.5)
    assert learning_rate(10, recipe) == pytest.approx(0)
    assert learning_rate(4, recipe) == pytest.approx(0.5 * (1 + math.cos(math.pi / 4)))
    floor = replace(recipe, final_learning_rate=0.2)
    assert learning_rate(2, floor) == pytest.approx(1)
    assert learning_rate(6, floor) == pytest.approx(0.6)
    assert learning_rate(10, floor) == pytest.approx(0.2)


def test_label_smoothing_by_hand():
    # Two classes with logits 0 and ln 3, so probabilities 1/4 and 3/4; smoothing 0.2 asks for 0.9
    # of the right class and 0.1 of the other. The right one of a mixed image is 0.3 and 0.7.
    class Fixed(torch.nn.Linear):
        def forward(self, images):
            return self.weight.expand(len(images), 2)

    logits, low, high = torch.tensor([[0.0, math.log(3)]]), math.log(4), math.log(4 / 3)
    for label, wanted in ((0, 0.9 * low + 0.1 * high), (1, 0.1 * low + 0.9 * high)):
        model = Fixed(2, 1, bias=False)
        model.weight.data = logits.clone()
        data = Dataset(torch.zeros(1, 1, 1, 1).byte(), torch.tensor([label]), ("a", "b"), {})
        recipe = Recipe("r", epochs=1, batch_size=1, learning_rate=1.0, label_smoothing=0.2)
        run = train(model, data, recipe, progress=False)
        assert run.curve[0]["loss"] == pytest.approx(wanted, abs=1e-6)
    mixed = torch.nn.functional.cross_entropy(
        logits, torch.tensor([[0.3, 0.7]]), label_smoothing=0.2
    )
    assert mixed.item() == pytest.approx((0.1 + 0.8 * 0.3) * low + (0.1 + 0.8 * 0.7) * high)


def test_the_mean_of_the_weights_by_hand():
    model = torch.nn.Linear(1, 1, bias=False)
    recipe = Recipe(name="r", epochs=1, batch_size=1, learning_rate=1.0, ema=0.75)
    mean = moving_average(model, recipe, 30)
    for weight in (8.0, 4.0, 0.0):  # starts at 8; then 0.75 x 8 + 0.25 x 4 = 7; then 5.25
        model.weight.data.fill_(weight)
        mean.update_parameters(model)
    assert mean.module.weight.item() == pytest.approx(5.25)


@pytest.mark.parametrize("ema", [0.9, 0.99, 0.998, 0.9999])
def test_a_mean_that_would_remember_the_first_step_says_so_and_what_fits(ema):
    model, first = torch.nn.Linear(1, 1, bias=False), round(math.log(0.05) / math.log(ema))
    recipe = replace(SHORT, ema=ema)
    moving_average(model, recipe, first + 2)
    moving_average(model, recipe, 1)  # its first step is its last
    short = round(math.log(0.7) / math.log(ema)) + 1
    with pytest.warns(UserWarning, match=r"[67]\d% of the weights .* after one step; set") as told:
        moving_average(model, recipe, short)
    fits = float(re.search(r"at most ([\d.]+)", str(told[0].message))[1])
    assert fits < ema
    moving_average(model, replace(recipe, ema=fits), short)


def test_whole_numbers_have_no_mean():
    model = torch.nn.Linear(1, 1)
    model.register_buffer("indices", torch.arange(1000))
    mean = moving_average(model, replace(SHORT, ema=0.95), 100)
    for _ in range(3):
        mean.update_parameters(model)
    assert torch.equal(mean.module.indices, model.indices)


def test_a_run_ends_as_the_mean_of_its_weights():
    seen = []
    model = micro()
    recipe = replace(SHORT, ema=0.9, epochs=2)
    train(
        model, few_digits(), recipe, progress=False, probe_epochs=(2,),
        probe=lambda kept: seen.append(kept.head.classifier.weight.clone()) or {},
    )  # fmt: skip
    assert torch.equal(seen[0], model.head.classifier.weight)
    plain = micro()
    train(plain, few_digits(), replace(recipe, ema=0.0), progress=False)
    assert not torch.equal(seen[0], plain.head.classifier.weight)


def test_a_loss_that_is_no_number():
    model = micro()
    with torch.no_grad():
        model.head.classifier.bias.fill_(float("nan"))
    with pytest.raises(TrainingDivergedError, match="became nan in epoch 1 of 3: lower the learn"):
        train(model, few_digits(), SHORT, progress=False)


def test_every_epoch_is_reported_and_probed():
    rows = []
    run = train(
        micro(), few_digits(), SHORT, test=few_digits("test", 60), progress=False,
        probe=lambda model: {"width": model.prefix.shape[1]}, probe_epochs=(0, 2, 3),
        after_epoch=rows.append,
    )  # fmt: skip
    assert list(run.curve) == rows and rows[-1]["learning_rate"] == pytest.approx(0)
    assert run.probes == tuple({"epoch": epoch, "width": 64} for epoch in (0, 2, 3))
    assert run.data_passes == 3 and run.images_per_second > 0
    assert 0 < run.training_s < run.wall_time_s


def test_data_passes_are_counted_honestly():
    recipe = replace(SHORT, batch_size=100, repeats=3, epochs=2)
    run = train(micro(), few_digits(n=256), recipe, progress=False)
    assert run.data_passes == 2 * 7 * 100 / 256  # 768 images shown an epoch, 7 whole batches


class Holding(nn.Module):
    """Takes at most eight images, and looks whether what failed before still takes its memory."""

    def __init__(self, fails):
        super().__init__()
        self.linear = nn.Linear(64, 10)
        self.fails, self.tried = fails, []

    def forward(self, images):
        assert not any(held() is not None for held in self.tried)
        logits = self.linear(images.flatten(1))
        self.tried.append(weakref.ref(logits))
        if len(images) > 8 and self.fails == "forward":
            self.no_memory(logits)
        if len(images) > 8 and self.fails == "a chain":
            try:
                self.no_memory(logits)
            except torch.OutOfMemoryError as error:
                raise RuntimeError("cannot allocate memory") from error
        if len(images) > 8:
            logits.register_hook(self.no_memory)
        return logits

    def no_memory(self, gradient):
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_what_lacks_memory_between_two_steps_is_not_blamed_on_the_batch():
    model = vitbook.create_model("vit_micro_patch2_8")

    def full(row):
        raise MemoryError("no room for a row")

    with pytest.raises(MemoryError, match="between two steps, .*no room for a row") as raised:
        train(model, few_digits(), SHORT, progress=False, after_epoch=full)
    assert not isinstance(raised.value, BatchTooLargeError)


@pytest.mark.parametrize("fails", ["forward", "backward", "a chain"])
def test_what_failed_holds_no_memory_while_less_is_tried(fails):
    model = Holding(fails)
    with pytest.raises(BatchTooLargeError, match="8 does"):
        train(model, few_digits(), SHORT, progress=False)
    assert len(model.tried) == 7  # one to count its outputs, 64, then 1, 2, 4, 8, and 16 in vain


def test_a_seed_decides_the_run_and_chance_outside_stays_what_it_was():
    ends = []
    for seed in (0, 0, 1):
        model = micro(seed=5)
        torch.manual_seed(5)
        wanted = torch.rand(3)
        torch.manual_seed(5)
        train(model, few_digits(), replace(SHORT, epochs=1), seed=seed, progress=False)
        assert torch.equal(torch.rand(3), wanted)
        ends.append(bits(model))
    assert same(ends[0], ends[1]) and not same(ends[0], ends[2])


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("could not create a primitive"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), True),
        (RuntimeError("shapes do not fit"), False),
    ],
)
def test_what_is_a_lack_of_memory(error, is_it):
    assert is_out_of_memory(error) == is_it


@pytest.mark.slow
def test_compiled_it_learns_the_same(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch
        from dataclasses import replace
        from vitbook import datasets
        from vitbook.datasets import take_share
        from vitbook.models.papers.vit import MICRO_BODY, vit
        from vitbook.runs import Recipe
        from vitbook.training import train
        few, losses = take_share(datasets.load("digits", "train"), 0.1), []
        for compile in (False, True):
            torch.manual_seed(0)
            body = replace(MICRO_BODY, depth=1)
            model = vit(image_size=8, patch_size=4, channels=1, num_classes=10, body=body)
            run = train(model, few, Recipe("short", 3, 64, 1e-3, shift=0.5, ema=0.9),
                        compile=compile, progress=False, device="cpu")
            losses.append([row["loss"] for row in run.curve])
        assert losses[0] == pytest.approx(losses[1], abs=1e-3), losses
        """
    )


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [300, 1000])
def test_a_real_lack_of_memory(megabytes, plain_vitbook):
    plain_vitbook(
        """
        import pytest, resource, torch, vitbook
        from vitbook.datasets import Dataset
        from vitbook.runs import Recipe
        from vitbook.training import BatchTooLargeError, train
        n = 4096
        data = Dataset(torch.zeros(n, 1, 32, 32, dtype=torch.uint8), torch.zeros(n).long(),
                       tuple("0123456789"), {"name": "black"})
        model = vitbook.create_model("vit_tiny_patch4_32", channels=1)
        torch.set_num_threads(1)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEGABYTES * 10**6,) * 2)
        with pytest.raises(BatchTooLargeError, match="4096 does not .* machine; [0-9]+ does"):
            train(model, data, Recipe("r", 1, n, 1e-3), progress=False)
        """.replace("MEGABYTES", str(megabytes))
    )


def test_too_few_outputs():
    model = vitbook.create_model("vit_micro_patch2_8", num_classes=4)
    with pytest.raises(ValueError, match="the model has 4 outputs, digits has 10 classes: create"):
        train(model, few_digits(), SHORT, progress=False)


def test_what_does_not_learn_drops_nothing():
    recipe = get_recipe("digits", epochs=1, warmup_epochs=0.0, dropout=0.2, train_from="head")
    model, seen = micro(), []
    model.dropout.register_forward_hook(lambda m, *_: seen.append(m.training))
    train(model, few_digits(n=64), recipe, progress=False)
    assert seen and not any(seen)
