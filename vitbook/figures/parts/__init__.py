"""What two or more live figures share; what one of them needs lies in its own folder."""
