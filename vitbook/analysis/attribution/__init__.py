"""Which pixels an answer rests on, and whether such an explanation is right.

Explanations by gradients, by taking parts away, and controls that know nothing of the model; scores
of them by the model itself and where the truth is known. Maps of heads belong in `attention`.
"""
