"""What the `vitbook` command does, a file a group."""
