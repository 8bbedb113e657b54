"""What the `vitbook` command does, a file a group.

A command reads what was typed, calls the library, and says what came out, or in one sentence why
not. It computes nothing that a cell could not call: that belongs in the room of its subject.
"""
