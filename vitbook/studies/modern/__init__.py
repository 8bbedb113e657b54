"""What the chapter on changes since 2021 shows: one change at a time, and what each costs."""
