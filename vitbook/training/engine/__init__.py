"""How weights change: the loop, its batches and optimiser, what is kept on the way, checkpoints.

One step, one epoch, one run to the same bits, on one process or several. What a batch is asked
belongs in `objectives`; what is fitted to weights that stay, in `transfer`.
"""
