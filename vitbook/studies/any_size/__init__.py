"""What the chapter on any size shows: other patches, rectangles, packed sequences."""
