"""What a variant of the small body costs in training: `make bench`.

One step (forward, backward, AdamW) on 128 pictures of 32 pixels, against the plain body.
"""

import pytest
import torch
import torch.nn.functional as F

import vitbook
from vitbook.measure import compare_speed


def step(name):
    model = vitbook.create_model(name).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images, labels = torch.randn(128, 3, 32, 32), torch.randint(0, 10, (128,))

    def train():
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return train


@pytest.mark.parametrize(
    "name", [f"{kind}_vit_tiny_patch4_32" for kind in ("rot", "spt", "lsa", "sl")]
)
def test_training_step(name):
    ratio = compare_speed(step("vit_tiny_patch4_32"), step(name), pairs=20)
    print(f"\n{name}: {ratio} of the time of the plain body")
