"""The shapes of the models of `./dev bench cpu`, and what their rows cost."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A decoder-only transformer with a tied embedding."""

    architecture: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    mlp: int
    vocabulary: int
    rope_base: float
    epsilon: float
    head_norm: bool = False

    def matrices(self):
        """(name, outputs, inputs) of a layer's linear layers."""
        q, kv = self.heads * self.head_size, self.kv_heads * self.head_size
        return [
            ("attn_q", q, self.hidden),
            ("attn_k", kv, self.hidden),
            ("attn_v", kv, self.hidden),
            ("attn_output", self.hidden, q),
            ("ffn_gate", self.mlp, self.hidden),
            ("ffn_up", self.mlp, self.hidden),
            ("ffn_down", self.hidden, self.mlp),
        ]

    def linear_weights(self):
        """Weights that a row of a prompt is multiplied with: all layers, no output head."""
        return self.layers * sum(n * k for _, n, k in self.matrices())

    def head_weights(self):
        return self.vocabulary * self.hidden

    def attention_operations(self, keys):
        """Operations of one row's attention over so many keys, all layers: two products, a multiply and an add each."""
        return 4 * self.layers * self.heads * self.head_size * keys

    def prefill_operations(self, tokens):
        """Operations of a prompt whose last row alone has logits. Row i sees i + 1 keys."""
        attention = self.attention_operations((tokens + 1) / 2)
        return tokens * (2 * self.linear_weights() + attention) + 2 * self.head_weights()

    def decode_operations(self, keys):
        return 2 * (self.linear_weights() + self.head_weights()) + self.attention_operations(keys)

    def kv_bytes(self, keys, element=2):
        """Bytes of keys and values that one row reads."""
        return 2 * self.layers * self.kv_heads * self.head_size * element * keys


SHAPES = {
    "smollm2-135m": Shape("llama", 576, 30, 9, 3, 64, 1536, 49152, 1e5, 1e-5),
    "qwen3-0.6b": Shape("qwen3", 1024, 28, 16, 8, 128, 3072, 151936, 1e6, 1e-6, head_norm=True),
    "llama-3.2-1b": Shape("llama", 2048, 16, 32, 8, 64, 8192, 128256, 5e5, 1e-5),
}
