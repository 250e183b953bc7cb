"""What nothing of the package imports unless it is used."""

LAZY_IMPORTS = {
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "rich",
    "matplotlib",
    "ml_dtypes",
    "cuda",
    "hip",
}
