"""Parquet files with encoded images, in the layout of the Hugging Face Hub.

``shards`` reads a file and ``shard_writer`` makes one; ``reading`` turns them into images in
memory, or looks at every one, and ``pack`` cuts them small, to be carried away. What is wrong
with a file is a ``DatasetError`` that names it; a full disk is an ``OSError``.
"""
