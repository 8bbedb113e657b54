"""Small data and small models for runs, and whether two of them have the same bits."""

import torch

import vitbook
from vitbook import datasets
from vitbook.datasets import Dataset


class PulledPlugError(Exception):
    """A run that stops dead."""


def few_digits(split="train", n=128):
    whole = datasets.load("digits", split)
    return Dataset(whole.images[:n], whole.labels[:n], whole.class_names, whole.provenance)


def micro(name="vit_micro_patch2_8", seed=0):
    torch.manual_seed(seed)
    return vitbook.create_model(name)


def bits(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(ours, theirs):
    return ours.keys() == theirs.keys() and all(torch.equal(ours[n], theirs[n]) for n in ours)
