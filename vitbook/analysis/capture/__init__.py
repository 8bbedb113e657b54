"""What any model attends to and gives out, seen without changing it; where its patches lie.

All other rooms of `analysis` stand on this one: `record` sees attention, `outputs` what layers
give, `layout` the grid, `running` a model that is run for a look. What a map means belongs there.
"""
