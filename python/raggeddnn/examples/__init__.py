"""Real work on packed batches, beside the same work on padded ones.

``python -m raggeddnn.examples.embeddings`` embeds sentences with a trained BERT encoder;
``python -m raggeddnn.examples.train_gpt`` trains a small GPT. Both are plain PyTorch whose
attention is ours, compare their results with the padded model's, and time both.
``pip install raggeddnn[examples]`` brings what they need.
"""
