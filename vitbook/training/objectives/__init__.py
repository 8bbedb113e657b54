"""What a run learns to answer: labels, a teacher, or what images tell without labels.

A file has one objective: its question of a batch, its loss, what it adds to a body, and a null.
How steps are taken belongs in `engine`.
"""
