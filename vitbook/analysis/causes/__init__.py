"""Causes instead of maps: what a part of a model does to its answer.

What is put in the place of it (`patching`), what the answer would be already there (`lens`), and
what it adds to each logit (`contributions`).
"""
