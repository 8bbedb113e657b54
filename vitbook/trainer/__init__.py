"""A Vision Transformer that learns in a page: its step for WebAssembly, and the worker.

``trainer.c`` is forward, backward and AdamW, which `tools/compile_trainer.py` compiles to
``trainer.wasm``; ``trainer.js`` is the worker's text. Names and shapes of the parameters are the
library's, so that weights go both ways. What a page draws of it belongs in `figures`.
"""
