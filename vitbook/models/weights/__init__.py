"""Weights that others trained: fetched, told apart by their bytes, and put into our models.

`pretrained` fetches by name; `timm`, `google` and `authors` read what these have published, by
the rules in `names` and the engine in `renaming`. No architecture belongs here, and nothing here
unpickles a file.
"""
