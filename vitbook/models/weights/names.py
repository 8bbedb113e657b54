"""What timm and authors call the parameters of our models: (our name, theirs, layout).

The first pattern that matches our name wins. Their number of a token block and ours are the same.
A layout is the einops pattern from our tensor to theirs, where the two differ. Patches are
flattened as (channels, rows, columns) by us, and with the channels last by SL-ViT's authors.
"""

Names = tuple[tuple[str, str, str], ...]

# Blocks, last norm and head: timm's words, taken over by DeiT and T2T-ViT.
_ENCODER = (
    (r"^encoder\.blocks\.(\d+)\.(norm[12])\.", r"blocks.\1.\2.", ""),
    (r"^encoder\.blocks\.(\d+)\.attention\.qkv\.", r"blocks.\1.attn.qkv.", ""),
    (r"^encoder\.blocks\.(\d+)\.attention\.projection\.", r"blocks.\1.attn.proj.", ""),
    (r"^encoder\.blocks\.(\d+)\.mlp\.expand\.", r"blocks.\1.mlp.fc1.", ""),
    (r"^encoder\.blocks\.(\d+)\.mlp\.contract\.", r"blocks.\1.mlp.fc2.", ""),
    (r"^encoder\.blocks\.(\d+)\.scale([12])\.factor$", r"blocks.\1.ls\2.gamma", ""),
    (r"^encoder\.norm\.", "norm.", ""),
    (r"^head\.classifier\.", "head.", ""),
    (r"^prefix\.0$", "cls_token", "d -> 1 1 d"),
    (r"^position\.table$", "pos_embed", "n d -> 1 n d"),
)

# github.com/facebookresearch/deit, models.py.
DEIT_NAMES: Names = (
    *_ENCODER,
    (r"^prefix\.1$", "dist_token", "d -> 1 1 d"),
    (r"^tokenizer\.projection\.", "patch_embed.proj.", ""),
    (r"^head\.distillation\.", "head_dist.", ""),
)

# timm: DeiT's names, and those of the hybrid's residual network.
_STAGE = r"^tokenizer\.stages\.(\d+)\.(\d+)\."
_THEIR_STAGE = r"patch_embed.backbone.stages.\1.blocks.\2."
TIMM_TRANSFORMER_NAMES: Names = (
    *DEIT_NAMES,
    (r"^tokenizer\.(conv|norm)\.", r"patch_embed.backbone.stem.\1.", ""),
    (_STAGE + r"shortcut\.0\.", _THEIR_STAGE + "downsample.conv.", ""),
    (_STAGE + r"shortcut\.1\.", _THEIR_STAGE + "downsample.norm.", ""),
    (_STAGE + r"((?:norm|conv)[123])\.", _THEIR_STAGE + r"\3.", ""),
)
TIMM_BIT_NAMES: Names = (
    (r"^stem\.0\.", "stem.conv.", ""),
    (r"^stages\.(\d+)\.(\d+)\.shortcut\.", r"stages.\1.blocks.\2.downsample.conv.", ""),
    (r"^stages\.(\d+)\.(\d+)\.((?:norm|conv)[123])\.", r"stages.\1.blocks.\2.\3.", ""),
    # The head is a convolution of one pixel.
    (r"^head\.classifier\.weight$", "head.fc.weight", "classes d -> classes d 1 1"),
    (r"^head\.classifier\.bias$", "head.fc.bias", ""),
)

# github.com/google-research, vision_transformer, big_vision and big_transfer: theirs -> timm's,
# which counts stages and their blocks from 0.
GOOGLE_LEAVES = {"kernel": "weight", "scale": "weight", "gamma": "weight", "beta": "bias"}
_GOOGLE_BLOCK = r"Transformer/encoderblock_(\d+)/"
_UNIT, _BIT_UNIT = r"block(\d+)/unit(\d+)/", r"resnet/block(\d+)/unit(\d+)/"
_STEM, _BACKBONE = "patch_embed.backbone.stem.", "patch_embed.backbone.stages.{}.blocks.{}."
_FILTERS = "/standardized_conv2d"
GOOGLE_NAMES = (
    (r"embedding", "patch_embed.proj"),
    (r"Transformer/encoder_norm", "norm"),
    (_GOOGLE_BLOCK + r"LayerNorm_0", "blocks.{}.norm1"),
    (_GOOGLE_BLOCK + r"LayerNorm_[12]", "blocks.{}.norm2"),
    (_GOOGLE_BLOCK + r"MlpBlock_[03]/Dense_0", "blocks.{}.mlp.fc1"),
    (_GOOGLE_BLOCK + r"MlpBlock_[03]/Dense_1", "blocks.{}.mlp.fc2"),
    (r"head", "head"),
    (r"pre_logits", "head.hidden.0"),
    (r"conv_root", _STEM + "conv"),
    (r"gn_root", _STEM + "norm"),
    (_UNIT + r"conv_proj", _BACKBONE + "downsample.conv"),
    (_UNIT + r"gn_proj", _BACKBONE + "downsample.norm"),
    *((_UNIT + f"conv{n}", _BACKBONE + f"conv{n}") for n in (1, 2, 3)),
    *((_UNIT + f"gn{n}", _BACKBONE + f"norm{n}") for n in (1, 2, 3)),
    (r"resnet/root_block" + _FILTERS, "stem.conv"),
    (_BIT_UNIT + "a/proj" + _FILTERS, "stages.{}.blocks.{}.downsample.conv"),
    *(
        (_BIT_UNIT + part + theirs, f"stages.{{}}.blocks.{{}}.{ours}{n}")
        for n, part in enumerate("abc", start=1)
        for theirs, ours in ((_FILTERS, "conv"), ("/group_norm", "norm"))
    ),
    (r"resnet/group_norm", "norm"),
    (r"resnet/head/conv2d", "head.fc"),
)

