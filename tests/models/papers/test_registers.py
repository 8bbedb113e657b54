"""Registers: their parameters, what they reach, and what does not read them."""

import torch

import vitbook

# Each of four registers is a vector, with a row of positions.
PARAMETERS = {
    "vit_registers_micro_patch2_8": 136_138 + 4 * 2 * 64,
    "vit_registers_mini_patch4_32": 459_178 + 4 * 2 * 96,
}


def test_tokens_attend_to_registers_and_the_head_does_not_read_them():
    model = vitbook.create_model("vit_registers_micro_patch2_8").eval()
    images = torch.randn(2, 1, 8, 8)
    assert model.num_prefix_tokens == 5 and model.features(images).shape[1] == 5 + 16
    tokens = model.features(images).detach().requires_grad_()
    model.head(tokens).sum().backward()
    assert tokens.grad[:, 0].abs().max() > 0 and not tokens.grad[:, 1:5].any()
    whole = model(images)
    model.prefix.data[1:] += torch.randn(4, 64)
    assert (model(images) - whole).abs().max() > 1e-3
