"""What a run learns to answer: labels, a teacher, or what a `Learner` asks of images alone.

Here is what every run needs of it. Each learner, its question of a batch, its loss and its control,
stands in the study of its chapter. How steps are taken belongs in `engine`.
"""
