"""What timm calls the parameters of our models: (its pattern, our name), the first match wins."""

_BLOCK = r"^patch_embed\.backbone\.stages\.(\d+)\.blocks\.(\d+)\."

# ViT, DeiT and the hybrid.
TRANSFORMER_NAMES = (
    (r"^patch_embed\.backbone\.stem\.(conv|norm)\.", r"tokenizer.\1."),
    (_BLOCK + r"downsample\.conv\.", r"tokenizer.stages.\1.\2.shortcut.0."),
    (_BLOCK + r"downsample\.norm\.", r"tokenizer.stages.\1.\2.shortcut.1."),
    (_BLOCK + r"((?:norm|conv)[123])\.", r"tokenizer.stages.\1.\2.\3."),
    (r"^patch_embed\.proj\.", "tokenizer.projection."),
    (r"^cls_token$", "prefix"),
    (r"^pos_embed$", "position.table"),
    (r"^blocks\.(\d+)\.(norm[12])\.", r"encoder.blocks.\1.\2."),
    (r"^blocks\.(\d+)\.attn\.qkv\.", r"encoder.blocks.\1.attention.qkv."),
    (r"^blocks\.(\d+)\.attn\.proj\.", r"encoder.blocks.\1.attention.projection."),
    (r"^blocks\.(\d+)\.mlp\.fc1\.", r"encoder.blocks.\1.mlp.expand."),
    (r"^blocks\.(\d+)\.mlp\.fc2\.", r"encoder.blocks.\1.mlp.contract."),
    (r"^norm\.", "encoder.norm."),
    (r"^head\.", "head.classifier."),
    (r"^head_dist\.", "head.distillation."),
)

BIT_NAMES = (
    (r"^stem\.conv\.", "stem.0."),
    (r"^stages\.(\d+)\.blocks\.(\d+)\.downsample\.conv\.", r"stages.\1.\2.shortcut."),
    (r"^stages\.(\d+)\.blocks\.(\d+)\.((?:norm|conv)[123])\.", r"stages.\1.\2.\3."),
    (r"^head\.fc\.", "head.classifier."),
)
