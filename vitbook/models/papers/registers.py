"""Registers (Darcet et al. 2024, "Vision Transformers Need Registers")."""

from vitbook.models.papers.vit import MICRO, MINI, vit

NUM_REGISTERS = 4

# The tokens are class, registers, patches (section 2.2): a register is learned, attends and is
# attended to like the class token, and no head reads it. The paper's have no position of their
# own; here a register's row in the table of positions is added to it, as the class token's is.
REGISTERS = dict(num_prefix_tokens=1 + NUM_REGISTERS)

# Settings of `vit`.
REGISTER_MODELS = {
    "vit_registers_micro_patch2_8": MICRO | REGISTERS,
    "vit_registers_mini_patch4_32": MINI["patch4_32"] | REGISTERS,
}

MODELS = {vit: REGISTER_MODELS}
