"""What learns in a page: a Vision Transformer and a ResNet for WebAssembly, and their worker.

``vit.c`` and ``resnet.c`` are forward and backward, ``learning.h`` what both are made of and
AdamW; `tools/compile_trainer.py` compiles each with SIMD and without. ``trainer.js`` and what it
imports are the worker's text. Names and shapes are the library's, so that weights go both ways.
What a page draws of it belongs in `figures`.
"""
