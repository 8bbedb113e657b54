"""What one chapter alone needs, one module a chapter, called as the chapter is.

Its measurements, one-off probes and plots, planted faults and numbers stand here, and go when the
chapter goes. What two chapters share, or a user of the library would import, belongs in the core.
A study takes from the core, never from another study, and nothing of the core takes from a study.
"""
