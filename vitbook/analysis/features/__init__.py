"""What layers compute: filters, channels, positions, components, sizes, gradients, rounding.

Who attends to whom belongs in `attention`; which pixels decide, in `attribution`.
"""
