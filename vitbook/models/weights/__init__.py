"""Weights that others trained: fetched, told apart by their bytes, and put into our models.

`pretrained` fetches by name; `timm`, `google` and `authors` read what these have published, by
the rules in `names` and the engine in `renaming`. No architecture belongs here. Nothing here
unpickles a file, but `efficientnet_lite` one whose digest is pinned, by torch's reader of tensors.
"""
