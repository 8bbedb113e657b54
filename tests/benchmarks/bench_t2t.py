"""What T2T-ViT-14 costs beside timm's ViT-S/16, which counts about as many MACs: `make bench`."""

import pytest
import timm
import torch
import torch.nn.functional as F

import vitbook
from vitbook.measure import compare_speed, count_macs

PAIRS, BATCH = 20, 8


def forward(model, images):
    def run():
        with torch.inference_mode():
            model(images)

    return run


def step(model, images):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    labels = torch.randint(0, 1000, (len(images),))

    def train():
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return train


@pytest.mark.parametrize(("mode", "make"), [("forward", forward), ("training step", step)])
@pytest.mark.parametrize("name", ["t2t_vit_14", "t2t_vit_t_14"])
def test_per_mac(name, mode, make):
    images = torch.randn(BATCH, 3, 224, 224)
    ours, theirs = vitbook.create_model(name), timm.create_model("vit_small_patch16_224")
    macs = [count_macs(model.eval(), images[:1]) for model in (theirs, ours)]
    for model in (ours, theirs):
        model.train(mode != "forward")
    ratio = compare_speed(make(theirs, images), make(ours, images), pairs=PAIRS)
    per_mac = [number * macs[0] / macs[1] for number in (ratio.median, ratio.low, ratio.high)]
    print(
        f"\n{name}, {mode}, batch {BATCH}, {torch.get_num_threads()} threads: {ratio} of the time "
        f"of ViT-S/16, with {macs[1] / macs[0]:.3f} of its MACs; per MAC "
        f"{per_mac[0]:.3f} [{per_mac[1]:.3f}, {per_mac[2]:.3f}]"
    )
