"""BERT's uncased WordPiece: from a sentence to the numbers of its pieces.

Special tokens are never read from text: `[SEP]` typed by a person is three words.
"""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

_LONGEST_WORD = 100
"""A word of more characters is unknown."""
_CJK = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)
_CONTROL = {"Cc", "Cf", "Co", "Cs"}


class WordPiece:
    """Splits sentences into pieces of a vocabulary."""

    def __init__(self, vocabulary: Sequence[str]):
        self._ids = {piece: i for i, piece in enumerate(vocabulary)}
        self.start, self.end = self._ids["[CLS]"], self._ids["[SEP]"]
        self._unknown = self._ids["[UNK]"]

    @classmethod
    def read(cls, path: Path) -> "WordPiece":
        """From `vocab.txt`: one piece a line."""
        return cls(path.read_text(encoding="utf-8").rstrip("\n").split("\n"))

    def ids(self, sentence: str, most: int) -> list[int]:
        """Numbers of the pieces between those of start and end, `most` in all."""
        pieces = [i for word in words(sentence) for i in self._pieces(word)]
        return [self.start, *pieces[: most - 2], self.end]

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
    """Lower-case words without accents; punctuation and CJK signs by themselves."""
    spaced = "".join(map(_spaced, sentence))
    plain = "".join(
        c
        for c in unicodedata.normalize("NFD", spaced)
        if unicodedata.category(c) != "Mn"
    )
    return "".join(f" {c} " if _is_punctuation(c) else c.lower() for c in plain).split()


def _spaced(c: str) -> str:
    """White space as a space, CJK signs between spaces, control characters gone."""
    if c in "\t\n\r" or unicodedata.category(c) == "Zs":
        return " "
    if c == "\ufffd" or unicodedata.category(c) in _CONTROL:
        return ""
    return f" {c} " if any(low <= ord(c) <= high for low, high in _CJK) else c


def _is_punctuation(c: str) -> bool:
    # Signs such as $ and ^ count too, as all of ASCII that is no letter or digit.
    in_ascii = "!" <= c <= "~" and not c.isalnum()
    return in_ascii or unicodedata.category(c).startswith("P")
