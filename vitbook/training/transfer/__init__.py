"""What is made of weights that have learned: a start elsewhere, frozen readers, fewer bits.

Fine-tuning itself is a run of the `engine`.
"""
