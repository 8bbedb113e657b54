"""Ways for tokens to attend, one idea a file: which pairs meet, and what weighs them.

Softmax attention of all pairs is `softmax`, and what others vary; windows and axes, low ranks and
kernels, nearness and turned angles, and weights that are used again follow. Blocks and encoders
around them belong in `layers`.
"""
