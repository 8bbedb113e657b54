"""Sets that come inside packages, and those that are made of them: nothing is fetched.

``digits`` and ``photos`` read what scikit-learn and scikit-image bring; the other places the
digits on a larger canvas. What is asked of images of any set belongs one floor up.
"""