# github.com/yitu-opensource/T2T-ViT, models/t2t_vit.py; the token blocks in token_performer.py
# and token_transformer.py.
_T2T = (
    *_ENCODER,
    (r"^tokenizer\.block(\d)\.(norm[12]|kqv)\.", r"tokens_to_token.attention\1.\2.", ""),
    (r"^tokenizer\.block(\d)\.core\.directions$", r"tokens_to_token.attention\1.w", ""),
    (r"^tokenizer\.projection\.", "tokens_to_token.project.", ""),
)
T2T_PERFORMER_NAMES: Names = (
    *_T2T,
    (r"^tokenizer\.block(\d)\.projection\.", r"tokens_to_token.attention\1.proj.", ""),
    (r"^tokenizer\.block(\d)\.mlp\.expand\.", r"tokens_to_token.attention\1.mlp.0.", ""),
    (r"^tokenizer\.block(\d)\.mlp\.contract\.", r"tokens_to_token.attention\1.mlp.2.", ""),
)
T2T_TRANSFORMER_NAMES: Names = (
    *_T2T,
    (r"^tokenizer\.block(\d)\.qkv\.", r"tokens_to_token.attention\1.attn.qkv.", ""),
    (r"^tokenizer\.block(\d)\.projection\.", r"tokens_to_token.attention\1.attn.proj.", ""),
    (r"^tokenizer\.block(\d)\.mlp\.expand\.", r"tokens_to_token.attention\1.mlp.fc1.", ""),
    (r"^tokenizer\.block(\d)\.mlp\.contract\.", r"tokens_to_token.attention\1.mlp.fc2.", ""),
)

# github.com/aanna0701/SPT_LSA_ViT, models/vit.py and models/SPT.py.
_LAYER = r"^encoder\.blocks\.(\d+)\."
_SMALL = (
    (r"^prefix\.0$", "cls_token", "d -> 1 1 d"),
    (r"^position\.table$", "pos_embedding", "n d -> 1 n d"),
    (_LAYER + r"norm1\.", r"transformer.layers.\1.0.norm.", ""),
    (_LAYER + r"attention\.qkv\.", r"transformer.layers.\1.0.fn.to_qkv.", ""),
    (_LAYER + r"attention\.temperature$", r"transformer.layers.\1.0.fn.scale", ""),
    (_LAYER + r"attention\.projection\.", r"transformer.layers.\1.0.fn.to_out.0.", ""),
    (_LAYER + r"norm2\.", r"transformer.layers.\1.1.norm.", ""),
    (_LAYER + r"mlp\.expand\.", r"transformer.layers.\1.1.fn.net.0.", ""),
    (_LAYER + r"mlp\.contract\.", r"transformer.layers.\1.1.fn.net.3.", ""),
    (r"^encoder\.norm\.", "mlp_head.0.", ""),
    (r"^head\.classifier\.", "mlp_head.1.", ""),
)
SL_PATCH_NAMES: Names = (
    *_SMALL,
    (r"^tokenizer\.projection\.weight$", "to_patch_embedding.1.weight", "d c p q -> d (p q c)"),
    (r"^tokenizer\.projection\.bias$", "to_patch_embedding.1.bias", ""),
)
_MERGING = "to_patch_embedding.merging."
SL_SHIFTED_NAMES: Names = (
    *_SMALL,
    (r"^tokenizer\.norm\.", _MERGING + "1.", "(c p q) -> (p q c)"),
    (r"^tokenizer\.projection\.weight$", _MERGING + "2.weight", "d (c p q) -> d (p q c)"),
    (r"^tokenizer\.projection\.bias$", _MERGING + "2.bias", ""),
)
