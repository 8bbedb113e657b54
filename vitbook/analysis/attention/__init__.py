"""What attention maps say: how far heads look, what reaches the end, which heads matter.

Maps come from `capture`. What asks which pixels decide an answer belongs in `attribution`.
"""
