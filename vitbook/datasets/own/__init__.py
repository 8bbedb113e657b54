"""Pictures of one's own as a data set: what is at a path, and how it is kept.

``folder`` and ``table`` say what is there and open nothing, ``visit`` goes through folders,
``kept`` reads every picture once, and ``squares`` are what a model takes of them. Sets that the
book has a name for do not belong here. What cannot be one data set is a ``DatasetError``.
"""
