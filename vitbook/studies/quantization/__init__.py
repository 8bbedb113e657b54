"""What the chapter on fewer bits measures."""
