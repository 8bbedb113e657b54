"""One paper a file: a factory that composes its network from `layers`, and the table of its sizes.

A file's `MODELS` says what the catalogue has of it: each factory with its settings by name. Parts
belong in `layers`; weights that others trained, in `weights`.
"""
