"""What the chapter on distillation needs alone: a teacher on photographs, and what runs show."""
